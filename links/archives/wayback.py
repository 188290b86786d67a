"""The Internet Archive's Wayback Machine: its availability service, and its own addresses."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from urllib.parse import urlencode

from core.timestamps import timestamp14
from links.archives.adapters import (
    NOT_THERE,
    REDIRECTS,
    Copy,
    Held,
    expect,
    in_path,
    nonsense,
)
from links.archives.asking import Asker, Question
from links.archives.formats import Entry, FormatError, read_availability, stamp_of
from links.archives.recognising import recognise

AT_ONCE: Final = 50  # URLs in one question
_GOOD: Final = (200, 203, 206)


class WaybackAvailability:
    """The Wayback Machine's availability, many URLs at once (version 2): before the moment, then after."""

    name = "wayback"

    def __init__(
        self, asker: Asker, address: str = "https://archive.org/wayback/available"
    ) -> None:
        """Take who asks."""
        self._asker = asker
        self._address = address
        self._held = Held(self.name, ("https://web.archive.org/",))

    async def find(self, url: str, at: datetime | None) -> list[Copy]:
        """The copy nearest before the moment; nearest after it when there is none."""
        return (await self.find_many([(url, at)]))[url]

    async def find_many(
        self, asked: Sequence[tuple[str, datetime | None]]
    ) -> dict[str, list[Copy]]:
        """The same for many URLs.

        Raises:
            ArchiveTroubleError: there is no answer.
        """
        found: dict[str, list[Copy]] = {url: [] for url, _ in asked}
        for start in range(0, len(asked), AT_ONCE):
            left = list(asked[start : start + AT_ONCE])
            for closest in ("before", "after"):
                if left:
                    found |= await self._ask(left, closest)
                    left = [(url, at) for url, at in left if not found[url] and at is not None]
        return found

    async def _ask(
        self, asked: Sequence[tuple[str, datetime | None]], closest: str
    ) -> dict[str, list[Copy]]:
        lines = []
        for tag, (url, at) in enumerate(asked):
            pairs = [("url", url)]
            if at is not None:
                pairs += [("timestamp", timestamp14(at)), ("closest", closest)]
            pairs += [("statuscodes", str(code)) for code in _GOOD]
            lines.append(urlencode([*pairs, ("tag", str(tag))]))
        reply = await self._asker.ask(
            self.name,
            Question(
                self._address,
                "POST",
                {
                    "Wayback-Api-Version": "2",
                    "Content-Type": "application/x-www-form-urlencoded",
                },
                "\n".join(lines).encode(),
            ),
        )
        expect(self.name, reply, (200,))
        try:
            answers = read_availability(reply.text)
        except FormatError as error:
            raise nonsense(self.name, str(error)) from error
        if asked and not answers.keys() & {str(tag) for tag in range(len(asked))}:
            raise nonsense(self.name, "it answers other questions")
        found: dict[str, list[Copy]] = {}
        for tag, (url, _) in enumerate(asked):
            entry = answers.get(str(tag))
            found[url] = self._held.copies([entry] if entry is not None else [], url)
        return found


class WaybackLatest:
    """The Wayback Machine by its own addresses: where ``/web/<url>`` leads (without following).

    For when the availability service says nothing of pages that are there.
    """

    name = "wayback"

    def __init__(self, asker: Asker, origin: str = "https://web.archive.org") -> None:
        """Take who asks."""
        self._asker = asker
        self._origin = origin
        self._held = Held(self.name, ("https://web.archive.org/",))

    async def find(self, url: str, at: datetime | None) -> list[Copy]:
        """The copy that it leads to for the moment."""
        stamp = f"{timestamp14(at)}/" if at is not None else ""
        address = f"{self._origin}/web/{stamp}{in_path(url)}"
        reply = await self._asker.ask(self.name, Question(address, is_head_enough=True))
        if reply.status in NOT_THERE:
            return []
        expect(self.name, reply, (200, *REDIRECTS))
        target = reply.headers.get("location", "") if reply.status in REDIRECTS else address
        stamped = stamp_of(reply.headers.get("memento-datetime", ""))
        if reply.status == 200 and not stamped:
            raise nonsense(self.name, "it shows a page, and no copy")
        if target.startswith("/"):
            target = self._origin + target
        # Under another origin it answers with its own; what it means is the Wayback Machine's.
        if target.startswith(self._origin + "/"):
            target = "https://web.archive.org" + target.removeprefix(self._origin)
        if recognise(target) is None:
            raise nonsense(self.name, f"it leads to {target[:200]}")
        return self._held.copies([Entry(target, stamped)], url)
