"""How the cost of an explanation grows: peak memory and time against tokens, depth, classes, batch and file size.

    python -m benchmarks.growth FOLDER [--only tokens] [--method gradskip] [--threads 1] [--page docs/performance.md]

Each file is written once, with random weights. Every figure is of a fresh process that never sees torch: a plain pass
by an ONNX Runtime session with its default options, reading, a first call with reading, and a later call. Beside
`gradskip` of a ViT stands the same method written in PyTorch. Seconds are of the processor, all threads together: other
work on the machine changes them less than seconds of a clock. FOLDER keeps what was measured; it is not measured again.
Linux only.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import numpy as np

SMALL: dict[str, Any] = {"embed_dim": 384, "num_heads": 6, "depth": 12, "num_classes": 1000, "patch_size": 16}
BASE = SMALL | {"embed_dim": 768, "num_heads": 12}
LARGE = SMALL | {"embed_dim": 1024, "num_heads": 16, "depth": 24}
HUGE = SMALL | {"embed_dim": 1280, "num_heads": 16, "depth": 32, "patch_size": 14}
AT_MOST = {"read": 2.0, "first": 3.0}  # peaks, in plain peaks
HEAD = "| file | side | method | plain | read | first call | later call | PyTorch |\n" + "|---" * 8 + "|"
MARKED = re.compile(r"(<!-- growth (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Sample:
    """One file by its exporter's options (none: SegFormer-B0), and how many images go through it at once."""

    name: str
    side: int
    options: dict[str, Any] | None = None
    batch: int = 1
    peer: bool = True  # whether PyTorch takes part; it holds attention and gradients of all blocks at once

    @property
    def file(self) -> str:
        return f"{self.name.split(', ')[0].replace('/', '')}-{self.side}.onnx"


SERIES: dict[str, tuple[Sample, ...]] = {
    "tokens": (
        *(Sample("ViT-S/16", side, SMALL, peer=side <= 1024) for side in (224, 512, 768, 1024, 1536)),
        Sample("ViT-B/16", 768, BASE),
        *(Sample("SegFormer-B0", side) for side in (512, 1024)),
    ),
    "depth": tuple(Sample(f"ViT-S/16 of {depth} blocks", 224, SMALL | {"depth": depth}) for depth in (6, 12, 24, 48)),
    "classes": tuple(
        Sample(f"ViT-S/16 of {count} classes", 224, SMALL | {"num_classes": count}) for count in (10, 1000, 21841)
    ),
    "batch": tuple(Sample(f"ViT-S/16, {batch} images", 224, SMALL, batch) for batch in (1, 8, 32)),
    "file": (Sample("ViT-S/16", 224, SMALL), Sample("ViT-B/16", 224, BASE), Sample("ViT-L/16", 224, LARGE)),
    "huge file": (Sample("ViT-H/14", 224, HUGE),),  # 2.5 GB: weights in a file of their own
}
Figures = dict[str, float]


def write(sample: Sample, path: Path) -> None:
    """The file, with random weights; in a process of its own, since torch stays in memory."""
    if sample.options is None:
        from gradskip_onnx.exporters.pipeline import export
        from gradskip_onnx.exporters.request import ExportRequest

        size = (sample.side, sample.side)
        export(ExportRequest("segformer_b0", None, size, None, random_weights=True), path, plain=True)
        return
    import torch

    size = (sample.side, sample.side)
    module = in_torch(sample)
    program = torch.onnx.export(
        module, (torch.zeros(1, 3, *size),), opset_version=18, input_names=["image"], output_names=["logits"],
        dynamic_shapes=({0: torch.export.Dim("batch")},), dynamo=True, verbose=False,
    )  # fmt: skip
    assert program is not None
    program.save(str(path), external_data=sample.options is HUGE)


def in_torch(sample: Sample) -> Any:
    """The ViT of a sample, with random weights and attention written out."""
    from benchmarks.zoo.families import switch, vit

    assert sample.options is not None
    module = vit(img_size=(sample.side, sample.side), **sample.options)().eval()
    switch(module, fused=False)
    return module


def peak() -> float:
    """Gigabytes that this process held at most; what `resource` says includes the process that started it."""
    return int(Path("/proc/self/status").read_text(encoding="ascii").split("VmHWM:")[1].split()[0]) / 1e6


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What `work` gives, and its seconds of processor."""
    began = time.process_time()
    return work(), time.process_time() - began


def plain(path: Path, batch: int, threads: int | None, _method: str) -> Figures:
    """Two passes of a session with default options; the second is timed."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or 0
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    (port,) = session.get_inputs()
    images = np.random.default_rng(0).standard_normal((batch, *port.shape[1:])).astype(np.float32)
    for _ in range(2):
        _, seconds = timed(lambda: session.run(None, {port.name: images}))
    return {"plain GB": peak(), "plain s": seconds}


def explained(path: Path, batch: int, threads: int | None, method: str) -> Figures:
    """Reading, then two calls for the same images."""
    import gradskip_onnx

    explainer = gradskip_onnx.load(path, "cpu", threads=threads, cache=False)
    found = {"read GB": peak(), "read s": time.process_time()}  # with the start of Python and all imports
    shape = (batch, *explainer.architecture.input_dims)
    images = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    for call in ("first", "later"):
        _, seconds = timed(lambda: explainer.explain(images, 1, method=method))
        found |= {f"{call} GB": peak(), f"{call} s": seconds}
    assert "torch" not in sys.modules
    return found


