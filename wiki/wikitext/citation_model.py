"""Values of reading and repairing wikitext: citations, remedies, repairs.

Positions are code point offsets into the text that was read. `RepairedText` has an exact record of each change,
for display, revert, the edit log and later recognition.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum


class CitationForm(StrEnum):
    """Form of a URL on a page."""

    CITATION = "citation"  # a parameter of a citation template: {{cite web|url=…}}
    TEMPLATE = "template"  # a parameter of another template: {{official website|https://…}}
    BRACKETS = "brackets"  # [https://… title]
    BARE = "bare"  # the URL alone
    ARCHIVE_TEMPLATE = "archive-template"  # {{webarchive|url=…}} that replaces its original


class ParameterRole(StrEnum):
    """Role of a citation template's parameter, independent of its local name."""

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
class TextSpan:
    """Half-open range of the text, [start, end)."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TemplateParameter:
    """Parameter of a template as written."""

    name: str  # as written, without spaces; a number for an unnamed one
    value: str  # as written, without surrounding spaces and comments
    inner: TextSpan  # the value's span, without surrounding spaces


@dataclass(frozen=True, slots=True)
class CitationTag:
    """Template next to a citation: a dead-link tag or an archive template."""

    name: str  # of the template, as written
    span: TextSpan  # of the whole template
    parameters: Mapping[str, TemplateParameter] = field(default_factory=dict)  # as written


@dataclass(frozen=True)
class Citation:
    """One external link of a page."""

    url: str  # the original as a reader would open it; not an archive URL of it
    way: CitationForm
    span: TextSpan  # the link or template itself, without adjacent tags
    url_span: TextSpan  # the URL within
    template: str = ""  # the template's name as written; empty without one
    parameters: Mapping[ParameterRole, TemplateParameter] = field(default_factory=dict)  # by role
    title: str = ""  # of a bracketed link or citation; empty without one
    reference: TextSpan | None = None  # the enclosing ``<ref>…</ref>``; None outside of one
    access_date: date | None = None  # in the text (B05), not from the history (B06)
    archive_url: str = ""  # the adjacent archive URL; empty without one
    archive_date: date | None = None  # as written, or from that URL
    status: str = ""  # URL status in the text: ``live``, ``dead``, ``unfit``, ``usurped``, or empty
    dead_tag: CitationTag | None = None  # an adjacent dead-link tag
    archive_tag: CitationTag | None = None  # an adjacent archive template
    is_paywalled: bool = False  # marked as requiring a subscription or a login
    is_malformed: bool = False  # an invalid URL where one is intended
    is_convertible: bool = False  # may safely become a citation template (B15)
    is_held: bool = False  # excluded from bot edits ({{cbignore}} next to it)
    address: str = ""  # content of `url_span`, decoded: may be an archive URL
    within: str = ""  # template around it, which inserted text might break
    is_treated_dead: bool = False  # the rendered page links to the copy, or marks the link as dead

    @property
    def is_archive_in_place(self) -> bool:
        """Return True if an archive URL replaces the original's."""
        return bool(self.archive_url) and self.address == self.archive_url != self.url

    @property
    def is_said_dead(self) -> bool:
        """Return True if the text itself marks the link as dead."""
        return self.dead_tag is not None or self.status in {"dead", "unfit", "usurped"}


class LinkCondition(StrEnum):
    """Condition of a link that needs a repair."""

    DEAD = "dead"
    USURPED = "usurped"  # the domain has another owner: readers are not led there
    ALIVE = "alive"  # again: our mark is removed


@dataclass(frozen=True, slots=True)
class ArchivedCopy:
    """Archived copy to link to."""

    address: str  # of the copy, at its archive
    timestamp: str  # capture time, UTC, 14 digits
    service: str = ""  # the archive's name in `links.archives.archive_urls`
    title: str = ""  # of the archived page, as its author wrote it (untrusted). Empty when unknown


@dataclass(frozen=True, slots=True)
class LinkRemedy:
    """Known state of a link, and the copy for its repair."""

    condition: LinkCondition
    copy: ArchivedCopy | None = None  # the copy; None: there is none (B12)
    is_ours: bool = False  # the bot's own mark, which only then is removed (ALIVE)
    bad_archives: frozenset[str] = frozenset()  # known to show no copy, or another page's (B13)
    is_sought: bool = True  # copies were searched for; a tag that states this is written only then


