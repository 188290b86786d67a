"""Values of reading and repairing wikitext: citations, remedies, repairs.

Positions are offsets into the text that was read (code points), so that what is to be changed can be
replaced there, and not a byte beside it.

A `LinkRemedy` says what is known of a link, chosen by others; `RepairedText` is the new text with each change
told exactly, so that it can be shown, undone, booked, and known again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum


class CitationForm(StrEnum):
    """How a URL stands on a page."""

    CITATION = "citation"  # a parameter of a citation template: {{cite web|url=…}}
    TEMPLATE = "template"  # a parameter of another template: {{official website|https://…}}
    BRACKETS = "brackets"  # [https://… title]
    BARE = "bare"  # the URL alone
    ARCHIVE_TEMPLATE = "archive-template"  # {{webarchive|url=…}} that stands for its original


class ParameterRole(StrEnum):
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
class TextSpan:
    """A piece of the text: from `start` up to, and without, `end`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TemplateParameter:
    """A parameter of a template as it stands there.

    Attributes:
        name: as written, without spaces; a number for one without name.
        value: as written, without spaces around, comments taken out.
        whole: from its ``|`` up to the next one's, or to the template's end.
        inner: the value within, without spaces around.
    """

    name: str
    value: str
    whole: TextSpan
    inner: TextSpan


@dataclass(frozen=True, slots=True)
class CitationTag:
    """A template beside a citation: a dead-link tag or an archive template.

    Attributes:
        name: of the template, as written.
        span: all of it.
        parameters: by their names as written.
    """

    name: str
    span: TextSpan
    parameters: Mapping[str, TemplateParameter] = field(default_factory=dict)


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
        """Whether an archive's address stands where the original's should."""
        return bool(self.archive_url) and self.address == self.archive_url != self.url

    @property
    def is_said_dead(self) -> bool:
        """Whether the text itself says that the link does not work."""
        return self.dead_tag is not None or self.status in {"dead", "unfit", "usurped"}


class LinkCondition(StrEnum):
    """What became of a link."""

    DEAD = "dead"
    USURPED = "usurped"  # the domain has another owner: readers are not led there
    ALIVE = "alive"  # again: what we said of it is taken back


@dataclass(frozen=True, slots=True)
class ArchivedCopy:
    """The copy to lead readers to.

    Attributes:
        address: of the copy, at its archive.
        timestamp: when it was taken, UTC, 14 digits.
        service: the archive's name in `links.archives.archive_services`.
        title: of the archived page, as its author wrote it; hostile. Empty when unknown.
    """

    address: str
    timestamp: str
    service: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class LinkRemedy:
    """What is known of a link, and what there is to mend it with.

    Attributes:
        condition: what became of it.
        copy: the copy; None: nobody has one (B12).
        is_ours: we said in this text that it is dead; only then is that taken back (`Condition.ALIVE`).
        bad_archives: addresses in archives that are known to show another page, or none (B13); what
            their text alone tells is seen without.
        is_sought: copies were looked for; a tag that says so is written only then.
    """

    condition: LinkCondition
    copy: ArchivedCopy | None = None
    is_ours: bool = False
    bad_archives: frozenset[str] = frozenset()
    is_sought: bool = True


class RepairKind(StrEnum):
    """What was done to a citation; the first that fits."""

    CONVERTED = "converted"  # a bare reference is a citation template now, with its copy
    ARCHIVED = "archived"  # a copy was put beside a link that had none
    MOVED = "moved"  # the archive's address stood in the link's place
    REPLACED = "replaced"  # an archive's address that shows no copy of it gave way to one (B13)
    MARKED = "marked"  # its copy was there; now the text says that the link is dead, or usurped
    TAGGED = "tagged"  # it has no copy, and a dead-link tag now
    REVIVED = "revived"  # it works again, and no longer says that it is dead
    TIDIED = "tidied"  # B15


class NoRepairReason(StrEnum):
    """Why a citation that has a remedy was left as it is."""

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
    """A piece of the text that was replaced.

    Attributes:
        span: in the original; empty where something was put in.
        new_span: in the repaired text.
        before: what stood there.
        after: what stands there now.
    """

    span: TextSpan
    new_span: TextSpan
    before: str
    after: str


@dataclass(frozen=True)
class CitationRepair:
    """What was done to one citation.

    Attributes:
        kind: what, in a word.
        url: the original's.
        archive_url: the copy that stands there now; empty without one.
        before: the smallest piece of the original that holds all of it.
        after: the same of the repaired text.
        replacements: each piece, in the text's order.
    """

    kind: RepairKind
    url: str
    archive_url: str
    before: str
    after: str
    replacements: tuple[ReplacedSpan, ...]


@dataclass(frozen=True, slots=True)
class UnrepairedCitation:
    """A citation that has a remedy and was left as it is."""

    citation: Citation
    reason: NoRepairReason


@dataclass(frozen=True)
class RepairedText:
    """The text, repaired.

    Attributes:
        text: the new one; the very same when nothing was to be done.
        changes: what was done, in the text's order.
        refused: what was not, and why.
    """

    text: str
    changes: tuple[CitationRepair, ...] = ()
    refused: tuple[UnrepairedCitation, ...] = ()


@dataclass(frozen=True)
class RepairOptions:
    """How repairs are made.

    Attributes:
        now: for the dates in tags.
        bot: the account's name, for the templates that tell it; empty: they do not.
        convert_bare: a bare reference may become a citation template where that is safe.
        tag_dead: a dead link without a copy gets the wiki's dead-link tag.
        own: origins of our own archive, ``https://archive.example``.
        language: of the wiki, where its template map is another language's: then dates are written in
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
    """A piece to be replaced: ``text[start:end]`` becomes `new`."""

    start: int
    end: int
    new: str


@dataclass
class RepairDraft:
    """What is to be done to one citation, while it is being thought of."""

    edits: list[SpanEdit] = field(default_factory=list)
    kind: RepairKind | None = None
    archive_url: str = ""

    def note(self, kind: RepairKind) -> None:
        """Something was done; the more telling kind stays (the order of `RepairKind`)."""
        order = list(RepairKind)
        if self.kind is None or order.index(kind) < order.index(self.kind):
            self.kind = kind


class CannotRepairError(Exception):
    """Within a repair: this citation is left as it is.

    Attributes:
        reason: why.
    """

    def __init__(self, reason: NoRepairReason) -> None:
        super().__init__(reason.value)
        self.reason = reason
