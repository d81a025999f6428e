"""Images per second of `explain` over a folder, against its passes alone and plain forward passes, in one run.

    python -m benchmarks.folder MODEL PHOTOGRAPHS --count 1000

MODEL is an ONNX file, PHOTOGRAPHS folders of images, repeated until there are as many as asked for. The images are cut
into parts; each part goes through every contender in a new order, so that whatever slows the machine slows all alike.
Printed are medians over the parts of images a second, and of milliseconds of processor time an image, which other work
on the machine disturbs less, both also against the passes alone.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gradskip_onnx import api
from gradskip_onnx.datasets.files import images_under
from gradskip_onnx.errors import PreprocessingWarning
from gradskip_onnx.explanation.files import FileSettings
from gradskip_onnx.images.read import open_picture
from gradskip_onnx.methods import DEFAULT, choose_method
from gradskip_onnx.output.folder import Folder
from gradskip_onnx.output.png import compressor
from gradskip_onnx.pipeline.batch import in_batches
from gradskip_onnx.pipeline.explain_jobs import explain_jobs, write_jobs
from gradskip_onnx.pipeline.jobs import plan_jobs
from gradskip_onnx.pipeline.lanes import FEW, Lanes, in_lanes
from gradskip_onnx.pipeline.question import ExplainRequest, Question
from gradskip_onnx.pipeline.run_record import run_record
from gradskip_onnx.runtime.session import open_bytes
from gradskip_onnx.types import Array

Paths = Sequence[Path]
FORWARD = "plain forward, inputs prepared"
DECODED = "plain forward with decoding, one after the other"
PASSES = "passes of the explanation alone"
NUMBERS = "`explain`, maps and facts"
ALL = "`explain`, pictures too"


@dataclass(frozen=True, slots=True)
class Contender:
    """`run` is timed, on what `ready` has made of the paths before."""

    run: Callable[[Any], None]
    ready: Callable[[Paths], Any] = list


@dataclass(frozen=True, slots=True)
class Speed:
    """Of one contender on one part."""

    images_a_second: float
    processor_milliseconds: float  # an image


def contenders(model: Path, method: str, threads: int | None) -> Mapping[str, Contender]:
    explainer, lanes = in_lanes(api.load(model, threads=threads), FEW + 1, 1, threads)
    request = ExplainRequest(Question(choose_method(method)))
    asked = request.question.method.request(explainer.architecture, "logit")
    plain = open_bytes(model.read_bytes(), folder=model.parent, threads=threads)
    (port,) = plain.inputs
    logits = sorted(plain.outputs)

    def values(paths: Paths) -> list[Array]:
        return [explainer.prepare(open_picture(path)).values[None] for path in paths]

    def forward(inputs: Iterable[Array]) -> None:
        for each in inputs:
            plain.run(logits, {port: each})

    def passes(inputs: Sequence[Array]) -> None:
        with ThreadPoolExecutor(lanes.count) as pool:
            list(pool.map(lambda each: explainer.model.run(each, [None], None, asked), inputs))

    def explained(kinds: tuple[str, ...]) -> Contender:
        return Contender(lambda paths: explain_folder(explainer, paths, request, FileSettings(kinds), lanes))

    return {
        FORWARD: Contender(forward, values),
        DECODED: Contender(lambda paths: forward(values([path])[0] for path in paths)),
        PASSES: Contender(passes, values),
        NUMBERS: explained(("npy", "json")),
        ALL: explained(("png", "npy", "json")),
    }


def explain_folder(
    explainer: api.Explainer, paths: Paths, request: ExplainRequest, settings: FileSettings, lanes: Lanes
) -> None:
    """What the command does between opening the model and writing the overview."""
    with tempfile.TemporaryDirectory() as scratch:
        folder, jobs = Folder(Path(scratch)), plan_jobs(paths)
        folder.claim(job.stem for job in jobs)
        with run_record(folder) as record:
            todo = record.pending(jobs, explainer, request, settings)
            explained = explain_jobs(explainer, todo, request, lanes=lanes)
            for outcome in write_jobs(explained, request, folder, settings, record, lanes):
                outcome.result()


def measured(run: Callable[[Any], None], given: Any, images: int) -> Speed:
    began, used = time.perf_counter(), time.process_time()
    run(given)
    return Speed(images / (time.perf_counter() - began), 1e3 * (time.process_time() - used) / images)


def interleaved(found: Mapping[str, Contender], paths: Paths, part: int, seed: int = 0) -> dict[str, list[Speed]]:
    """The speeds of every contender on every part, in changing order; each has run once before."""
    speeds: dict[str, list[Speed]] = {name: [] for name in found}
    rng = np.random.default_rng(seed)
    for contender in found.values():
        contender.run(contender.ready(paths[:FEW]))
    for images in in_batches(paths, part):
        for name in rng.permutation(list(found)):
            given = found[name].ready(images)
            speeds[name].append(measured(found[name].run, given, len(images)))
    return speeds


def table(speeds: Mapping[str, Sequence[Speed]]) -> str:
    """Markdown: medians, and the median of the quotients to the passes alone on the same part."""
    lines = [
        "| | images a second | against the passes | processor, ms an image | against the passes |",
        "|---|---|---|---|---|",
    ]
    for name, found in speeds.items():
        rates = np.array([(each.images_a_second, each.processor_milliseconds) for each in found])
        unit = np.array([(each.images_a_second, each.processor_milliseconds) for each in speeds[PASSES]])
        (rate, used), (share, more) = np.median(rates, axis=0), np.median(rates / unit, axis=0)
        lines.append(f"| {name} | {rate:.1f} | {share:.2f} | {used:.1f} | {more:.2f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("photographs", type=Path, nargs="+")
    parser.add_argument("--count", type=int, default=1_000, help="photographs")
    parser.add_argument("--part", type=int, default=100, help="photographs that each contender takes in turn")
    parser.add_argument("--method", default=DEFAULT)
    parser.add_argument("--threads", type=int, help="cores; default: all")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", PreprocessingWarning)
    there = [path for folder in asked.photographs for path in images_under(folder)]
    paths = list(itertools.islice(itertools.cycle(there), asked.count))
    found = contenders(asked.model, asked.method, asked.threads)
    print(
        f"{len(paths)} photographs, {len(there)} of them different; pictures compressed by {compressor().__module__}\n"
    )
    print(table(interleaved(found, paths, asked.part)))
    print(f"\npeak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