class RepairKind(StrEnum):
    """Kind of a citation's repair; the first that fits."""

    CONVERTED = "converted"  # a bare reference is a citation template now, with its copy
    ARCHIVED = "archived"  # a copy was added to a link that had none
    MOVED = "moved"  # the archive's address stood in the link's place
    REPLACED = "replaced"  # an archive's address that shows no copy of it gave way to one (B13)
    MARKED = "marked"  # it had a copy; now the text marks the link as dead or usurped
    TAGGED = "tagged"  # it has no copy, and a dead-link tag now
    REVIVED = "revived"  # it works again, and is no longer marked as dead
    TIDIED = "tidied"  # B15


class NoRepairReason(StrEnum):
    """Reason for leaving a citation with a remedy unchanged."""

    HELD = "held"  # a person excluded it from bots
    MALFORMED = "malformed"  # its URL is not valid
    BROKEN = "broken"  # its wikitext cannot be read with certainty
    DOUBLE = "double"  # a parameter is given twice
    COMMENT = "comment"  # a comment or markup is in the way
    SEVERAL = "several"  # the template has several links, but room for one copy only
    OTHER_TEMPLATE = "other-template"  # whose parameters for copies are unknown
    PLACE = "place"  # nothing can be inserted there: a template's parameter, a heading
    UNSAFE = "unsafe"  # the copy's address, or the URL, cannot be written in wikitext
    NO_COPY = "no-copy"  # and the wiki has no tag for it, or tagging is off
    LATER = "later"  # another change is in the way: it is repaired when the page is read again
    PAYWALL = "paywall"  # the page is marked as needing a login, and its site refuses us: reported by the bot
    UNSHOWN = "unshown"  # the address of its copy was fetched and did not show the copy; reported by the caller
    FORBIDDEN = "forbidden"  # the page excludes bots; reported by the caller


@dataclass(frozen=True, slots=True)
class ReplacedSpan:
    """Replaced piece of the text."""

    span: TextSpan  # in the original; empty for an insertion
    new_span: TextSpan  # in the repaired text
    before: str  # the original content
    after: str  # the new content


@dataclass(frozen=True)
class CitationRepair:
    """Repair of one citation."""

    kind: RepairKind
    url: str  # the original's
    archive_url: str  # the copy that is linked now; empty without one
    before: str  # the smallest piece of the original that contains all replacements
    after: str  # the same of the repaired text
    replacements: tuple[ReplacedSpan, ...]  # each piece, in text order


@dataclass(frozen=True, slots=True)
class UnrepairedCitation:
    """Citation that has a remedy and was left unchanged."""

    citation: Citation
    reason: NoRepairReason


@dataclass(frozen=True)
class RepairedText:
    """Repaired text of a page."""

    text: str  # the new text; identical when there was nothing to do
    changes: tuple[CitationRepair, ...] = ()  # repairs, in text order
    refused: tuple[UnrepairedCitation, ...] = ()  # citations left unchanged, with reasons


@dataclass(frozen=True)
class RepairOptions:
    """Options of repairs."""

    now: datetime  # for the dates in tags
    bot: str = ""  # account name for templates that name it; empty: left out
    convert_bare: bool = True  # convert a bare reference into a citation template where safe
    tag_dead: bool = True  # add the wiki's dead-link tag to a dead link without a copy
    own: tuple[str, ...] = ()  # origins of our own archive, ``https://archive.example``
    language: str = ""  # if not the map's: dates are written in digits


Remedies = Mapping[str, LinkRemedy]  # by `Citation.url`


@dataclass(frozen=True, slots=True)
class SpanEdit:
    """Pending replacement: ``text[start:end]`` becomes `new`."""

    start: int
    end: int
    new: str


@dataclass
class RepairDraft:
    """Pending repair of one citation."""

    edits: list[SpanEdit] = field(default_factory=list)
    kind: RepairKind | None = None
    archive_url: str = ""

    def replace(self, span: TextSpan, new: str, kind: RepairKind, archive_url: str = "") -> None:
        """Add a replacement of that kind, which links to the copy."""
        self.edits.append(SpanEdit(span.start, span.end, new))
        self.archive_url = archive_url or self.archive_url
        self.note(kind)

    def note(self, kind: RepairKind) -> None:
        """Record a kind; the more specific one is kept (order of `RepairKind`)."""
        order = list(RepairKind)
        if self.kind is None or order.index(kind) < order.index(self.kind):
            self.kind = kind


class CannotRepairError(Exception):
    """Signal within a repair: this citation is left unchanged."""

    def __init__(self, reason: NoRepairReason) -> None:
        super().__init__(reason.value)
        self.reason = reason