def torch_explained(path: Path, batch: int, threads: int | None, _method: str) -> Figures:
    """Two calls of `gradskip` in PyTorch for the same images; the second is timed."""
    import torch

    from benchmarks.speed.torch_gradskip import TorchGradSkip

    sample = next(sample for series in SERIES.values() for sample in series if sample.file == path.name)
    torch.set_num_threads(threads or torch.get_num_threads())
    module, size = in_torch(sample), (sample.side, sample.side)
    special = tuple(range(module.num_prefix_tokens))
    block = SimpleNamespace(grid=module.patch_embed.grid_size, reduction=1, stage=0, special=special)
    anatomy: Any = SimpleNamespace(blocks=[block] * len(module.blocks), input_dims=(3, *size))
    explain = TorchGradSkip(module, tuple(module.blocks), anatomy)
    images = torch.randn(batch, 3, *size)
    for _ in range(2):
        _, seconds = timed(lambda: explain(images))
    return {"torch GB": peak(), "torch s": seconds}


ROLES = {"plain": plain, "explained": explained, "torch": torch_explained}


def apart(role: str, path: Path, sample: Sample, threads: int | None, method: str) -> Figures:
    """The figures of a role, from a process of its own."""
    words = [role, str(path), str(sample.batch), str(threads or 0), method]
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.growth", "--role", json.dumps(words), str(path.parent)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=os.environ)
    found: Figures = json.loads(done.stdout)
    return found


def measure(sample: Sample, path: Path, threads: int | None, method: str, known: dict[str, Figures]) -> Figures:
    """All figures of a sample by a method; those of `known` are not measured again, new ones are added to it."""
    found: Figures = {}
    roles = ["plain", "explained", *(["torch"] if method == "gradskip" and sample.options and sample.peer else [])]
    for role in roles:
        key = " ".join([role, sample.file, str(sample.batch), method if role == "explained" else "", str(threads)])
        if key not in known:
            known[key] = apart(role, path, sample, threads, method)
        found |= known[key]
    return found


def row(sample: Sample, method: str, found: Figures) -> str:
    """A line of the table: peaks in GB and seconds of processor, with the plain pass as the unit beside them."""
    cells = [sample.name, f"{sample.side}", method, f"{found['plain GB']:.2f} GB, {found['plain s']:.2f} s"]
    for stage in ("read", "first", "later", "torch"):
        if f"{stage} GB" not in found:
            cells.append("")
            continue
        memory, seconds = found[f"{stage} GB"] / found["plain GB"], found[f"{stage} s"] / found["plain s"]
        late = " (over)" if memory > AT_MOST.get(stage, float("inf")) else ""
        cells.append(f"{memory:.1f}{late}, {seconds:.1f}")
    return f"| {' | '.join(cells)} |"


def filled(page: str, rows: Mapping[str, list[str]]) -> str:
    """The page with the table of every measured series written anew."""

    def table(found: re.Match[str]) -> str:
        return found[0] if found[2] not in rows else found[1] + "\n".join([HEAD, *rows[found[2]], found[3]])

    return MARKED.sub(table, page)


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--only", "chosen", multiple=True, type=click.Choice(list(SERIES)), help="Series to measure.  [all]")
@click.option("--method", "methods", multiple=True, default=("gradskip+", "gradskip"), show_default=True)
@click.option("--threads", type=click.IntRange(min=1), default=None, help="Of every session.  [default: its own]")
@click.option("--page", type=click.Path(path_type=Path, exists=True), help="Fill this page's tables at the end.")
@click.option("--role", hidden=True, help="Measure here, and print figures.")
@click.option("--write", "to_write", hidden=True, help="Write a file, here.")
def main(
    folder: Path, chosen: tuple[str, ...], methods: tuple[str, ...], threads: int | None, page: Path | None,
    role: str, to_write: str,
) -> None:  # fmt: skip
    """Write the files into FOLDER, measure each, print a table; `read` includes Python's own start."""
    if role:
        name, path, batch, count, method = json.loads(role)
        click.echo(json.dumps(ROLES[name](Path(path), int(batch), int(count) or None, method)))
        return
    folder.mkdir(parents=True, exist_ok=True)
    series = {name: SERIES[name] for name in chosen or SERIES}
    if to_write:
        write(next(sample for part in series.values() for sample in part if sample.file == to_write), folder / to_write)
        return
    kept = folder / "growth.json"
    known = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    rows: dict[str, list[str]] = {name: [] for name in series}
    for name, samples in series.items():
        click.echo(f"{name}\n{HEAD}")
        for sample, method in ((sample, method) for sample in samples for method in methods):
            path = folder / sample.file
            if not path.exists():
                again = [sys.executable, "-m", "benchmarks.growth", "--write", sample.file, str(folder)]
                subprocess.run(again, check=True, stdout=sys.stderr)
            rows[name].append(row(sample, method, measure(sample, path, threads, method, known)))
            kept.write_text(json.dumps(known, indent=1), encoding="utf-8")
            click.echo(rows[name][-1])
    if page is not None:
        page.write_text(filled(page.read_text(encoding="utf-8"), rows), encoding="utf-8")


if __name__ == "__main__":
    main()
