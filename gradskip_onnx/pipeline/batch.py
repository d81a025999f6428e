"""Runs many jobs in order, a batch at a time; a job that fails does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Generic, TypeVar

from gradskip_onnx.errors import GradskipError, InputError

from .ahead import work_ahead

PREPARING = 2  # threads that prepare: Pillow and NumPy leave other threads alone for most of the time

J = TypeVar("J")  # a job: a path, an image, an entry of a dataset
P = TypeVar("P")  # the prepared job: opened, read, preprocessed
R = TypeVar("R")  # its result
S = TypeVar("S")  # the result of a later stage


@dataclass(frozen=True, slots=True, eq=False)
class Outcome(Generic[J, R]):
    """A job with its result, or with the error it raised."""

    job: J
    found: R | GradskipError

    @property
    def error(self) -> GradskipError | None:
        return self.found if isinstance(self.found, GradskipError) else None

    def result(self) -> R:
        """The result; raises the error of a job that failed."""
        if isinstance(self.found, GradskipError):
            raise self.found
        return self.found


def run_jobs(
    jobs: Iterable[J],
    prepare: Callable[[J], P],
    work: Callable[[Sequence[P]], Sequence[R]],
    *,
    batch_size: int = 1,
    ahead: int = 0,
    lanes: int = 1,
    caught: type[GradskipError] = InputError,
) -> Iterator[Outcome[J, R]]:
    """Yield the outcome of each job, in order; jobs are drawn, prepared and run `batch_size` at a time.

    While `work` runs on a batch, in the thread of the reader, threads prepare the jobs of the next `ahead` batches, so
    `prepare` must not depend on the order of its calls; with 0, nothing is drawn before it is needed. With several
    `lanes`, `work` itself runs in so many threads, on a batch each.

    An error of class `caught` becomes the outcome of its job; any other error ends the run. Finished batches are not
    kept in memory.
    """

    def prepared(job: J) -> Outcome[J, P]:
        return Outcome(job, attempt(prepare, job, caught))

    def outcomes(group: Sequence[Outcome[J, P]]) -> list[Outcome[J, R]]:
        good = [outcome.found for outcome in group if not isinstance(outcome.found, GradskipError)]
        results = iter(run_batch(work, good, caught))
        return [
            Outcome(each.job, each.found if isinstance(each.found, GradskipError) else next(results)) for each in group
        ]

    ready = work_ahead(prepared, jobs, ahead=ahead * batch_size, threads=PREPARING)
    batches = in_batches(ready, batch_size)
    return chain.from_iterable(work_ahead(outcomes, batches, ahead=lanes if lanes > 1 else 0, threads=lanes))


def then(
    outcomes: Iterable[Outcome[J, R]],
    work: Callable[[J, R], S],
    *,
    ahead: int = 0,
    threads: int = 1,
    caught: type[GradskipError] = InputError,
) -> Iterator[Outcome[J, S]]:
    """Yield the outcomes of a further stage, `work(job, result)`; a job that failed before stays failed.

    With `ahead`, so many results are worked on in threads while the stages before make the next ones; one thread does
    them one after the other, in order.
    """

    return work_ahead(partial(further, work, caught=caught), outcomes, ahead=ahead, threads=threads)


def further(
    work: Callable[[J, R], S], outcome: Outcome[J, R], caught: type[GradskipError] = InputError
) -> Outcome[J, S]:
    """The outcome of `work(job, result)`; a job that failed before stays failed."""
    found = outcome.found
    if isinstance(found, GradskipError):
        return Outcome(outcome.job, found)
    return Outcome(outcome.job, attempt(partial(work, outcome.job), found, caught))


def run_batch(
    work: Callable[[Sequence[P]], Sequence[R]], items: Sequence[P], caught: type[GradskipError] = InputError
) -> list[R | GradskipError]:
    """A result or an error for each item: all in one call or, if that fails, one by one, so only bad items fail."""
    if not items:
        return []
    try:
        return list(work(items))
    except caught as error:
        if len(items) == 1:
            return [error]
    return [attempt(lambda item: work([item])[0], item, caught) for item in items]


def attempt(work: Callable[[P], R], item: P, caught: type[GradskipError] = InputError) -> R | GradskipError:
    """The result of `work(item)`, or the error of class `caught` that it raises."""
    try:
        return work(item)
    except caught as error:
        return error


def in_batches(items: Iterable[J], size: int) -> Iterator[tuple[J, ...]]:
    """Yield tuples of `size` items, drawn as they are needed; the last tuple may be shorter."""
    if size < 1:
        raise InputError(f"batch size: got {size}, allowed: a whole number at least 1")
    rest = iter(items)
    return iter(lambda: tuple(islice(rest, size)), ())
