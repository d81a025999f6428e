"""The loop over many jobs, on numbers: order, batches, laziness, and who is blamed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from gradskip_onnx.errors import GradskipError, InputError, ModelError
from gradskip_onnx.pipeline.batch import Outcome, in_batches, run_batch, run_jobs, then


def halved(numbers: Sequence[int]) -> list[float]:
    """Odd numbers cannot be halved, alone or in company."""
    odd = [number for number in numbers if number % 2]
    if odd:
        raise InputError(f"{odd[0]} is odd")
    return [number / 2 for number in numbers]


def positive(number: int) -> int:
    if number < 0:
        raise InputError(f"{number} is negative")
    return number


def told(outcomes: Iterator[Outcome[int, float]]) -> list[float | str]:
    return [str(each.error) if each.error else each.result() for each in outcomes]


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_only_culprits_fail_and_the_order_is_kept(size):
    found = told(run_jobs([2, -4, 6, 7, 8], positive, halved, batch_size=size))

    assert found == [1.0, "-4 is negative", 3.0, "7 is odd", 4.0]


def test_a_batch_that_fails_is_tried_one_by_one():
    asked: list[list[int]] = []

    def work(numbers: Sequence[int]) -> list[float]:
        asked.append(list(numbers))
        return halved(numbers)

    list(run_jobs([2, 4, 5, 6], positive, work, batch_size=2))

    assert asked == [[2, 4], [5, 6], [5], [6]]


def test_jobs_are_drawn_when_they_are_needed():
    drawn: list[int] = []

    def jobs() -> Iterator[int]:
        for number in range(0, 20_000, 2):
            drawn.append(number)
            yield number

    outcomes = run_jobs(jobs(), positive, halved, batch_size=3)
    assert drawn == []
    next(outcomes)
    assert drawn == [0, 2, 4]
    assert [next(outcomes).result() for _ in range(3)] == [1.0, 2.0, 3.0]
    assert drawn == [0, 2, 4, 6, 8, 10]


def test_other_errors_end_the_run():
    def broken(_numbers: Sequence[int]) -> list[float]:
        raise ModelError("the model is broken")

    with pytest.raises(ModelError):
        list(run_jobs([1], positive, broken))
    (found,) = run_jobs([1], positive, broken, caught=GradskipError)
    assert str(found.error) == "the model is broken"


def test_a_result_is_asked_for():
    good, bad = run_jobs([2, 3], positive, halved)

    assert (good.job, good.error, good.result()) == (2, None, 1.0)
    with pytest.raises(InputError, match="3 is odd"):
        bad.result()


def test_a_later_stage_can_fail_too():
    def write(job: int, result: float) -> str:
        if result > 2:
            raise InputError(f"no room for {job}")
        return f"{job}: {result}"

    outcomes = then(run_jobs([2, 3, 6], positive, halved), write)

    assert [str(each.error or each.result()) for each in outcomes] == ["2: 1.0", "3 is odd", "no room for 6"]


def test_nothing_to_do():
    assert list(run_jobs([], positive, halved)) == []
    assert run_batch(halved, []) == []


def test_batches():
    assert list(in_batches("abcde", 2)) == [("a", "b"), ("c", "d"), ("e",)]
    with pytest.raises(InputError, match="batch size: got 0"):
        in_batches("abc", 0)  # at once, not when the first batch is drawn
