"""gradskip-onnx replay: runs a sample of an audit again and compares."""

from __future__ import annotations

import secrets
from pathlib import Path

import click

from .options import device_options, json_option, verbosity_options

EXAMPLES = """\b
Examples:
  gradskip-onnx replay audit --model model.onnx --data photos
  gradskip-onnx replay audit --model model.onnx --data photos --sample 100 --seed 7
  gradskip-onnx replay audit --model model.onnx --sample all     planted scenes are drawn anew
"""


def read_sample(_ctx: click.Context, _param: click.Parameter, value: str) -> int | None:
    """A number of images; None for all."""
    if value == "all":
        return None
    if not (value.isascii() and value.isdigit() and int(value[:10]) > 0):
        raise click.BadParameter(f"{value!r:.80}: write a number of images, or all")
    return int(value[:10])


@click.command(epilog=EXAMPLES)
@click.argument("folder", metavar="DIR")
@click.option("--model", type=click.Path(path_type=Path), required=True, metavar="FILE", help="The model.")
@click.option("--data", metavar="DATA", help="The images.  [default: the address recorded]")
@click.option("--sample", callback=read_sample, default="20", show_default=True, metavar="N|all",
              help="Images to run again, drawn at random.")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), metavar="N", help="Of the draw.  [default: a new one, printed]")
@click.option("--logit-tolerance", type=click.FloatRange(0), default=1e-3, show_default=True,
              help="Difference of the logit, as a share of it (of 1, if it is smaller).")  # fmt: skip
@click.option("--map-tolerance", type=click.FloatRange(0), default=0.01, show_default=True,
              help="Largest difference of two maps, as a share of the strongest score.")  # fmt: skip
@device_options
@json_option
@verbosity_options
def replay(
    folder: str, model: Path, data: str | None, sample: int | None, seed: int | None, logit_tolerance: float,
    map_tolerance: float, device: str, require_device: bool, threads: int | None, no_cache: bool, as_json: bool,
    verbose: bool, quiet: bool,
) -> None:  # fmt: skip
    """Run a sample of the images of the audit in DIR again, and compare classes, logits and maps with the record.

    The hashes of the folder are checked first. Exit code 5 if anything differs more than the tolerances allow.
    """
    from dataclasses import asdict

    from gradskip_onnx.audit.reading import read_audit
    from gradskip_onnx.evidence.manifest import MANIFEST
    from gradskip_onnx.evidence.replay import Tolerances, open_model, replay, sample_of
    from gradskip_onnx.evidence.sources import load_data
    from gradskip_onnx.evidence.verify import Verification, verify

    from .console import Terminal
    from .verify import report_checks

    terminal = Terminal(verbose, quiet, as_json)
    audit = read_audit(folder)
    if audit.place.exists(MANIFEST):
        checked = verify(Verification(audit.place, sources=False))
        if checked.failed:
            report_checks(terminal, checked.checks, checked.failed)
    else:
        terminal.warn([f"{folder}: there is no {MANIFEST}; what is replayed may have been changed since"])
    settings = {"device": device, "require_device": require_device, "threads": threads, "cache": not no_cache}
    explainer = open_model(str(model), audit.facts, **settings)
    chosen = secrets.randbelow(1 << 31) if seed is None else seed
    positions = sample_of(audit, audit.images if sample is None else sample, chosen)
    found = []
    with terminal.progress(len(positions)) as step:
        for one in replay(
            audit, explainer, load_data(audit.facts, data), positions, Tolerances(logit_tolerance, map_tolerance)
        ):
            found.append(one)
            step(one.image)
    wrong = [one.check for one in found if one.wrong]
    then, now = audit.facts["provider"], explainer.provider
    terminal.document(
        {"seed": chosen, "provider": {"then": then, "now": now}, "images": [asdict(one) for one in found],
         "verified": not wrong}, single=True,
    )  # fmt: skip
    report_checks(terminal, [one.check for one in found], wrong)
    terminal.print(f"provider     {now} (recorded: {then})")
    drawn = "all images" if sample is None else f"{len(found)} images, drawn with seed {chosen}"
    furthest = max((one.map or 0.0 for one in found), default=0.0)
    terminal.print(f"replayed: {drawn}; the furthest map is {furthest:.1e} of its strongest score away", style="bold")
