"""What a built file costs beside the gradient graph inside it, and an explanation by it beside one by the library.

    python -m benchmarks.built model.onnx --runs 20 --threads 2

Runs alternate, so that what else the machine does falls on all alike; ratios are medians of the ratios of each round.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import gradskip_onnx
from gradskip_onnx.methods import choose_method
from gradskip_onnx.passes.run_plan import output_names
from gradskip_onnx.runtime.session import open_bytes
from gradskip_onnx.selfcontained.method_file import BuildSettings, build
from gradskip_onnx.selfcontained.save import save

KINDS = ("gradient graph", "built file", "explained by the library", "explained by the file")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--method", default="gradskip+")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--no-switch", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        _measure(chosen, Path(folder))


def _measure(chosen: Any, folder: Path) -> None:
    library = gradskip_onnx.load(chosen.model, "cpu", threads=chosen.threads)
    settings = BuildSettings(choose_method(chosen.method), switch=not chosen.no_switch)
    source, reading = library.model.source, library.model.reading
    model = build(source, reading, settings, preprocess=library.preprocess, labels=library.labels)
    (path, *others) = save(model, folder / "explained.onnx", source)
    sizes = [sum(file.stat().st_size for file in files) for files in ([chosen.model], [path, *others])]
    print(f"file      {sizes[0] / 1e6:.2f} MB, built {sizes[1] / 1e6:.2f} MB: {sizes[1] / sizes[0] - 1:+.2%}")
    built = gradskip_onnx.load(path, "cpu", threads=chosen.threads)
    image = np.random.default_rng(0).standard_normal((1, *library.architecture.input_dims)).astype(np.float32)
    expected, found = (each.explain(image, method=chosen.method)[0].map for each in (library, built))
    difference = np.abs(found - expected).max() / np.abs(expected).max()
    print(f"map       largest difference {difference:.1e} of the largest value")
    jobs = _jobs(library, built, path, chosen, image)
    times = _alternate(jobs, chosen.runs)
    for name in KINDS:
        print(f"{name:<26}{statistics.median(wall for wall, _ in times[name]) * 1e3:9.1f} ms   "
              f"{statistics.median(cpu for _, cpu in times[name]) * 1e3:9.1f} ms of processor time")  # fmt: skip
    for one, other in ((KINDS[1], KINDS[0]), (KINDS[3], KINDS[2])):
        for place, what in enumerate(("wall", "processor")):
            ratio = statistics.median(a[place] / b[place] for a, b in zip(times[one], times[other], strict=True))
            print(f"{one} / {other}, {what}: {ratio:.3f}")
    print(f"peak memory of this process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


def _jobs(library: Any, built: Any, path: Path, chosen: Any, image: Any) -> dict[str, Callable[[], object]]:
    request = choose_method(chosen.method).request(library.architecture, "logit")
    plan, inner = library.model.open(request)
    whole = open_bytes(path.read_bytes(), (), path.parent, "cpu", threads=chosen.threads)
    feeds = {library.architecture.input: image}
    names = [output.name for output in whole.handle.get_outputs()]
    return {
        KINDS[0]: lambda: inner.run(output_names(plan), feeds),
        KINDS[1]: lambda: whole.run(names, feeds),
        KINDS[2]: lambda: library.explain(image, method=chosen.method),
        KINDS[3]: lambda: built.explain(image, method=chosen.method),
    }


def _alternate(jobs: dict[str, Callable[[], object]], runs: int) -> dict[str, list[tuple[float, float]]]:
    """Wall-clock and processor seconds of each job in each round, after one round that does not count."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in jobs}
    for round_number in range(runs + 1):
        for name, job in jobs.items():
            wall, cpu = time.perf_counter(), time.process_time()
            job()
            if round_number:
                times[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    return times


if __name__ == "__main__":
    main()
