"""gradskip-onnx study: repeats the studies of the paper on a model and images, or fits gradskip+ to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .evaluation_options import RecordedCommand, evaluation_options
from .fit import fit

# evaluation.studies.STUDIES, without importing it for --help
STUDY_NAMES: dict[str, str] = {
    "gamma": "The threshold of the gradient flow.",
    "alpha": "Gradient flow against sparsity.",
    "heads": "A quarter of the heads at a time, from the most focused to the least (Gini, entropy).",
}
EXAMPLES = """\b
Examples:
  gradskip-onnx study gamma model.onnx photos -o gamma
  gradskip-onnx study alpha model.onnx photos --values 0,0.5,1 --limit 50 -o alpha
  gradskip-onnx study heads model.onnx photos --values gini -o heads
  gradskip-onnx study gamma model.onnx photos --method 'gradskip[gate=branch]' -o branch
  gradskip-onnx study fit model.onnx photos
"""


@click.group(epilog=EXAMPLES)
def study() -> None:
    """Repeat a study of the paper on your model and images, or fit gradskip+ to them."""


def _study(name: str, summary: str) -> click.Command:
    """The command of one study of the paper."""

    @click.command(name, cls=RecordedCommand, short_help=summary,
                   epilog=f"\b\nExamples:\n  gradskip-onnx study {name} model.onnx photos -o {name}\n",
                   help=f"{summary}\n\nData, options and files are those of `gradskip-onnx evaluate`, and a run that "
                   "was stopped resumes.")  # fmt: skip
    @click.argument("model", type=click.Path(path_type=Path))
    @click.argument("data", metavar="DATA|planted:COUNT")
    @click.option("--method", default="gradskip", show_default=True, metavar="NAME[OPTION=VALUE,...]",
                  help="The method studied, with the options that stay.")  # fmt: skip
    @click.option("--values", metavar="A,B,...", help="What is compared: numbers; for `heads` gini and entropy.")
    @click.option("--metrics", default="insertion-deletion", show_default=True, metavar="LIST", help="As for evaluate.")
    @evaluation_options("gradskip-study")
    def command(model: Path, data: str, method: str, values: str | None, metrics: str, **flags: Any) -> None:
        repeat(name, model, data, method, values, metrics, flags)

    return command


def repeat(
    name: str, model: Path, data: str, method: str, values: str | None, metrics: str, flags: dict[str, Any]
) -> None:
    """Run one study of the paper."""
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


for _name, _summary in STUDY_NAMES.items():
    study.add_command(_study(_name, _summary))
study.add_command(fit)
