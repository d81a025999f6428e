"""Prints the model and the results of `explain`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from gradskip_onnx.errors import GradskipError, printable
from gradskip_onnx.explanation.document import FORMAT
from gradskip_onnx.explanation.files import Written
from gradskip_onnx.images.classes import Candidate
from gradskip_onnx.model_file.metadata import Built
from gradskip_onnx.output.wording import named
from gradskip_onnx.pipeline.batch import Outcome
from gradskip_onnx.pipeline.built_in import SOURCE as BUILT_IN
from gradskip_onnx.pipeline.built_in import altered
from gradskip_onnx.pipeline.jobs import Job

from .console import Terminal

if TYPE_CHECKING:
    from gradskip_onnx.api import Explainer, Explanation
    from gradskip_onnx.methods import MethodChoice

WORDS = {".png": "picture", ".npy": "map", ".json": "facts"}
ALSO = 2  # other classes on the line of an image, where there are many images


def top_classes(top: Sequence[Candidate], explained: Sequence[int], share: str) -> Table:
    """A table of the likeliest classes; the explained ones are marked."""
    table = Table(box=None, pad_edge=False)
    for name, side in (("", "left"), ("class", "left"), ("logit", "right"), (share, "right")):
        table.add_column(name, justify="right" if side == "right" else "left", overflow="fold", header_style="dim")
    for entry in top:
        chosen = entry.index in explained
        cells = (">" if chosen else "", named(entry), f"{entry.logit:.3f}", f"{entry.probability:.4f}")
        table.add_row(*(Text(printable(cell), style="bold" if chosen else "") for cell in cells))
    return table


def report_model(terminal: Terminal, explainer: Explainer) -> None:
    """Print what was loaded; not the provider, which is certain only after the first pass."""
    architecture = explainer.architecture
    blocks = f"{len(architecture.blocks)} blocks, {architecture.grid} tokens, {architecture.classes} classes"
    terminal.print(f"model     {explainer.name}: {architecture.task}, {blocks}")
    terminal.detail(f"preprocessing: {explainer.preprocess}")
    for note in architecture.assumptions:
        terminal.detail(note)
    terminal.warn(explainer.warnings)


def report_options(terminal: Terminal, method: MethodChoice, built: Built | None) -> None:
    """Print where options come from that were not typed; nothing if they are the defaults of the method."""
    if method.source == BUILT_IN and built is not None and (how := altered(built)):
        terminal.print(f"method    {method.label}, computed anew: the map in the file is {how}")
    elif method.source == BUILT_IN:
        terminal.print(f"method    {method.label}, built into the file")
    elif method.source:
        terminal.print(f"options   from {method.source}: {method.label}")


def report_skipped(terminal: Terminal, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print how many images an earlier run has done; with --json, what is known of each."""
    if rows:
        terminal.print(f"skipped   {len(rows)}, done before from the same image, model and options")
    for row in rows:
        facts = {name: row[name] for name in ("results", "files")}
        terminal.document({"format": FORMAT, "image": {"file": row["image"]}, "skipped": True, **facts}, single=False)


def report(terminal: Terminal, outcome: Outcome[Job, tuple[Written, ...]], share: str, *, alone: bool) -> None:
    """Print one outcome: in full if it is the only image, else one line per explained class."""
    found = outcome.found
    if isinstance(found, GradskipError):
        terminal.failed(str(found))
        failure = {"format": FORMAT, "image": {"file": str(outcome.job.path)}, "error": str(found)}
        terminal.document(failure, single=False)
        return
    first = found[0].explanation
    _provider(terminal, first)
    classes = top_classes(first.top, [written.explanation.target.index for written in found], share)
    if alone:
        terminal.table(classes)
    for written in found:
        if alone and len(found) == 1:
            _one(terminal, written.explanation, written.files, share)
        else:
            _line(terminal, outcome.job.path, written.explanation, written.files)
    if found[0].grid is not None:
        terminal.print(f"together  {found[0].grid}", style="bold" if alone else "")
    if terminal.verbose and not alone:
        terminal.table(classes)
    for written in found:
        terminal.document(written.document, single=alone and len(found) == 1)


def _provider(terminal: Terminal, result: Explanation) -> None:
    """Print the provider that ran the model, once per run, and the warnings of the result."""
    if result.provider not in terminal.printed:
        terminal.printed.add(result.provider)
        terminal.print(f"provider  {result.provider}")
    terminal.warn(result.warnings)


def _one(terminal: Terminal, result: Explanation, files: Sequence[Path], share: str) -> None:
    """Print the explained class, the paths of the files and details."""
    terminal.print(
        f"explained {named(result.target)}, {share} {result.target.probability:.4f}, by {result.relevance.method}"
    )
    for path in files:
        word = WORDS[path.suffix]
        terminal.print(f"{word:<9} {path}", style="bold" if word == "picture" else "")
    for note in result.relevance.notes:
        terminal.detail(f"note: {note}")
    terminal.detail(f"time: {', '.join(f'{name} {1000 * seconds:.1f} ms' for name, seconds in result.timings.items())}")


def _line(terminal: Terminal, image: Path, result: Explanation, files: Sequence[Path]) -> None:
    others = [entry for entry in result.top if entry.index != result.target.index][:ALSO]
    explained, *then = (f"{_short(entry)} {entry.probability:.3f}" for entry in (result.target, *others))
    terminal.print(f"{image.name}: {explained} ({', '.join(then)}) -> {files[0]}")


def _short(entry: Candidate) -> str:
    """The label up to its first comma: the first synonym."""
    return named(entry).split(",")[0].split(" (")[0]
