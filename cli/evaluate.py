"""gradskip-onnx evaluate: compares methods on the user's own model and images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .evaluation_options import RecordedCommand, evaluation_options

METHODS = "gradskip+,gradskip,grad-cam"
METRICS = "insertion,deletion,insertion-deletion"

EXAMPLES = """\b
Examples:
  gradskip-onnx evaluate model.onnx photos -o results
  gradskip-onnx evaluate model.onnx photos --methods 'gradskip,gradskip[gamma=0.1],rise[masks=500]'
  gradskip-onnx evaluate model.onnx photos --methods all --limit 50 --target label
  gradskip-onnx evaluate model.onnx imagenet/val --metrics 'pointing-game,insertion-deletion[substrate=black]'
  gradskip-onnx evaluate model.onnx bloodmnist.npz --part 1/2        (tune here, report on 2/2)
  gradskip-onnx evaluate segformer.onnx ADE20K --metrics 'miou[threshold=value75],pixel-accuracy' --target label
  gradskip-onnx evaluate model.onnx planted:200 --metrics 'pointing-game,gflops,randomisation[images=4]'
  gradskip-onnx evaluate model.onnx photos --metrics class-sensitivity,noise-stability,zero-shift,spelling
"""


@click.command(epilog=EXAMPLES, cls=RecordedCommand)
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", metavar="DATA|planted:COUNT")
@click.option("--methods", default=METHODS, show_default=True, metavar="LIST",
              help="NAME or NAME[OPTION=VALUE,...]; commas between; `all`: every method not named yet.")  # fmt: skip
@click.option("--metrics", default=METRICS, show_default=True, metavar="LIST",
              help="As --methods; also `gflops`, and the checks `randomisation`, `class-sensitivity`, "
                   "`noise-stability`, `zero-shift`, `spelling`.")  # fmt: skip
@evaluation_options("gradskip-eval")
def evaluate(model: Path, data: str, methods: str, metrics: str, **flags: Any) -> None:
    """Compare methods on MODEL and the images of DATA: a table with intervals, CSV, JSON and a page to look at.

    DATA is a folder of images with labels, ImageNet with XML boxes, MedMNIST's .npz, ADE20K, or planted:COUNT scenes. A
    run that was stopped resumes: results in the output folder are not measured again.
    """
    from .console import Terminal
    from .evaluation_options import finish, run, set_up
    from .listing import read_methods, read_metrics

    compared = read_methods(methods)
    terminal = Terminal(flags["verbose"], flags["quiet"], flags["as_json"])
    evaluation = set_up(model, data, compared, read_metrics(metrics), terminal, flags)
    report = run(evaluation, terminal, flags)
    finish(report, terminal, title=f"Methods on {evaluation.explainer.name}")
