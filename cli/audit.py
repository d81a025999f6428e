"""gradskip-onnx audit: explains a whole data set, measures and checks every map, and says what was found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .audit_evidence import check_request, evidence_options, seal, write_pages
from .audit_findings import findings_options, read_request
from .evaluation_options import SOME_FAILED, RecordedCommand, data_options, open_both, score_option, settings_options
from .options import stack

if TYPE_CHECKING:
    from gradskip_onnx.api import Explainer
    from gradskip_onnx.audit.reading import Audit
    from gradskip_onnx.audit.settings import AuditSettings, Step
    from gradskip_onnx.datasets import Dataset

    from .console import Bar, Terminal

# Keys of audit.settings.FILLS and ENGINES, without importing them for --help.
FILL_NAMES = ("mean", "blur", "black")
ENGINE_NAMES = ("local", "ray")

EXAMPLES = """\b
Examples:
  gradskip-onnx audit model.onnx photos -o audit
  gradskip-onnx audit model.onnx list.csv --region logo=corner:bottom-right:0.2 --region dates=text -o audit
  gradskip-onnx audit model.onnx planted:1000 --method rollout --check-share 0.05 -o audit
  gradskip-onnx audit model.onnx imagenet/val --target label --privacy -o audit
  gradskip-onnx audit model.onnx photos --workers 4 -o audit
  gradskip-onnx audit model.onnx photos -o audit --policy policy.toml --baseline last-month
  gradskip-onnx audit model.onnx s3://bucket/photos --engine ray --workers 32 -o s3://bucket/audit
