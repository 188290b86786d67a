"""The record of links: for each page of a crawl, how many links it has and what was decided on them.

One JSON object a line in ``reports/links-JOB.jsonl``; with ``[scope] link_decisions`` also one a link in
``reports/decisions-JOB.jsonl``. A line is bounded, whatever the page; a file that
has grown to its limit is set aside as ``….1.jsonl``, older ones move up, and the oldest is dropped: the
links themselves are in the pages' manifests for good. Several processes may write the same file.
"""

import json
import logging
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from core.timestamps import warc_date
from crawler.frontier.base import FrontierItem
from crawler.scope import Decision

log = logging.getLogger(__name__)

FILE_LIMIT_BYTES = 100_000_000
FILES_KEPT = 9  # set aside, for each job
EXAMPLES_KEPT = 2  # of the links that were not followed, for each reason
REASONS_KEPT = 50
SHOWN_CHARS = 300
URL_CHARS = 2_000  # of a link, in the log of decisions


@dataclass(frozen=True, slots=True)
class PageLinks:
    """What was decided on the links of a page.

    Attributes:
        page_id: the page's identifier.
        page: its URL.
        job: the crawl.
        at: when.
        hops: links from a seed to the page.
        links: how many were decided on, each URL once.
        followed: how many of them belong to the crawl.
        decided: how many by reason.
        examples: some that do not, by reason.
    """

    page_id: str
    page: str
    job: str
    at: str
    hops: int
    links: int
    followed: int
    decided: dict[str, int]
    examples: dict[str, list[str]]

    @classmethod
    def of(
        cls, item: FrontierItem, decisions: Sequence[tuple[str, Decision]], now: datetime
    ) -> "PageLinks":
        """The account of the decisions."""
        counts = Counter(decision.reason[:SHOWN_CHARS] for _, decision in decisions)
        examples: dict[str, list[str]] = {}
        for url, decision in decisions:
            if decision.followed:
                continue
            some = examples.setdefault(decision.reason[:SHOWN_CHARS], [])
            if len(some) < EXAMPLES_KEPT:
                some.append(url[:SHOWN_CHARS])
        return cls(
            page_id=item.id,
            page=item.url,
            job=item.job,
            at=warc_date(now),
            hops=item.hops,
            links=len(decisions),
            followed=sum(decision.followed for _, decision in decisions),
            decided=dict(counts.most_common(REASONS_KEPT)),
            examples=dict(list(examples.items())[:REASONS_KEPT]),
        )


class LinkLog:
    """Appends to the files; holds none open. Thread-safe."""

    def __init__(self, folder: Path, *, limit_bytes: int = FILE_LIMIT_BYTES) -> None:
        """Keep the files in the folder, each up to so many bytes."""
        self._folder = folder
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()

    def write(self, page: PageLinks) -> None:
        """Add a line. A disk that takes none costs the record, not the crawl."""
        self._append(self._folder / f"links-{page.job}.jsonl", [asdict(page)])

    def write_decisions(self, page: PageLinks, decisions: Sequence[tuple[str, Decision]]) -> None:
        """Add a line for each link, followed or not, with the reason; as `write`."""
        whose = {"page_id": page.page_id, "page": page.page, "at": page.at}
        lines = [
            {
                **whose,
                "url": url[:URL_CHARS],
                "followed": decision.followed,
                "reason": decision.reason[:SHOWN_CHARS],
            }
            for url, decision in decisions
        ]
        self._append(self._folder / f"decisions-{page.job}.jsonl", lines)

    def _append(self, path: Path, objects: Sequence[Mapping[str, object]]) -> None:
        text = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in objects)
        try:
            with self._lock:
                with path.open("ab") as file:
                    file.write(text.encode(errors="replace"))
                    file.flush()
                    is_full = file.tell() >= self._limit_bytes
                if is_full:
                    self._set_aside(path)
        except OSError as error:
            log.warning("links.unrecorded path=%s error=%s", path, error)

    def _set_aside(self, path: Path) -> None:
        """Move the file and the older ones up by one number."""
        numbered = [path.with_suffix(f".{number}.jsonl") for number in range(1, FILES_KEPT + 1)]
        for older, newer in zip(numbered[:0:-1], numbered[-2::-1], strict=True):
            if newer.exists():
                newer.replace(older)
        path.replace(numbered[0])
