"""gradskip-onnx verify: checks an audit against its manifest by hashes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .options import json_option, verbosity_options

if TYPE_CHECKING:
    from gradskip_onnx.evidence.check import Check

    from .console import Terminal

EXAMPLES = """\b
Examples:
  gradskip-onnx verify audit
  gradskip-onnx verify audit --model model.onnx --data photos
  gradskip-onnx verify audit --expect 5d41...          the hash that `audit` printed
  gradskip-onnx verify audit --public-key public.pem   a signed audit
"""

COLOURS = {"ok": "green", "failed": "bold red", "not checked": "yellow"}
MANY = "parts/"  # checks of parts are printed with -v only, unless they fail


@click.command(epilog=EXAMPLES)
@click.argument("folder", metavar="DIR")
@click.option("--model", type=click.Path(path_type=Path), metavar="FILE", help="The model, to check its files too.")
@click.option("--data", metavar="DATA", help="The images, to check them too; planted scenes are drawn anew.")
@click.option("--expect", metavar="HASH", help="SHA-256 that manifest.json must have.")
@click.option("--public-key", type=click.Path(path_type=Path), metavar="FILE",
              help="PEM file of the key that belongs to the one of `audit --sign`; needs the extra sign.")  # fmt: skip
@json_option
@verbosity_options
def verify(
    folder: str, model: Path | None, data: str | None, expect: str | None, public_key: Path | None,
    as_json: bool, verbose: bool, quiet: bool,
) -> None:  # fmt: skip
    """Check the folder DIR of an audit by hashes alone: every file, every part, and what they say of each other.

    With --model and --data the model and the images are checked too. Exit code 5 if anything differs, which is named.
    """
    from dataclasses import asdict

    from gradskip_onnx.audit.place import open_place
    from gradskip_onnx.evidence.verify import Verification, count_of, verify

    from .console import Terminal

    terminal = Terminal(verbose, quiet, as_json)
    place = open_place(folder)
    with terminal.progress(count_of(place, data)) as step:
        found = verify(Verification(place, expect, public_key, model, data, step=step))
    terminal.document({**asdict(found), "verified": not found.failed}, single=True)
    report_checks(terminal, found.checks, found.failed)
    if found.manifest:
        terminal.print(f"{'manifest':<12} sha256 {found.manifest}")
    if not found.failed:
        terminal.print(f"verified: {found.proves}", style="bold")


def report_checks(terminal: Terminal, checks: Sequence[Check], failed: Sequence[Check]) -> None:
    """A line a check; raises VerificationError, which names the first that failed."""
    from gradskip_onnx.errors import VerificationError

    for check in checks:
        if check.state != "ok" or terminal.verbose or not check.what.startswith(MANY):
            terminal.print(f"{check.state:<12} {check.what:<28} {check.text}".rstrip(), style=COLOURS[check.state])
    if failed:
        rest = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
        raise VerificationError(
            f"{len(failed)} of {len(checks)} checks failed: {failed[0].what} ({failed[0].text}){rest}"
        )
