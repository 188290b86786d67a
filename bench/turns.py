"""So many connections that do a number of turns between them, as fast as they can."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def take_turns(count: int, connections: int, connect: Callable[[], T], ask: Callable[[T, int], object]) -> float:
    """Return the seconds from the first turn to the end of the last; turns are numbered from 0.

    Args:
        count: how many turns there are.
        connections: how many threads take them, each with a connection of its own.
        connect: makes a connection.
        ask: does the turn of that number on it.

    Raises:
        BaseException: the first that a turn raised.
    """
    numbers = iter(range(count))
    lock = threading.Lock()
    failures: list[BaseException] = []

    def work() -> None:
        client = connect()
        try:
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return
                ask(client, number)
        except BaseException as error:  # noqa: BLE001 raised below, where it is waited for
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(connections)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return time.perf_counter() - begun
