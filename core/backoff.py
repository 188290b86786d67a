"""Pauses between attempts that fail in a row."""


class Backoff:
    """Pauses that double with each failure, up to a limit.

    >>> pauses = Backoff(1.0, 5.0)
    >>> [pauses.next_s() for _ in range(4)]
    [1.0, 2.0, 4.0, 5.0]
    >>> pauses.reset()
    >>> pauses.next_s()
    1.0
    """

    def __init__(self, first_s: float, longest_s: float) -> None:
        """Begin with the first pause; none is longer than the longest."""
        self._first_s = first_s
        self._longest_s = longest_s
        self._pause_s = first_s

    def next_s(self) -> float:
        """Return the pause after one more failure, in seconds."""
        pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, self._longest_s)
        return pause_s

    def reset(self) -> None:
        """Begin anew: an attempt worked."""
        self._pause_s = self._first_s
