"""A part of the web for one checker of several: ``2/4`` is the second of four.

A host is in one part alone, by its bucket (`links.locator.bucket_of`), so that checkers on several
machines never ask one host at the same time.

>>> parse_part("2/4"), parse_part("1/2").overlaps(parse_part("3/4"))
(Part(number=2, count=4), True)
>>> parse_part("1/2").overlaps(parse_part("2/4"))
False
"""

import re
from dataclasses import dataclass
from math import gcd

from sqlalchemy import ColumnElement, true

from core.errors import InputError
from links.locator import BUCKETS
from links.store.schema import urls

_TEXT = re.compile(r"(\d{1,4})/(\d{1,4})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Part:
    """Which share of the hosts: those whose bucket leaves ``number - 1`` when divided by ``count``."""

    number: int
    count: int

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def has(self, bucket: int) -> bool:
        """Whether hosts of that bucket are in it."""
        return bucket % self.count == self.number - 1

    def overlaps(self, other: "Part") -> bool:
        """Whether there are buckets that both have (Chinese remainders)."""
        return (self.number - other.number) % gcd(self.count, other.count) == 0

    def condition(self) -> ColumnElement[bool]:
        """Rows of `links.store.schema.urls` that are in it."""
        if self.count == 1:
            return true()
        return urls.c.bucket % self.count == self.number - 1


WHOLE = Part(1, 1)


def parse_part(text: str) -> Part:
    """The part that ``i/n`` names.

    Raises:
        InputError: it names none.
    """
    found = _TEXT.fullmatch(text.strip())
    number, count = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= number <= count <= BUCKETS:
        raise InputError(
            f"{text[:40]!r} is no part: write i/n, such as 1/4, with i from 1 to n and n up to {BUCKETS}."
        )
    return Part(number, count)


def part_of_bucket(bucket: int) -> Part:
    """The smallest part there is: one bucket's."""
    return Part(bucket + 1, BUCKETS)
