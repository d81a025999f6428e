"""What `audit` does with a finished audit beyond its findings: the report, and the manifest that seals all of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .options import stack

if TYPE_CHECKING:
    from .audit import Finished

evidence_options = stack(
    click.option("--sign", type=click.Path(path_type=Path), metavar="KEY",
                 help="Sign the manifest with a private key: PEM, an elliptic curve; needs the extra sign."),
)  # fmt: skip


def check_request(flags: Mapping[str, Any]) -> None:
    """Raise InputError for a key that cannot sign, best before the audit runs."""
    if flags["sign"] is not None:
        from gradskip_onnx.evidence.signing import signer_of

        signer_of(flags["sign"])


def write_pages(finished: Finished) -> int:
    """Write the page, its JSON and the section for a model card."""
    from gradskip_onnx.audit.private import as_unicode
    from gradskip_onnx.findings.documents import read_findings, read_violations
    from gradskip_onnx.report.write import write_report

    place = finished.audit.place
    images = {as_unicode(entry.id): entry.read for entry in finished.dataset.entries}
    page, *_ = write_report(finished.audit, read_findings(place), read_violations(place), lambda name: images[name]())
    finished.terminal.print(f"page      {place.name}/{page}", style="bold")
    finished.document["page"] = f"{place.name}/{page}"
    return 0


def seal(finished: Finished) -> int:
    """Write the manifest, and print its hash: whoever notes it can tell later whether anything was changed."""
    from gradskip_onnx.evidence.manifest import write_manifest

    found = write_manifest(finished.audit.place, finished.flags["sign"])
    signed = ", signed" if finished.flags["sign"] else ""
    finished.terminal.print(f"manifest  sha256 {found.sha256}{signed}")
    finished.document["manifest_sha256"] = found.sha256
    return 0
