"""Prints results to standard output and everything else to standard error; colours only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gradskip_onnx.errors import printable
from gradskip_onnx.output.json_text import encode_json

WIDE = 1000  # columns of a file or a pipe, where names must not be cut


@dataclass(slots=True)
class Bar:
    """Counts passes for a progress bar; a finished image counts as `passes`, however many it took."""

    show: Callable[..., None]
    passes: int = 1
    images: int = 0
    passed: int = 0  # passes of the current image

    def __call__(self, name: str) -> None:
        """Count an image as finished."""
        self.images, self.passed = self.images + 1, 0
        self.show(completed=self.images * self.passes, description=printable(name))

    def skip(self, count: int) -> None:
        """Count images that an earlier run finished."""
        self.images += count
        self.show(completed=self.images * self.passes)

    def further(self, count: int) -> None:
        """Count further passes of the current image."""
        self.passed = min(self.passed + count, self.passes)
        self.show(completed=self.images * self.passes + self.passed)


@dataclass(frozen=True, slots=True)
class Terminal:
    """Prints for the user; rich honours NO_COLOR and uses no colours without a terminal."""

    verbose: bool = False
    quiet: bool = False
    as_json: bool = False
    printed: set[str] = field(default_factory=set)  # texts that are printed once per run

    def _print(self, what: Text | Table, *, stderr: bool = False) -> None:
        """Print to the current stream, which during a progress bar is a proxy that keeps the bar in place."""
        stream = sys.stderr if stderr else sys.stdout
        width = None if stream.isatty() else WIDE
        console = Console(stderr=stderr, width=width, highlight=False, markup=False, emoji=False)
        with console.capture() as written:
            console.print(what, soft_wrap=isinstance(what, Text))
        encoding = stream.encoding or "utf-8"  # a terminal that cannot show a label shows question marks
        stream.write(written.get().encode(encoding, "replace").decode(encoding))

    def print(self, text: str, style: str = "") -> None:
        """Print a line for people; nothing with --json, which reserves standard output for documents."""
        if not self.as_json:
            self._print(Text(printable(text), style=style))

    def table(self, table: Table) -> None:
        if not self.as_json:
            self._print(table)

    def document(self, value: object, *, single: bool) -> None:
        """Print a JSON document, if --json is set: indented if `single`, else on one line."""
        if self.as_json:
            click.echo(encode_json(value, indent=2 if single else None).decode(), nl=False)

    def detail(self, text: str) -> None:
        if self.verbose:
            self._print(Text(printable(text), style="dim"), stderr=True)

    def warn(self, texts: Iterable[str]) -> None:
        """Print each warning once per run; none with --quiet."""
        for text in texts:
            if not self.quiet and text not in self.printed:
                self.printed.add(text)
                self._print(Text(f"warning: {printable(text)}", style="yellow"), stderr=True)

    def failed(self, text: str) -> None:
        """Print a failure that does not stop the run, also with --quiet."""
        self._print(Text(f"error: {printable(text)}", style="red"), stderr=True)

    @contextmanager
    def progress(self, total: int, passes: int = 1) -> Iterator[Bar]:
        """A progress bar on standard error, for a terminal and more than one step; call it after each image.

        `passes` is the number of passes an image is expected to take; report them through `Bar.further`.
        """
        if self.quiet or total * passes < 2 or not sys.stderr.isatty():
            yield Bar(lambda **_: None, passes)
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
        # Without a terminal on standard output, results go to a file and must not be redirected to the bar.
        with Progress(
            *columns, console=Console(stderr=True, markup=False), transient=True, redirect_stdout=sys.stdout.isatty()
        ) as bar:
            task = bar.add_task("" if passes == 1 else "passes", total=total * passes)
            yield Bar(lambda **news: bar.update(task, **news), passes)
