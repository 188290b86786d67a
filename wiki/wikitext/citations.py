"""A citation: one external link of a page, with all that its wikitext says of it (B03-B05).

Positions are offsets into the text that was read (code points), so that what is to be changed can be
replaced there, and not a byte beside it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum


class Way(StrEnum):
    """How a URL stands on a page."""

    CITATION = "citation"  # a parameter of a citation template: {{cite web|url=…}}
    TEMPLATE = "template"  # a parameter of another template: {{official website|https://…}}
    BRACKETS = "brackets"  # [https://… title]
    BARE = "bare"  # the URL alone
    ARCHIVE_TEMPLATE = "archive-template"  # {{webarchive|url=…}} that stands for its original


class Role(StrEnum):
    """What a parameter of a citation template is for; names differ from wiki to wiki."""

    URL = "url"
    TITLE = "title"
    ACCESS_DATE = "access-date"
    DATE = "date"
    ARCHIVE_URL = "archive-url"
    ARCHIVE_DATE = "archive-date"
    STATUS = "status"  # url-status: live, dead, unfit, usurped
    ACCESS = "access"  # url-access: subscription, registration, …
    WORK = "work"
    LANGUAGE = "language"


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of the text: from `start` up to, and without, `end`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a template as it stands there.

    Attributes:
        name: as written, without spaces; a number for one without name.
        value: as written, without spaces around, comments taken out.
        whole: from its ``|`` up to the next one's, or to the template's end.
        inner: the value within, without spaces around.
    """

    name: str
    value: str
    whole: Span
    inner: Span


@dataclass(frozen=True, slots=True)
class Tag:
    """A template beside a citation: a dead-link tag or an archive template.

    Attributes:
        name: of the template, as written.
        span: all of it.
        parameters: by their names as written.
    """

    name: str
    span: Span
    parameters: Mapping[str, Parameter] = field(default_factory=dict)


@dataclass(frozen=True)
class Citation:
    """One external link of a page.

    Attributes:
        url: the original, as a reader would open it; not an archive's address of it.
        way: how it stands there.
        span: the link or template itself; tags beside it are not in it.
        url_span: the URL within.
        template: the template's name as written; empty when there is none.
        parameters: of the citation template, by role.
        title: of a bracketed link or citation; empty without one.
        reference: the ``<ref>`` it stands in, from ``<ref`` to ``</ref>``; None outside of one.
        access_date: when its author saw it, when the text says so (B05; B06 is the reader's matter).
        archive_url: the archive's address that stands with it; empty without one.
        archive_date: as written, or as that address tells.
        status: what the text says of it: ``live``, ``dead``, ``unfit``, ``usurped``, or empty.
        dead_tag: a dead-link tag beside it.
        archive_tag: an archive template beside it.
        is_paywalled: the text says that it takes a subscription or a login.
        is_malformed: a URL that is none as it stands, though meant to be one.
        is_convertible: a bare or bracketed link that may become a citation template safely (B15).
        is_held: a human asked bots to leave it alone ({{cbignore}} beside it).
        address: what stands at `url_span`, entities replaced: the archive's address, where that stands
            in the place of the original.
        within: the name of the template in one of whose parameters this link or template stands; what
            is put beside it there may break that one.
        is_treated_dead: readers of the page are led to the copy, or warned of the link.
    """

    url: str
    way: Way
    span: Span
    url_span: Span
    template: str = ""
    parameters: Mapping[Role, Parameter] = field(default_factory=dict)
    title: str = ""
    reference: Span | None = None
    access_date: date | None = None
    archive_url: str = ""
    archive_date: date | None = None
    status: str = ""
    dead_tag: Tag | None = None
    archive_tag: Tag | None = None
    is_paywalled: bool = False
    is_malformed: bool = False
    is_convertible: bool = False
    is_held: bool = False
    address: str = ""
    within: str = ""
    is_treated_dead: bool = False

    @property
    def is_archive_in_place(self) -> bool:
        """Whether an archive's address stands where the original's should."""
        return bool(self.archive_url) and self.address == self.archive_url != self.url

    @property
    def is_said_dead(self) -> bool:
        """Whether the text itself says that the link does not work."""
        return self.dead_tag is not None or self.status in {"dead", "unfit", "usurped"}
