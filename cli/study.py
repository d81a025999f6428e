"""gradskip-onnx study: repeats the studies of the paper on the user's own model and images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .evaluation_options import RecordedCommand, evaluation_options

STUDY_NAMES = ("gamma", "alpha", "heads")  # evaluation.studies.STUDIES, without importing it for --help

EXAMPLES = """\b
Examples:
  gradskip-onnx study gamma model.onnx photos -o gamma
  gradskip-onnx study alpha model.onnx photos --values 0,0.5,1 --limit 50 -o alpha
  gradskip-onnx study heads model.onnx photos --values gini -o heads
  gradskip-onnx study gamma model.onnx photos --method 'gradskip[gate=branch]' -o branch
"""


@click.command(epilog=EXAMPLES, cls=RecordedCommand)
@click.argument("name", type=click.Choice(STUDY_NAMES))
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", metavar="DATA|planted:COUNT")
@click.option("--method", default="gradskip", show_default=True, metavar="NAME[OPTION=VALUE,...]",
              help="The method studied, with the options that stay.")  # fmt: skip
@click.option("--values", metavar="A,B,...", help="What is compared: numbers; for `heads` gini and entropy.")
@click.option("--metrics", default="insertion-deletion", show_default=True, metavar="LIST", help="As for evaluate.")
@evaluation_options("gradskip-study")
def study(name: str, model: Path, data: str, method: str, values: str | None, metrics: str, **flags: Any) -> None:
    """Repeat a study of the paper on MODEL and the images of DATA.

    gamma: the threshold of the gradient flow. alpha: gradient flow against sparsity. heads: a quarter of the heads at
    a time, from the most focused to the least (Gini, entropy), with increments and tests. Data, options and files are
    those of `gradskip-onnx evaluate`, and a run that was stopped resumes.
    """
    from gradskip_onnx.evaluation.studies import STUDIES

    from .console import Terminal
    from .evaluation_options import finish, run, set_up
    from .listing import read_methods, read_metrics

    (row, bases) = STUDIES[name], read_methods(method)
    if len(bases) != 1:
        raise click.UsageError("--method takes one method")
    chosen = row.values if values is None else tuple(value.strip() for value in values.split(","))
    compared = row.methods(bases[0], chosen)
    terminal = Terminal(flags["verbose"], flags["quiet"], flags["as_json"])
    evaluation = set_up(model, data, compared, read_metrics(metrics), terminal, flags)
    labels = [variant.label for variant in compared]
    reference = flags["reference"] or (bases[0].label if bases[0].label in labels else labels[0])
    report = run(evaluation, terminal, flags | {"reference": reference})
    findings = row.findings(report, bases[0], chosen)
    finish(report, terminal, title=f"Study of {name} on {evaluation.explainer.name}", findings=findings)
