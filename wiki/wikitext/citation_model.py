"""Values of reading and repairing wikitext: citations, remedies, repairs.

Positions are code point offsets into the text that was read.

A `LinkRemedy` holds the known state of a link and is chosen by other modules; `RepairedText` is the new
text with an exact record of each change, for display, revert, the edit log and later recognition.
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
    ARCHIVE_TEMPLATE = "archive-template"  # {{webarchive|url=…}} that stands for its original


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
    """Parameter of a template as written.

    Attributes:
        name: as written, without spaces; a number for an unnamed one.
        value: as written, without surrounding spaces and comments.
        whole: from its ``|`` up to the next one's, or to the template's end.
        inner: the value's span, without surrounding spaces.
    """

    name: str
    value: str
    whole: TextSpan
    inner: TextSpan


@dataclass(frozen=True, slots=True)
class CitationTag:
    """Template next to a citation: a dead-link tag or an archive template.

    Attributes:
        name: of the template, as written.
        span: of the whole template.
        parameters: by their names as written.
    """

    name: str
    span: TextSpan
    parameters: Mapping[str, TemplateParameter] = field(default_factory=dict)


@dataclass(frozen=True)
class Citation:
    """One external link of a page.

    Attributes:
        url: the original as a reader would open it; not an archive URL of it.
        way: its form.
        span: the link or template itself, without adjacent tags.
        url_span: the URL within.
        template: the template's name as written; empty without one.
        parameters: of the citation template, by role.
        title: of a bracketed link or citation; empty without one.
        reference: the enclosing ``<ref>``, from ``<ref`` to ``</ref>``; None outside of one.
        access_date: access date given in the text (B05; dates from the history (B06) are not included).
        archive_url: the adjacent archive URL; empty without one.
        archive_date: as written, or from that URL.
        status: URL status in the text: ``live``, ``dead``, ``unfit``, ``usurped``, or empty.
        dead_tag: an adjacent dead-link tag.
        archive_tag: an adjacent archive template.
        is_paywalled: marked as requiring a subscription or a login.
        is_malformed: an invalid URL where one is intended.
        is_convertible: a bare or bracketed link that can safely become a citation template (B15).
        is_held: excluded from bot edits ({{cbignore}} next to it).
        address: content of `url_span`, entities decoded: the archive URL where that replaces the
            original.
        within: name of the template in one of whose parameters this link or template is; text inserted
            there may break that template.
        is_treated_dead: the rendered page links to the copy, or marks the link as dead.
    """

    url: str
    way: CitationForm
    span: TextSpan
    url_span: TextSpan
    template: str = ""
    parameters: Mapping[ParameterRole, TemplateParameter] = field(default_factory=dict)
    title: str = ""
    reference: TextSpan | None = None
    access_date: date | None = None
    archive_url: str = ""
    archive_date: date | None = None
    status: str = ""
    dead_tag: CitationTag | None = None
    archive_tag: CitationTag | None = None
    is_paywalled: bool = False
    is_malformed: bool = False
    is_convertible: bool = False
    is_held: bool = False
    address: str = ""
    within: str = ""
    is_treated_dead: bool = False

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
    ALIVE = "alive"  # again: what we said of it is taken back


@dataclass(frozen=True, slots=True)
class ArchivedCopy:
    """Archived copy to link to.

    Attributes:
        address: of the copy, at its archive.
        timestamp: capture time, UTC, 14 digits.
        service: the archive's name in `links.archives.archive_services`.
        title: of the archived page, as its author wrote it (untrusted). Empty when unknown.
    """

    address: str
    timestamp: str
    service: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class LinkRemedy:
    """Known state of a link, and the copy for its repair.

    Attributes:
        condition: of the link.
        copy: the copy; None: there is none (B12).
        is_ours: the bot marked it dead in this text; only then is the mark removed
            (`LinkCondition.ALIVE`).
        bad_archives: archive URLs known to show another page, or none (B13); those recognisable from
            their text need not be listed.
        is_sought: copies were searched for; a tag that states this is written only then.
    """

    condition: LinkCondition
    copy: ArchivedCopy | None = None
    is_ours: bool = False
    bad_archives: frozenset[str] = frozenset()
    is_sought: bool = True


class RepairKind(StrEnum):
    """Kind of a citation's repair; the first that fits."""

    CONVERTED = "converted"  # a bare reference is a citation template now, with its copy
    ARCHIVED = "archived"  # a copy was put beside a link that had none
    MOVED = "moved"  # the archive's address stood in the link's place
    REPLACED = "replaced"  # an archive's address that shows no copy of it gave way to one (B13)
    MARKED = "marked"  # its copy was there; now the text says that the link is dead, or usurped
    TAGGED = "tagged"  # it has no copy, and a dead-link tag now
    REVIVED = "revived"  # it works again, and no longer says that it is dead
    TIDIED = "tidied"  # B15


