"""Page visits without a browser: the document, its embedded resources, and its links.

Rendering takes a second or more of CPU time, so a very large crawl may render only a share of its pages
(`visit.rendered_share`). What scripts would have loaded is missing then, and there is no screenshot.
"""

import asyncio
import re
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from hashlib import blake2b
from html.parser import HTMLParser
from urllib.parse import urljoin

from classify.evidence import PageEvidence, PageTraits
from classify.page_classifier import NOT_JUDGED, PageClassification, classify
from classify.source_traits import read_traits
from core.clock import Clock
from core.config.settings import VisitSettings
from core.errors import BadUrlError
from core.page_manifest import VisitOutcome
from core.urls import fetch_key
from crawler.capture.proxy_fetcher import FetchedFile, ProxyFetcher
from proxy.control.client import ProxyVisit
from render.visit import Visit

DOCUMENT_LIMIT_BYTES = 20_000_000
PARTS_LIMIT = 200  # of one page
PARALLEL_FETCHES = 6  # parts, as browsers do
LINKS_LIMIT = 10_000
ROBOTS_LIMIT = 100
_HTML = ("text/html", "application/xhtml+xml")
_SHARES = 1 << 32
_OF_ARCHIVING = re.compile("archive|cache|unavailable", re.IGNORECASE)


def is_rendered(url: str, share: float) -> bool:
    """Return True when the URL is in the rendered share; deterministic for each URL."""
    place = int.from_bytes(blake2b(url.encode(), digest_size=4).digest())
    return place < share * _SHARES


@dataclass(eq=False, repr=False)
class PlainVisits:
    """Visitor of pages without a browser; one for all workers of a process."""

    fetcher: ProxyFetcher
    clock: Clock

    async def visit(self, recording: ProxyVisit, url: str, settings: VisitSettings) -> Visit:
        """Fetch the page within an open visit at the proxy; may raise ProxyUnavailableError."""
        started_at, began = self.clock.now(), self.clock.monotonic()
        document = await self.fetcher.within(
            recording, url, limit_bytes=DOCUMENT_LIMIT_BYTES, timeout_s=settings.timeout_s
        )
        took = self.clock.monotonic() - began
        content_type = document.headers.get("content-type", "")
        message = Message()
        message["content-type"] = content_type.partition("\n")[0]
        mime, charset = (message.get_content_type() if content_type else "", message.get_content_charset(""))
        page = PlainPage(url)
        if mime in _HTML and not document.error:
            page = read_page(document.body, charset, document.final_url)
            # Fetch the embedded resources; failures are in the proxy's ledger.
            left_s, free = max(settings.timeout_s - took, 0.0), asyncio.Semaphore(PARALLEL_FETCHES)

            async def fetch(part: str) -> None:
                async with free:
                    await self.fetcher.within(recording, part, limit_bytes=DOCUMENT_LIMIT_BYTES, timeout_s=left_s)

            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await asyncio.gather(*map(fetch, page.parts))
        seconds = self.clock.monotonic() - began
        outcome, reason = VisitOutcome.COMPLETE, document.error
        if document.error and not document.status:
            outcome = VisitOutcome.FAILED
        elif document.error or document.truncated:
            outcome, reason = VisitOutcome.PARTIAL, document.error or "truncated: document"
        return Visit(
            url=url,
            final_url=document.final_url or url,
            started_at=started_at,
            outcome=outcome,
            reason=reason,
            status=document.status or None,
            mime=mime,
            headers=document.headers,
            title=page.title,
            redirects=(url,) if document.final_url not in ("", url) else (),
            requests=(),
            artifacts=(),
            outlinks=tuple(page.links),
            timings={"document": round(took, 4), "parts": round(seconds - took, 4)},
            console=(),
            seconds=round(seconds, 4),
            robots_meta=tuple(page.robots),
            classification=classify_plain(url, document, mime, page),
        )


class PlainPage(HTMLParser):
    """Facts parsed from a document at the URL."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._base = url
        self._in_title = False
        self._title: list[str] = []
        self.links: dict[str, None] = {}  # absolute http(s) URLs, each once
        self.parts: dict[str, None] = {}  # URLs of embedded resources, each once
        self.robots: list[tuple[str, str]] = []
        self.traits: PageTraits | None = None  # facts for page classification

    @property
    def title(self) -> str:
        """Return the title, without white space around it."""
        return " ".join("".join(self._title).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect the URLs and directives of an element."""
        attributes = {name: value or "" for name, value in attrs}
        if tag == "base" and attributes.get("href"):
            self._base = join_url(self._base, attributes["href"])
        elif tag == "meta":
            # Only names and contents that concern archiving count.
            content = attributes.get("content", "")[:2000]
            if _OF_ARCHIVING.search(content) and len(self.robots) < ROBOTS_LIMIT:
                for kind, prefix in (("name", ""), ("http-equiv", "http-equiv:")):
                    if attributes.get(kind):
                        name = prefix + attributes[kind][:200].strip().lower()
                        self.robots.append((name, content))
        elif tag in ("a", "area"):
            self._note(self.links, attributes.get("href", ""))
        elif tag in ("img", "script", "source", "video", "audio", "embed", "input"):
            self._note(self.parts, attributes.get("src", ""))
            srcset = attributes.get("srcset", "")
            for candidate in srcset.split(","):
                self._note(self.parts, candidate.split()[0] if candidate.split() else "")
            self._note(self.parts, attributes.get("poster", ""))
        elif tag == "link" and {"stylesheet", "icon"} & set(attributes.get("rel", "").lower().split()):
            self._note(self.parts, attributes.get("href", ""))
        elif tag in ("iframe", "frame"):
            self._note(self.parts, attributes.get("src", ""))
        self._in_title = tag == "title" and not self._title

    def handle_endtag(self, tag: str) -> None:
        """Close the title."""
        if tag == "title":
            self._in_title = False

    def handle_data(self, data: str) -> None:
        """Collect the title's text."""
        if self._in_title:
            self._title.append(data[:1000])

    def _note(self, where: dict[str, None], address: str) -> None:
        limit = LINKS_LIMIT if where is self.links else PARTS_LIMIT
        if address.strip() and len(where) < limit:
            with suppress(BadUrlError):
                where[fetch_key(join_url(self._base, address.strip()))] = None


def read_page(body: bytes, charset: str, url: str) -> PlainPage:
    """Parse a document; never raises, whatever the input."""
    page = PlainPage(url)
    try:
        text = body.decode(charset or "utf-8", "replace")
    except LookupError:
        text = body.decode("utf-8", "replace")
    try:
        page.feed(text)
        page.close()
    except AssertionError:
        pass  # raised for a malformed declaration; everything before it is used
    page.traits = read_traits(text)
    return page


def join_url(base: str, address: str) -> str:
    """Resolve the address against the base; return the base when it is not valid."""
    try:
        return urljoin(base, address)
    except ValueError:
        return base


def classify_plain(url: str, document: FetchedFile, mime: str, page: PlainPage) -> PageClassification:
    """Classify the page by its source."""
    if document.error and not document.status:
        return NOT_JUDGED
    return classify(
        PageEvidence(
            url=url,
            final_url=document.final_url or url,
            status=document.status or None,
            headers=document.headers,
            mime=mime,
            title=page.title,
            requests=tuple(page.parts),
            traits=page.traits,
            is_rendered=False,
        )
    )
