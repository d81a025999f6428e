"""Works ahead of the reader: while one result is used, threads work on the next items; order and errors are kept."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from threading import Event
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def work_ahead(work: Callable[[T], R], items: Iterable[T], *, ahead: int, threads: int = 1) -> Generator[R, None, None]:
    """Yield `work(item)` of each item, in order, with at most `ahead` further items in work or done.

    Items are drawn in the thread of the reader, one for each result that is taken. With one thread they are worked on
    one after the other; with `ahead` 0 there is no thread, and nothing is done before it is asked for.

    The first item that fails raises its error in its place, and no item behind it is begun. Where `items` itself
    fails, what was drawn before is yielded first. A reader that stops, or is interrupted, waits for what is in work;
    what is not begun is dropped.
    """
    if ahead < 1:
        yield from map(work, items)
        return
    failed = Event()

    def watched(item: T) -> R:
        if failed.is_set():
            raise CancelledError
        try:
            return work(item)
        except BaseException:
            failed.set()
            raise

    pending: deque[Future[R]] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="gradskip")
    try:
        drawn, last_words = iter(items), None
        while last_words is None:
            try:
                pending.append(pool.submit(watched, next(drawn)))
            except Exception as ended:  # noqa: BLE001 (the end of the items, or an error that waits for its turn)
                last_words = ended
            while len(pending) > (ahead if last_words is None else 0):
                yield pending.popleft().result()
        if not isinstance(last_words, StopIteration):
            raise last_words
    finally:
        failed.set()
        pool.shutdown(cancel_futures=True)