class NoRepairReason(StrEnum):
    """Reason for leaving a citation with a remedy unchanged."""

    HELD = "held"  # a person asked bots to leave it alone
    MALFORMED = "malformed"  # its URL is none
    BROKEN = "broken"  # its wikitext cannot be read with certainty
    DOUBLE = "double"  # a parameter stands there twice
    COMMENT = "comment"  # a comment or markup stands where something would be written
    SEVERAL = "several"  # the template has several links, and room for one copy
    OTHER_TEMPLATE = "other-template"  # of which nobody said how it names a copy
    PLACE = "place"  # nothing may be put there: a template's parameter, a heading
    UNSAFE = "unsafe"  # the copy's address, or the URL, cannot be written in wikitext
    NO_COPY = "no-copy"  # and the wiki has no tag to say so, or none is wanted
    LATER = "later"  # another change stands in the way: it has its turn when the page is read anew
    PAYWALL = (
        "paywall"  # the page says that it takes a login, and its site refuses us: told by the bot
    )
    UNSHOWN = "unshown"  # the address of its copy was fetched, and did not show it; said by who fetched it
    FORBIDDEN = "forbidden"  # the page asks bots to stay away; said by those who have asked it


@dataclass(frozen=True, slots=True)
class ReplacedSpan:
    """Replaced piece of the text.

    Attributes:
        span: in the original; empty for an insertion.
        new_span: in the repaired text.
        before: the original content.
        after: the new content.
    """

    span: TextSpan
    new_span: TextSpan
    before: str
    after: str


@dataclass(frozen=True)
class CitationRepair:
    """Repair of one citation.

    Attributes:
        kind: of the repair.
        url: the original's.
        archive_url: the copy that is linked now; empty without one.
        before: the smallest piece of the original that contains all replacements.
        after: the same of the repaired text.
        replacements: each piece, in text order.
    """

    kind: RepairKind
    url: str
    archive_url: str
    before: str
    after: str
    replacements: tuple[ReplacedSpan, ...]


@dataclass(frozen=True, slots=True)
class UnrepairedCitation:
    """Citation that has a remedy and was left unchanged."""

    citation: Citation
    reason: NoRepairReason


@dataclass(frozen=True)
class RepairedText:
    """Repaired text of a page.

    Attributes:
        text: the new text; identical when there was nothing to do.
        changes: repairs, in text order.
        refused: citations left unchanged, with reasons.
    """

    text: str
    changes: tuple[CitationRepair, ...] = ()
    refused: tuple[UnrepairedCitation, ...] = ()


@dataclass(frozen=True)
class RepairOptions:
    """Options of repairs.

    Attributes:
        now: for the dates in tags.
        bot: account name for templates that name it; empty: left out.
        convert_bare: convert a bare reference into a citation template where safe.
        tag_dead: add the wiki's dead-link tag to a dead link without a copy.
        own: origins of our own archive, ``https://archive.example``.
        language: of the wiki, where its template map is another language's: dates are then written in
            digits.
    """

    now: datetime
    bot: str = ""
    convert_bare: bool = True
    tag_dead: bool = True
    own: tuple[str, ...] = ()
    language: str = ""


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

    def note(self, kind: RepairKind) -> None:
        """Record a kind; the more specific one is kept (order of `RepairKind`)."""
        order = list(RepairKind)
        if self.kind is None or order.index(kind) < order.index(self.kind):
            self.kind = kind


class CannotRepairError(Exception):
    """Signal within a repair: this citation is left unchanged.

    Attributes:
        reason: the reason.
    """

    def __init__(self, reason: NoRepairReason) -> None:
        super().__init__(reason.value)
        self.reason = reason
