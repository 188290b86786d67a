"""Archives with a CDX server: captures with their statuses, which tell errors and redirects apart."""

from datetime import datetime
from urllib.parse import urlencode

from core.errors import BadUrlError
from core.timestamps import timestamp14
from links.archives.adapters import NOT_THERE, Copy, Held, expect, nonsense
from links.archives.asking import Asker, Question
from links.archives.formats import Entry, FormatError, read_cdx
from links.archives.recognising import make


class Cdx:
    """A CDX server: the Internet Archive's, pywb's, arquivo.pt's, another Weboid's."""

    def __init__(self, asker: Asker, name: str, endpoint: str, *, copies: str = "") -> None:
        """Take who asks, the service, its CDX address, and where its copies are.

        `copies` is an address with ``{ts}`` and ``{url}``; empty: the service is a known one.
        """
        self.name = name
        self._asker = asker
        self._endpoint = endpoint
        self._copies = copies
        self._held = Held(name, (copies or endpoint,))

    async def find(self, url: str, at: datetime | None) -> list[Copy]:
        """Captures with a good status, of a long list those nearest to the moment."""
        pairs = {"url": url, "output": "json", "limit": "500"}
        if at is not None:
            pairs |= {"closest": timestamp14(at), "sort": "closest"}
        address = f"{self._endpoint}?{urlencode(pairs)}"
        reply = await self._asker.ask(self.name, Question(address, hops=2))
        if reply.status in NOT_THERE:
            return []
        expect(self.name, reply, (200,))
        try:
            entries = read_cdx(reply.text)
        except FormatError as error:
            raise nonsense(self.name, str(error)) from error
        placed = [
            Entry(
                self._place(entry, url), entry.timestamp, entry.original, entry.status, entry.mime
            )
            for entry in entries
        ]
        return self._held.copies(placed, url)

    def _place(self, entry: Entry, url: str) -> str:
        original = entry.original or url
        if self._copies:
            return self._copies.replace("{ts}", entry.timestamp).replace("{url}", original)
        try:
            return make(self.name, original, entry.timestamp)
        except BadUrlError:
            return ""
