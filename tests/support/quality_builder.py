"""A collection whose copies were checked, for tests of what the front shows of it."""

import contextlib
import io
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw
from sqlalchemy import insert

from core.page_classes import PageClass
from core.playback_check import PlaybackCheck, PlaybackFault, QaVerdict, picture_name
from core.timestamps import timestamp14, unix_milliseconds, warc_date
from core.url_keys import replay_key
from links.registry.database import RegistryStore
from links.registry.schema import quality
from links.url_parts import key_of, url_parts_of
from playback.web.rate_limits import parse_networks
from qa.check_store import find_checks, store_checks
from qa.check_table import CheckedPage
from qa.web.check_pages import QualityContext
from qa.web.review import ReviewerRules
from tests.support.playback_fixtures import NOW, CollectionBuilder
from tests.support.registry_builder import FixedRegistry, RegistryFront, open_front
from tests.support.services.registries import open_registry

REVIEWER = "198.51.100.7"
STRANGER = "203.0.113.9"
TOKEN = "t" * 40


def webp(colour: str = "white", words: str = "", size: tuple[int, int] = (640, 900)) -> bytes:
    """Return a picture of a page, as checks store it."""
    image = Image.new("RGB", size, colour)
    ImageDraw.Draw(image).text((40, 40), words, fill="black", font_size=40)
    with io.BytesIO() as buffer:
        image.save(buffer, "WEBP", quality=60)
        return buffer.getvalue()


@dataclass
class QualityBuilder:
    """Fills a collection and its registry."""

    builder: CollectionBuilder
    store: RegistryStore

    def check(
        self,
        url: str,
        verdict: QaVerdict = QaVerdict.BROKEN,
        score: float | None = 0.5,
        *,
        at: datetime = NOW,
        level: str = "images",
        page_class: PageClass = PageClass.OK,
        pictures: dict[str, bytes] | None = None,
        page: dict[str, Any] | None = None,
        **facts: Any,
    ) -> str:
        """Write a page and its check; return the page's identifier."""
        page_id = self.builder.page(url, "<p>x</p>", at=at, page_class=page_class, **(page or {}))
        self.keep(page_id, url, verdict, score, at=at, level=level, page_class=page_class, **facts)
        for kind, body in (pictures or {}).items():
            path = self.builder.layout.quality_pictures / picture_name(page_id, level, kind)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)
        return page_id

    def keep(
        self,
        page_id: str,
        url: str,
        verdict: QaVerdict,
        score: float | None,
        *,
        at: datetime = NOW,
        page_class: PageClass = PageClass.OK,
        **facts: Any,
    ) -> None:
        """Write a check to the registry."""
        given = {"level": "images", "engine": "e1", "reason": "", **facts}
        given.setdefault("faults", (PlaybackFault.LOST,) if verdict is QaVerdict.BROKEN else ())
        check = PlaybackCheck(
            page_id, url, warc_date(at), checked_at=warc_date(at), verdict=verdict, score=score,
            picture=score, **given,
        )  # fmt: skip
        row = CheckedPage(check, url_parts_of(url).host, page_class)
        with self.store.writing() as connection:
            store_checks(connection, [row], at)

    def row(self, page_id: str, level: str = "images") -> CheckedPage:
        """Return the page's check at that level from the registry."""
        with self.store.snapshot() as reader:
            return next(row for row in find_checks(reader, [page_id]) if row.check.level == level)


@contextlib.contextmanager
def open_quality_builder(root: Path) -> Iterator[QualityBuilder]:
    """Yield a builder with an empty collection and registry."""
    with (
        contextlib.closing(CollectionBuilder(root / "collection")) as builder,
        contextlib.closing(open_registry(builder.layout)) as store,
    ):
        yield QualityBuilder(builder, store)


@contextlib.contextmanager
def open_quality_pages(quality_builder: QualityBuilder, **more: Any) -> Iterator[RegistryFront]:
    """Yield the front that shows the checks to a reviewer, called without a socket."""
    networks = parse_networks([REVIEWER])
    shown = QualityContext(quality_builder.builder.layout, ReviewerRules(networks=networks, token=TOKEN))
    root = quality_builder.builder.layout.root.parent
    more = {"peer": REVIEWER, **more}
    with open_front(root, FixedRegistry(quality_builder.store), mounts=[shown], **more) as front:
        yield front


def fill_up(quality_builder: QualityBuilder, count: int) -> None:
    """Write `count` pages and their checks as rows at once; the score is the number's share of `count`."""
    at_ms = unix_milliseconds(NOW)
    numbers = range(count)
    url = "https://host{}.example/{:06}".format
    with quality_builder.store.writing() as connection:
        rows = [
            {
                "page_id": f"{n:032x}", "level": "images", "url": url(n % 97, n), "page_class": "ok",
                "url_key": key_of(url(n % 97, n)), "host": f"host{n % 97}.example", "captured_ms": at_ms,
                "checked_ms": at_ms, "engine": "e1", "verdict": 0, "standing": 0, "score": n / count,
                "changed_ms": at_ms,
            }
            for n in numbers
        ]  # fmt: skip
        connection.execute(insert(quality), rows)
    with contextlib.closing(sqlite3.connect(quality_builder.builder.layout.captures_db)) as index, index:
        index.executemany(
            "INSERT INTO pages VALUES (?,?,?,?,?,?,'complete','',200,'text/html','',3,1,1.5,'ok',0.9,'','','','')",
            (
                (f"{n:032x}", address, replay_key(address), timestamp14(NOW), at_ms, address)
                for n in numbers
                for address in [url(n % 97, n)]
            ),
        )
