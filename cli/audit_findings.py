"""The findings of a finished audit: written, printed, and held against a policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gradskip_onnx.errors import InputError

from .options import stack

if TYPE_CHECKING:
    from rich.table import Table

    from gradskip_onnx.audit.reading import Audit
    from gradskip_onnx.findings.found import Finding, Findings
    from gradskip_onnx.findings.policy import Policy
    from gradskip_onnx.findings.violations import Violation

    from .console import Terminal

VIOLATED = 5
SHOWN = 20  # violations that are printed; the file has all

policy_option = click.option("--policy", type=click.Path(path_type=Path), metavar="FILE",
                             help="TOML with thresholds; exit code 5 if one is not kept.")  # fmt: skip
findings_options = stack(
    policy_option,
    click.option("--baseline", metavar="DIR", help="Folder of an earlier audit: how much each finding has changed."),
)


def read_request(flags: Mapping[str, Any], regions: Iterable[str]) -> tuple[Policy | None, Audit | None]:
    """The policy and the baseline that the options name; raises InputError, best before the audit runs."""
    from gradskip_onnx.audit.reading import read_audit
    from gradskip_onnx.findings.find import finding_names
    from gradskip_onnx.findings.policy import read_policy

    policy = None if flags["policy"] is None else read_policy(flags["policy"], finding_names(regions))
    baseline = None if flags["baseline"] is None else read_audit(flags["baseline"])
    if baseline is not None and not baseline.whole:
        raise InputError(f"baseline {baseline.place.name}: this audit is not finished; run its command again")
    if policy is not None and baseline is None and any(one.section == "drift" for one in policy.thresholds):
        raise InputError(f"policy {flags['policy']}: it has thresholds of drift; name the earlier audit by --baseline")
    return policy, baseline


def find_and_judge(audit: Audit, terminal: Terminal, flags: Mapping[str, Any]) -> int:
    """Write findings.json, and with a policy violations.json; exit code 5 if it is not kept."""
    from gradskip_onnx.findings.documents import FINDINGS, VIOLATIONS, encode_findings, encode_violations
    from gradskip_onnx.findings.find import find, region_names
    from gradskip_onnx.findings.violations import check

    policy, baseline = read_request(flags, region_names(audit.facts))
    found = find(audit, baseline)
    audit.place.write(FINDINGS, encode_findings(found))
    if found.baseline is not None and found.baseline.differs:
        words = ", ".join(found.baseline.differs)
        terminal.warn([f"baseline {flags['baseline']} differs in {words}: a change need not be one of the model"])
    _print_findings(found, audit, terminal)
    if policy is None:
        audit.place.remove(VIOLATIONS)
        return 0
    violations = check(policy, found, audit)
    audit.place.write(VIOLATIONS, encode_violations(violations, policy.sha256))
    return print_verdict(violations, terminal)


def print_verdict(violations: tuple[Violation, ...], terminal: Terminal) -> int:
    """Print what violates the policy, and return the exit code."""
    for one in violations[:SHOWN]:
        terminal.failed(f"policy: {one.text}")
    if len(violations) > SHOWN:
        terminal.failed(f"policy: {len(violations) - SHOWN} more violations are in violations.json")
    if not violations:
        terminal.print("policy    kept", style="bold green")
    return VIOLATED if violations else 0


def _print_findings(found: Findings, audit: Audit, terminal: Terminal) -> None:
    terminal.print("")
    terminal.table(findings_table(found.findings, {one.finding: one for one in found.drift}))
    for finding in found.findings:
        for flag in finding.flagged[:3]:
            name = "all images" if flag.index is None else audit.label_of(flag.index)
            terminal.print(f"look at   {finding.name} of {name}: {flag.why}")
    for one in found.clusters:
        if one.minority:
            name = "all images" if one.index is None else audit.label_of(one.index)
            terminal.print(f"look at   a cluster of {name}: {one.why}", style="yellow")


def findings_table(findings: Iterable[Finding], drift: Mapping[str, Any]) -> Table:
    """Values with intervals, and the drift where there is some."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("finding", "value", "95 % interval", "images", *(["drift"] if drift else [])):
        table.add_column(title, justify="left" if title == "finding" else "right")
    for one in findings:
        if one.overall is None:
            continue
        cells = [one.name, f"{one.overall.value:.3f}", f"{one.overall.low:.3f} … {one.overall.high:.3f}",
                 str(one.overall.count)]  # fmt: skip
        if drift:
            change = drift[one.name].overall if one.name in drift else None
            cells.append("" if change is None else f"{change.value:+.3f} ({change.low:+.3f} … {change.high:+.3f})")
        table.add_row(*map(_plain, cells))
    return table


def _plain(text: str) -> Any:
    from rich.text import Text

    from gradskip_onnx.errors import printable

    return Text(printable(text))
