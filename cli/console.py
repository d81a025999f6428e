"""Where text goes: results to standard output, everything else to standard error; colours only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gradskip_onnx.output.json_text import encode_json

WIDE = 1000  # columns when nobody watches: a file or a pipe must not cut names short


def plain(text: str) -> str:
    """A text of unknown origin without characters that steer a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)


@dataclass(slots=True)
class Bar:
    """Counts passes; an image that is done counts for all it was expected to take, however many they were."""

    show: Callable[..., None]
    passes: int = 1
    images: int = 0
    passed: int = 0  # of the image at work

    def __call__(self, name: str) -> None:
        """An image is done."""
        self.images, self.passed = self.images + 1, 0
        self.show(completed=self.images * self.passes, description=plain(name))

    def further(self, count: int) -> None:
        """Some passes more for the image at work."""
        self.passed = min(self.passed + count, self.passes)
        self.show(completed=self.images * self.passes + self.passed)


@dataclass(frozen=True, slots=True)
class Terminal:
    """Speaks to the user; rich honours NO_COLOR and leaves colours out where there is no terminal."""

    verbose: bool = False
    quiet: bool = False
    as_json: bool = False
    said: set[str] = field(default_factory=set)

    def _print(self, what: Text | Table, *, stderr: bool = False) -> None:
        """Written to the stream as it is now: while a progress bar is shown, that is a proxy which moves the bar."""
        stream = sys.stderr if stderr else sys.stdout
        width = None if stream.isatty() else WIDE
        console = Console(stderr=stderr, width=width, highlight=False, markup=False, emoji=False)
        with console.capture() as written:
            console.print(what, soft_wrap=isinstance(what, Text))
        encoding = stream.encoding or "utf-8"  # a terminal that cannot show a label shows question marks
        stream.write(written.get().encode(encoding, "replace").decode(encoding))

    def print(self, text: str, style: str = "") -> None:
        """A line for people; with --json standard output belongs to the documents."""
        if not self.as_json:
            self._print(Text(plain(text), style=style))

    def table(self, table: Table) -> None:
        if not self.as_json:
            self._print(table)

    def document(self, value: object, *, single: bool) -> None:
        """One JSON document: over several lines if it is alone, else one line each."""
        if self.as_json:
            click.echo(encode_json(value, indent=2 if single else None).decode(), nl=False)

    def detail(self, text: str) -> None:
        if self.verbose:
            self._print(Text(plain(text), style="dim"), stderr=True)

    def warn(self, texts: Iterable[str]) -> None:
        """Each warning once in a run."""
        for text in texts:
            if not self.quiet and text not in self.said:
                self.said.add(text)
                self._print(Text(f"warning: {plain(text)}", style="yellow"), stderr=True)

    def failed(self, text: str) -> None:
        """A failure that does not stop the run; shown even with --quiet."""
        self._print(Text(f"error: {plain(text)}", style="red"), stderr=True)

    @contextmanager
    def progress(self, total: int, passes: int = 1) -> Iterator[Bar]:
        """A bar on standard error, if a terminal is there and there is something to wait for; call it per image.

        `passes` is how many passes an image is expected to take; while they are made, tell the bar.
        """
        if self.quiet or total * passes < 2 or not sys.stderr.isatty():
            yield Bar(lambda **_: None, passes)
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
        # Results that go to a file must not be drawn into the bar's terminal.
        with Progress(
            *columns, console=Console(stderr=True, markup=False), transient=True, redirect_stdout=sys.stdout.isatty()
        ) as bar:
            task = bar.add_task("" if passes == 1 else "passes", total=total * passes)
            yield Bar(lambda **news: bar.update(task, **news), passes)