"""


@dataclass(frozen=True, slots=True, eq=False)
class Finished:
    """An audit whose rows are all there, for the stages that follow."""

    audit: Audit
    explainer: Explainer
    dataset: Dataset
    terminal: Terminal
    flags: Mapping[str, Any]
    document: dict[str, Any]  # what --json prints; each stage adds what it has to say


def _summary(finished: Finished) -> int:
    """Print what the rows say; exit code 6 if some images failed."""
    from .audit_summary import print_summary

    finished.document.update(print_summary(finished.audit, finished.terminal))
    return SOME_FAILED if finished.document["failed"] else 0


def _findings(finished: Finished) -> int:
    """Write the findings and print them; exit code 5 if they violate the policy."""
    from .audit_findings import find_and_judge

    return find_and_judge(finished.audit, finished.terminal, finished.flags)


# What is done with a finished audit, in this order; each returns an exit code, and the smallest that is not 0 counts.
STAGES: tuple[Callable[[Finished], int], ...] = (_summary, _findings, write_pages, seal)

run_options = stack(
    click.option("--method", default="gradskip+", show_default=True, metavar="NAME",
                 help="See `gradskip-onnx methods`."),
    click.option("-O", "--option", "options", multiple=True, metavar="NAME=VALUE", help="An option of the method."),
    score_option,
    click.option("--region", "regions", multiple=True, metavar="NAME=KIND:...",
                 help="A part of the pictures to watch: box:L,T,R,B, corner:PLACE:SIDE, edge:PLACE:DEPTH, text, "
                 "watermark (fractions of the picture), or mask:FILE."),
    click.option("--region-file", type=click.Path(path_type=Path), metavar="FILE",
                 help='The same in TOML: logo = "corner:bottom-right:0.2".'),
    click.option("--check-share", type=float, default=0.1, show_default=True, metavar="FRACTION",
                 help="Share of the patches that the counterfactual check erases."),
    click.option("--check-fill", type=click.Choice(FILL_NAMES), default="mean", show_default=True,
                 help="What erased patches become."),
    click.option("--check-draws", type=click.IntRange(1, 1000), default=4, show_default=True,
                 help="Times that as many random patches are erased."),
    click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the random patches."),
    click.option("--privacy", is_flag=True, help="Keep hashes and maps, and no names of images."),
    click.option("--part-size", type=click.IntRange(min=1), metavar="N", help="Images of a Parquet part.  [default: up "
                 "to 256]"),
    click.option("--workers", type=click.IntRange(min=1), default=1, show_default=True,
                 help="Processes, each with its own sessions; the cores are shared among them."),
    click.option("--engine", type=click.Choice(ENGINE_NAMES), default="local", show_default=True,
                 help="ray: the workers are actors of Ray Data, of the cluster at RAY_ADDRESS or of this machine."),
    click.option("--retry", is_flag=True, help="Do the parts of an earlier run again that hold failed images."),
)  # fmt: skip


@click.command(epilog=EXAMPLES, cls=RecordedCommand)
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", metavar="DATA|planted:COUNT")
@click.option("-o", "--output", default="gradskip-audit", show_default=True, metavar="DIR",
              help="Folder of the audit, or an address of fsspec.")  # fmt: skip
@run_options
@findings_options
@evidence_options
@data_options
@settings_options
def audit(model: Path, data: str, **flags: Any) -> None:
    """Explain every image of DATA by MODEL; measure each map, and check it by erasing what it calls relevant.

    DATA is anything that `evaluate` takes, or a CSV or list of images. A run that was stopped goes on where it was, and
    a bad image has a row that says why. report.html shows what was found; `gradskip_onnx.read_audit`, pandas, polars or
    duckdb read all of it, and `verify` and `replay` check it later.
    """
    from gradskip_onnx.audit.run import run_audit
    from gradskip_onnx.findings.drift import require_comparable
    from gradskip_onnx.findings.violations import require_classes

    from .console import Terminal

    settings = read_settings(flags)
    policy, baseline = read_request(flags, [region.name for region in settings.regions])  # a mistake is said early
    check_request(flags)
    terminal = Terminal(flags["verbose"], flags["quiet"], flags["as_json"])
    explainer, dataset = open_both(model, data, terminal, flags)
    architecture = explainer.architecture
    if baseline is not None:
        require_comparable(baseline.facts, {"task": architecture.task, "classes": architecture.classes})
    if policy is not None:
        require_classes(policy, explainer.labels, architecture.classes)
    terminal.warn([*dataset.warnings, *unused_labels(dataset, explainer)])
    count = len(dataset.entries)
    with terminal.progress(count) as bar:
        found = run_audit(explainer, dataset, flags["output"], settings, lambda left: counting(bar, count - left))
    finished = Finished(found, explainer, dataset, terminal, flags, {})
    with found.place.held():  # of two runs at once, one would seal what the other is writing
        codes = [code for code in (stage(finished) for stage in STAGES) if code]
    terminal.document(finished.document, single=True)
    if codes:
        click.get_current_context().exit(min(codes))


def read_settings(flags: Mapping[str, Any]) -> AuditSettings:
    """The settings of an audit from the options; raises InputError for a value that cannot be."""
    from gradskip_onnx.audit.regions import read_regions
    from gradskip_onnx.audit.settings import AuditSettings, CheckSettings
    from gradskip_onnx.methods import choose_method, find_method

    from .options import read_method_options

    options = read_method_options(find_method(flags["method"]).options, flags["options"])
    names = ("score", "target", "seed", "batch_size", "privacy", "part_size", "workers", "engine", "retry")
    return AuditSettings(
        method=choose_method(flags["method"], **options),
        regions=read_regions(flags["regions"], flags["region_file"]),
        check=CheckSettings(flags["check_share"], flags["check_fill"], flags["check_draws"]),
        **{name: flags[name] for name in names},
    )


def unused_labels(dataset: Dataset, explainer: Explainer) -> list[str]:
    """Warnings about labels that the model does not know: nothing is said about right and wrong of their images."""
    from gradskip_onnx.evaluation.cases import resolve_labels

    return resolve_labels(dataset, explainer, required=False)[1]


def counting(bar: Bar, done: int) -> Step:
    """What is called after each image; those of an earlier run are counted at once."""
    bar.skip(done)
    return bar
