"""Results as tables, as a drawing, and as the marked parts of a page that is written by hand around them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .apart import FIRST, LATER, SCRIPT
from .contenders import DEFAULT, GRAPH, PLAIN, PLUS, PLUS_GRAPH, SEPARATE, SHARED, TORCH, WHOLE
from .quantised import FLOAT
from .results import Result

INKS = {"ONNX": "#8a8a8a", "ours": "#0072b2", "PyTorch": "#d55e00", "torch.compile": "#e69f00"}
OTHER_INK = "#cc79a7"
ROW, BAR, LEFT, WIDTH = 16, 11, 210, 640
MOST_OF_FLOAT = 1.3  # forward passes of a quantised file's explanation, over those of the float file's
MARKED = re.compile(r"(<!-- table ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Mark:
    """A figure that was aimed at."""

    model: str
    what: str
    bound: float
    at_least: bool
    measured: Callable[[Result], float]

    def holds(self, value: float) -> bool:
        return value >= self.bound if self.at_least else value <= self.bound


def _propagation(whole: str, graph: str) -> Callable[[Result], float]:
    return lambda result: result.ratio(whole, graph) - 1


MARKS = (
    Mark("ViT-B/16", "gradskip+ / forward", 1.75, False, lambda r: r.ratio(PLUS)),
    Mark("SegFormer-B0", "gradskip+ / forward", 1.85, False, lambda r: r.ratio(PLUS)),
    Mark("DeiT-tiny, trained", "gradskip+ / forward", 1.85, False, lambda r: r.ratio(PLUS)),
    Mark("ViT-B/16", "gradskip / forward", 2.0, False, lambda r: r.ratio(WHOLE)),
    Mark("SegFormer-B0", "gradskip / forward", 2.2, False, lambda r: r.ratio(WHOLE)),
    Mark("ViT-tiny", "gradskip / forward", 2.4, False, lambda r: r.ratio(WHOLE)),
    *(Mark(model, "gradskip+, propagation / the pass that feeds it", 0.1, False, _propagation(PLUS, PLUS_GRAPH))
      for model in ("ViT-B/16", "SegFormer-B0", "DeiT-tiny, trained")),
    *(Mark(model, "gradskip, propagation / the pass that feeds it", 0.1, False, _propagation(WHOLE, GRAPH))
      for model in ("ViT-B/16", "SegFormer-B0", "ViT-tiny")),
    Mark("ViT-B/16", "PyTorch / ours", 1.5, True, lambda r: r.ratio(TORCH, WHOLE)),
    Mark("SegFormer-B0", "PyTorch / ours", 2.0, True, lambda r: r.ratio(TORCH, WHOLE)),
    Mark("ViT-B/16", "from the shell: PyTorch script / our first call", 5.0, True,
         lambda r: r.apart[SCRIPT].seconds.median / r.apart[FIRST].seconds.median),
    Mark("ViT-B/16", "from the shell: PyTorch script / our later calls", 5.0, True,
         lambda r: r.apart[SCRIPT].seconds.median / r.apart[LATER].seconds.median),
    Mark("ViT-B/16", "peak memory: our first call / PyTorch script", 0.5, False,
         lambda r: r.apart[FIRST].megabytes / r.apart[SCRIPT].megabytes),
    Mark("ViT-B/16", "peak memory: our later calls / PyTorch script", 0.5, False,
         lambda r: r.apart[LATER].megabytes / r.apart[SCRIPT].megabytes),
)  # fmt: skip


def times(results: Sequence[Result]) -> str:
    """Milliseconds, and multiples of a plain forward pass."""
    rows = [
        [result.model, str(result.batch), name, f"{timing.median:.1f}", f"{timing.low:.1f} to {timing.high:.1f}",
         f"{result.ratio(name):.2f}", f"{result.ratio(name, DEFAULT):.2f}"]
        for result in _whole(results) for name, timing in result.timings.items()
    ]  # fmt: skip
    heads = ["model", "batch", "what", "ms (median)", "quartiles", "forward passes", "of default options"]
    return _table(heads, rows)


def _whole(results: Sequence[Result]) -> list[Result]:
    """The results with all contenders; the others compare forms of one file."""
    return [result for result in results if not result.form]


def quantised(results: Sequence[Result]) -> str:
    """Forward passes of each form of a file that its explanation takes, beside those of the float file."""
    floats = {result.model: result.ratio(PLUS) for result in results if result.form == FLOAT}
    rows = []
    for result in results:
        if result.form and result.model in floats:
            own, share = result.ratio(PLUS), result.ratio(PLUS) / floats[result.model]
            shown = f"**{share:.2f}**" if share > MOST_OF_FLOAT else f"{share:.2f}"
            milliseconds = [f"{result.timings[name].median:.1f}" for name in (PLAIN, PLUS)]
            rows.append([result.model, result.form, *milliseconds, f"{own:.2f}", shown])
    heads = [
        "model",
        "file",
        "its forward, ms",
        "gradskip+, ms",
        "forward passes",
        "of the float file's (bold: above 1.3)",
    ]
    return _table(heads, rows)


def marks(results: Sequence[Result]) -> str:
    """What was wanted and what was measured, for one image."""
    single = {result.model: result for result in _whole(results) if result.batch == 1}
    rows = []
    for mark in MARKS:
        result = single.get(mark.model)
        if result is None or (mark.what.startswith(("from", "peak")) and not result.apart):
            continue
        value = mark.measured(result)
        wanted = f"{'at least' if mark.at_least else 'at most'} {mark.bound:g}"
        rows.append([f"{mark.model}, {mark.what}", wanted, f"{value:.2f}" if mark.holds(value) else f"**{value:.2f}**"])
    return _table(["figure", "wanted", "measured (bold: missed)"], rows)


def processes(results: Sequence[Result]) -> str:
    """Whole processes, from the shell to the picture."""
    rows = [
        [result.model, name, f"{process.seconds.median:.2f}", f"{process.megabytes:.0f}"]
        for result in results for name, process in result.apart.items()
    ]  # fmt: skip
    return _table(["model", "process", "seconds (median)", "peak MB"], rows)


def files(results: Sequence[Result]) -> str:
    rows = [
        [result.model, *(f"{size:.1f}" for size in result.megabytes.values())]
        for result in results
        if result.megabytes and result.batch == 1
    ]
    return _table(["model", "plain file, MB", "with its gradient graph, MB"], rows)


def classes(results: Sequence[Result]) -> str:
    rows = [
        [result.model, *(f"{result.timings[name].median:.1f}" for name in (SHARED, SEPARATE)),
         f"{result.ratio(SHARED, SEPARATE):.2f}"]
        for result in results if SHARED in result.timings
    ]  # fmt: skip
    return _table(["model", "five classes of an image, ms", "one by one, ms", "ratio"], rows)


def agreement(results: Sequence[Result]) -> str:
    """How far maps of others are from ours, and who could not take part."""
    rows = [
        [result.model, str(result.batch), name, f"{value:.0e}"]
        for result in results for name, value in result.differences.items()
    ]  # fmt: skip
    rows += [
        [result.model, str(result.batch), name, f"missing: {reason}"]
        for result in results for name, reason in result.missing.items()
    ]  # fmt: skip
    return _table(["model", "batch", "whose map", "difference from ours, of its maximum"], rows)


TABLES: dict[str, Callable[[Sequence[Result]], str]] = {
    "times": times, "marks": marks, "quantised": quantised, "processes": processes, "files": files, "classes": classes,
    "agreement": agreement,
}  # fmt: skip


def tables(results: Sequence[Result]) -> str:
    return "\n".join(found for table in TABLES.values() if (found := table(results)))


def filled(page: str, results: Sequence[Result]) -> str:
    """The page with every marked table written anew."""
    return MARKED.sub(lambda found: found[1] + TABLES[found[2]](results) + found[3], page)


def drawing(results: Sequence[Result]) -> str:
    """Bars in multiples of a plain forward pass, as SVG."""
    shown = _whole(results)
    longest = max((result.ratio(name) for result in shown for name in result.timings), default=1.0)
    parts, y = [], 10
    for result in shown:
        parts.append(f'<text x="4" y="{y + BAR}" font-weight="bold">{result.model}, batch {result.batch}</text>')
        y += ROW
        for name in result.timings:
            ratio = result.ratio(name)
            width = (WIDTH - LEFT - 60) * ratio / longest
            ink = INKS.get(name.split(",")[0].removesuffix(" Runtime"), OTHER_INK)
            parts.append(f'<text x="{LEFT - 6}" y="{y + BAR - 1}" text-anchor="end">{name}</text>')
            parts.append(f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{ink}"/>')
            parts.append(f'<text x="{LEFT + width + 5:.1f}" y="{y + BAR - 1}">{ratio:.2f}</text>')
            y += ROW
        y += ROW // 2
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" font-family="sans-serif" font-size="11">'
    )
    return "\n".join([head, '<rect width="100%" height="100%" fill="#ffffff"/>', *parts, "</svg>"]) + "\n"


def write(results: Sequence[Result], folder: Path) -> None:
    (folder / "speed.md").write_text(tables(results), encoding="utf-8")
    (folder / "speed.svg").write_text(drawing(results), encoding="utf-8")


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Nothing where there are no rows."""
    lines = [f"| {' | '.join(row)} |\n" for row in rows]
    return f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}\n{''.join(lines)}" if lines else ""
