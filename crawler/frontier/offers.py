"""What is offered to the Redis frontier, in batches that its script takes at once."""

from collections.abc import Iterable
from typing import NamedTuple

from core.urls import identity_and_host
from crawler.frontier.base import NewItem
from crawler.frontier.packing import hashed, pack_body


class Batch(NamedTuple):
    """The last arguments of ``add.lua``: columns, as it reads them.

    Attributes:
        identities: sixteen bytes for each item.
        hosts: names; items refer to them by place, from 1 on.
        jobs: the same.
        which: for each item its host.
        lanes: for each item its lane.
        of_job: for each item its job.
        bodies: for each item what the store does not look into.
        equal: how many more were offered that equal one of this call.
    """

    identities: bytes
    hosts: list[str]
    jobs: list[str]
    which: list[int]
    lanes: list[int]
    of_job: list[int]
    bodies: list[bytes]
    equal: int

    @property
    def offered(self) -> int:
        """How many items the batch stands for."""
        return len(self.which) + self.equal


def pack_offers(items: Iterable[NewItem], size: int) -> list[Batch]:
    """The items, the first of equal ones, in batches of `size`.

    Raises:
        BadUrlError: a URL is no web URL.
    """
    first: dict[bytes, tuple[str, NewItem]] = {}
    offered = 0
    for item in items:
        offered += 1
        key, host = identity_and_host(item.url)
        first.setdefault(hashed(key), (item.host or host, item))
    wanted = list(first.items())
    equal = offered - len(wanted)
    batches = []
    for start in range(0, len(wanted), size):
        batches.append(_batch(wanted[start : start + size], equal))
        equal = 0
    return batches


def _batch(offers: list[tuple[bytes, tuple[str, NewItem]]], equal: int) -> Batch:
    hosts: dict[str, int] = {}
    jobs: dict[str, int] = {}
    for _, (host, item) in offers:
        hosts.setdefault(host, len(hosts) + 1)
        jobs.setdefault(item.job, len(jobs) + 1)
    return Batch(
        identities=b"".join(identity for identity, _ in offers),
        hosts=list(hosts),
        jobs=list(jobs),
        which=[hosts[host] for _, (host, _) in offers],
        lanes=[item.lane.value for _, (_, item) in offers],
        of_job=[jobs[item.job] for _, (_, item) in offers],
        bodies=[pack_body(item) for _, (_, item) in offers],
        equal=equal,
    )
