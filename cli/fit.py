"""gradskip-onnx study fit: fits the weights of gradskip+ to the user's own model, and keeps them beside it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .evaluation_options import SOME_FAILED, data_options, output_option, resamples_option, settings_options

if TYPE_CHECKING:
    from gradskip_onnx.evaluation.fit import Fit

EXAMPLES = """\b
Examples:
  gradskip-onnx study fit model.onnx photos
  gradskip-onnx study fit model.onnx photos --limit 100 --steps 16
  gradskip-onnx study fit model.onnx planted:40 --keep -o fit
"""


@click.command(epilog=EXAMPLES, short_help="Fit the weights of gradskip+ to a model, and keep them beside it.")
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", metavar="DATA|planted:COUNT")
@click.option("--steps", type=click.IntRange(1, 4096), default=8, show_default=True,
              help="Parts in which the pixels change, for each curve.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Draws the halves.")
@click.option("--keep", is_flag=True, help="Keep the options also if they are not better on the held-out half.")
@output_option("gradskip-fit", "what was measured, from which a stopped run goes on")
@data_options
@resamples_option
@click.option("--force", is_flag=True, help="Use a folder that holds results of another model, data or settings.")
@settings_options
def fit(model: Path, data: str, steps: int, seed: int, keep: bool, **flags: Any) -> None:
    """Fit the weights of gradskip+ to MODEL on the images of DATA, and keep them beside it.

    The blocks that are read (first, last), detail, pixels and share are searched on one half of the images, for the
    best mean of Insertion-Deletion on mean, black and random. The other half compares them with the defaults. If they
    are better there, MODEL.gradskip.json keeps them, and `explain` and `load` use them from then on.
    """
    from gradskip_onnx.evaluation.fit import as_document, plan_fit
    from gradskip_onnx.evaluation.fit import fit as run_fit
    from gradskip_onnx.evaluation.fit import keep as write_options
    from gradskip_onnx.pipeline.fitted_options import path_beside

    from .console import Terminal
    from .evaluation_options import open_both
    from .evaluation_tables import fit_table

    terminal = Terminal(flags["verbose"], flags["quiet"], flags["as_json"])
    explainer, dataset = open_both(model, data, terminal, flags)
    plan, warnings = plan_fit(
        explainer, dataset, steps=steps, seed=seed, target=flags["target"], batch=flags["batch_size"]
    )
    terminal.warn(warnings)
    with terminal.progress(plan.steps) as step:
        found = run_fit(plan, flags["output"], resamples=flags["resamples"], step=step, force=flags["force"])
    path, kept = path_beside(model), found.better or keep
    if kept:
        write_options(found, path)
    terminal.document(as_document(found) | {"kept": str(path) if kept else None}, single=True)
    search = found.search
    tuned = f"{search.tried} settings on {len(plan.tuning.dataset.entries)} images"
    terminal.print(f"searched  {tuned}: {search.start:.3f} by default, {search.score:.3f} at best")
    terminal.print(f"found     {found.fitted.label}")
    terminal.print(f"judged    on the other {len(plan.held_out.dataset.entries)} images, 95 % intervals")
    terminal.print("")
    terminal.table(fit_table(found))
    terminal.print("")
    terminal.print(_verdict(found, kept, path), style="bold" if kept else "")
    if found.failures:
        image, reason = next(iter(found.failures.items()))
        terminal.failed(f"{len(found.failures)} images failed, the first: {image}: {reason}")
        raise click.exceptions.Exit(SOME_FAILED)


def _verdict(found: Fit, kept: bool, path: Path) -> str:
    if kept:
        return f"kept      {path}{'' if found.better else ', though not better beyond doubt (--keep)'}"
    earlier = "; an earlier fit stays there" if path.exists() else ""
    reason = "the interval of the difference reaches 0 or below" if found.changed else "nothing beats the defaults"
    return f"not kept  {reason}{earlier}"
