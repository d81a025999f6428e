"""The loop over many jobs: in order, a few at a time, and one that fails takes no other with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Generic, TypeVar

from gradskip_onnx.errors import GradskipError, InputError

J = TypeVar("J")  # a job: a path, an image, an entry of a dataset
P = TypeVar("P")  # the job made ready: opened, read, prepared
R = TypeVar("R")  # its result
S = TypeVar("S")  # what a later stage makes of the result


@dataclass(frozen=True, slots=True, eq=False)
class Outcome(Generic[J, R]):
    """What became of a job: its result, or the error of this one job."""

    job: J
    found: R | GradskipError

    @property
    def error(self) -> GradskipError | None:
        return self.found if isinstance(self.found, GradskipError) else None

    def result(self) -> R:
        """The result; the error of the job is raised."""
        if isinstance(self.found, GradskipError):
            raise self.found
        return self.found


def run_jobs(
    jobs: Iterable[J],
    prepare: Callable[[J], P],
    work: Callable[[Sequence[P]], Sequence[R]],
    *,
    batch_size: int = 1,
    caught: type[GradskipError] = InputError,
) -> Iterator[Outcome[J, R]]:
    """The outcome of each job, in order; `batch_size` jobs are drawn, prepared and worked on at a time.

    Errors of the kind `caught` belong to their job; any other ends the run. Nothing of earlier batches is held.
    """

    def outcomes(group: Sequence[J]) -> Iterator[Outcome[J, R]]:
        ready = [attempt(prepare, job, caught) for job in group]
        results = iter(together(work, [each for each in ready if not isinstance(each, GradskipError)], caught))
        for job, each in zip(group, ready, strict=True):
            yield Outcome(job, each if isinstance(each, GradskipError) else next(results))

    return chain.from_iterable(map(outcomes, in_batches(jobs, batch_size)))


def then(
    outcomes: Iterable[Outcome[J, R]], work: Callable[[J, R], S], *, caught: type[GradskipError] = InputError
) -> Iterator[Outcome[J, S]]:
    """A further stage: what `work` makes of each result; a job that failed before stays failed."""
    for outcome in outcomes:
        found = outcome.found
        if isinstance(found, GradskipError):
            yield Outcome(outcome.job, found)
        else:
            yield Outcome(outcome.job, attempt(partial(work, outcome.job), found, caught))


def together(
    work: Callable[[Sequence[P]], Sequence[R]], items: Sequence[P], caught: type[GradskipError] = InputError
) -> list[R | GradskipError]:
    """A result or an error for each item: all in one go or, where that fails, each alone, so that only culprits do."""
    if not items:
        return []
    try:
        return list(work(items))
    except caught as error:
        if len(items) == 1:
            return [error]
    return [attempt(lambda item: work([item])[0], item, caught) for item in items]


def attempt(work: Callable[[P], R], item: P, caught: type[GradskipError] = InputError) -> R | GradskipError:
    """What `work` makes of an item, or its error."""
    try:
        return work(item)
    except caught as error:
        return error


def in_batches(items: Iterable[J], size: int) -> Iterator[tuple[J, ...]]:
    """Items so many at a time, drawn when they are needed; the last batch may be smaller."""
    if size < 1:
        raise InputError(f"batch size: got {size}, allowed: a whole number at least 1")
    rest = iter(items)
    return iter(lambda: tuple(islice(rest, size)), ())
