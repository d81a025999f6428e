"""Plants a shortcut and lets an audit find it: python -m benchmarks.shortcut scenes, or photographs.

Two models are audited on the same images, in which one class is marked: one that has learnt the mark, and one that has
not. The policy must fail the first (exit code 5) and pass the second.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import click
from gradskip_onnx.cli.main import cli

from .mark import REGION

POLICY = """\
[findings."region:corner"]
max = 0.25
bound = "low"            # fails only beyond doubt
classes = "every"

[clusters]
minority = 0
"""


@click.group()
def main() -> None:
    """Train both models, audit both, and print what the policy says."""


@main.command()
@click.option("--build", default="build/shortcut", show_default=True, type=click.Path(path_type=Path))
@click.option("--steps", default=120, show_default=True, help="Of training, with 32 scenes each.")
@click.option("--count", default=240, show_default=True, help="Scenes to audit.")
def scenes(build: Path, steps: int, count: int) -> None:
    """The demo model, trained further on scenes with and without the mark."""
    import torch

    from .scenes import train, write_scenes

    torch.set_num_threads(1)
    build.mkdir(parents=True, exist_ok=True)
    write_scenes(build / "scenes", count)
    for name in ("shortcut", "clean"):
        train(build / f"{name}.onnx", steps, shortcut=name == "shortcut")
    judge(build, {name: build / f"{name}.onnx" for name in ("shortcut", "clean")}, build / "scenes")


@main.command()
@click.option("--build", default="build/shortcut-photographs", show_default=True, type=click.Path(path_type=Path))
def photographs(build: Path) -> None:
    """DeiT-tiny with a last layer trained on photographs, of which one class has a logo; needs GRADSKIP_ASSETS."""
    from .photographs import prepare

    if "GRADSKIP_ASSETS" not in os.environ:
        raise click.UsageError("set GRADSKIP_ASSETS to the folder of assets")
    build.mkdir(parents=True, exist_ok=True)
    models, data = prepare(Path(os.environ["GRADSKIP_ASSETS"]), build)
    judge(build, models, data)


def judge(build: Path, models: Mapping[str, Path], data: Path) -> None:
    """Audit each model under the policy and print its exit code and what was violated."""
    policy = build / "policy.toml"
    policy.write_text(POLICY, encoding="utf-8")
    for name, model in models.items():
        folder = build / f"audit-{name}"
        words = ["audit", model, data, "-o", folder, "--region", REGION, "--policy", policy, "--check-draws", "1"]
        click.echo(f"gradskip-onnx {' '.join(map(str, words))}")
        code = cli.main([str(word) for word in words], standalone_mode=False)
        violations = json.loads((folder / "violations.json").read_text())["violations"]
        click.echo(f"== {name}: exit code {code or 0}, {len(violations)} violations")
        for one in violations:
            click.echo(f"   {one['text']}")


if __name__ == "__main__":
    main()
