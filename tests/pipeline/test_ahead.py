"""Working ahead, on numbers: order, what is drawn, what overlaps, and how each kind of end is passed on."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import pytest

from gradskip_onnx.errors import InputError
from gradskip_onnx.pipeline.ahead import work_ahead
from gradskip_onnx.pipeline.batch import Outcome, run_jobs, then

SECONDS = 20  # for what happens at once unless something is broken


class Stop(BaseException):
    """Ends a run as a signal does."""


def threads_of_ours() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("gradskip")]


def counted(numbers: int, drawn: list[int]) -> Iterator[int]:
    for number in range(numbers):
        drawn.append(number)
        yield number


@pytest.mark.parametrize("ahead", [0, 1, 3, 100])
@pytest.mark.parametrize("threads", [1, 3])
def test_results_come_in_order(ahead, threads):
    assert list(work_ahead(lambda n: n * n, range(20), ahead=ahead, threads=threads)) == [n * n for n in range(20)]
    assert threads_of_ours() == []


@pytest.mark.parametrize("ahead", [0, 1, 4])
def test_no_more_is_drawn_than_was_said(ahead):
    drawn: list[int] = []
    results = work_ahead(str, counted(1_000, drawn), ahead=ahead)
    assert drawn == []
    for taken in range(1, 5):
        next(results)
        assert len(drawn) == taken + ahead
    results.close()
    assert threads_of_ours() == []


def test_items_are_worked_on_while_the_reader_is_busy():
    """The second item is done before the reader asks for it."""
    done = [threading.Event() for _ in range(3)]
    results = work_ahead(lambda n: done[n].set(), range(3), ahead=1)
    next(results)

    assert done[1].wait(SECONDS)


def test_threads_work_at_once():
    """Two items meet at a barrier: each waits for the other."""
    meeting = threading.Barrier(2, timeout=SECONDS)
    assert sorted(work_ahead(lambda _: meeting.wait(), range(4), ahead=2, threads=2)) == [0, 0, 1, 1]


def test_one_thread_does_one_item_after_the_other():
    order: list[int] = []
    list(work_ahead(order.append, range(100), ahead=10))
    assert order == list(range(100))


@pytest.mark.parametrize("kind", [InputError, Stop])
@pytest.mark.parametrize("threads", [1, 2])
def test_an_item_that_fails_ends_the_run_in_its_place(kind, threads):
    begun: list[int] = []

    def work(number: int) -> int:
        begun.append(number)
        if number == 2:
            raise kind("the third is bad")
        return number

    results = work_ahead(work, range(50), ahead=10, threads=threads)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(kind, match="the third is bad"):
        next(results)
    assert set(begun) <= {0, 1, 2, 3}  # another thread may have begun the fourth
    assert threads == 2 or begun == [0, 1, 2]
    assert threads_of_ours() == []


@pytest.mark.parametrize("ahead", [0, 1, 5])
def test_what_was_drawn_before_the_items_failed_is_yielded(ahead):
    def items() -> Iterator[int]:
        yield from range(3)
        raise InputError("no fourth")

    results = work_ahead(str, items(), ahead=ahead)

    assert [next(results) for _ in range(3)] == ["0", "1", "2"]
    with pytest.raises(InputError, match="no fourth"):
        next(results)
    assert threads_of_ours() == []


def test_an_interrupted_reader_waits_for_what_is_in_work_and_drops_the_rest():
    begun, go_on, finished = threading.Event(), threading.Event(), []

    def items() -> Iterator[int]:
        yield 0
        yield 1
        assert begun.wait(SECONDS)
        threading.Timer(0.3, go_on.set).start()  # when the reader waits already
        raise Stop

    def work(number: int) -> None:
        begun.set()
        assert go_on.wait(SECONDS)
        finished.append(number)

    with pytest.raises(Stop):
        list(work_ahead(work, items(), ahead=5))
    assert finished == [0]
    assert threads_of_ours() == []


def halved(numbers: Sequence[int]) -> list[float]:
    if odd := [number for number in numbers if number % 2]:
        raise InputError(f"{odd[0]} is odd")
    return [number / 2 for number in numbers]


def positive(number: int) -> int:
    if number < 0:
        raise InputError(f"{number} is negative")
    return number


def small(_job: int, half: float) -> float:
    if half > 40:
        raise InputError(f"{half} is too much")
    return half


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("ahead", [1, 2])
def test_stages_that_overlap_tell_what_a_serial_run_tells(size, ahead):
    jobs = [2, -4, 6, 7, 8, *range(10, 100, 2), -1]

    def told(ahead: int, threads: int) -> list[tuple[int, float | str]]:
        found: Iterator[Outcome[int, float]] = run_jobs(jobs, positive, halved, batch_size=size, ahead=ahead)
        outcomes = then(found, small, ahead=ahead, threads=threads)
        return [(each.job, str(each.error) if each.error else each.result()) for each in outcomes]

    assert told(ahead, 1) == told(ahead, 3) == told(0, 1)


def test_the_next_batches_are_drawn_and_prepared():
    drawn: list[int] = []
    outcomes = run_jobs(counted(100, drawn), positive, lambda batch: batch, batch_size=3, ahead=2)
    assert next(outcomes).result() == 0
    assert len(drawn) == 3 + 2 * 3
    del outcomes
    assert threads_of_ours() == []
