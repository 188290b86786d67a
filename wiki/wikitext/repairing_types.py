"""What is asked of a repair, and what it answers.

A `Remedy` says what is known of a link, chosen by others; `Repaired` is the new text with each change
told exactly, so that it can be shown, undone, booked, and known again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from wiki.wikitext.citations import Citation, Span


class Condition(StrEnum):
    """What became of a link."""

    DEAD = "dead"
    USURPED = "usurped"  # the domain has another owner: readers are not led there
    ALIVE = "alive"  # again: what we said of it is taken back


@dataclass(frozen=True, slots=True)
class Archived:
    """The copy to lead readers to.

    Attributes:
        address: of the copy, at its archive.
        timestamp: when it was taken, UTC, 14 digits.
        service: the archive's name in `links.archives.services`.
        title: of the archived page, as its author wrote it; hostile. Empty when unknown.
    """

    address: str
    timestamp: str
    service: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class Remedy:
    """What is known of a link, and what there is to mend it with.

    Attributes:
        condition: what became of it.
        copy: the copy; None: nobody has one (B12).
        is_ours: we said in this text that it is dead; only then is that taken back (`Condition.ALIVE`).
        bad_archives: addresses in archives that are known to show another page, or none (B13); what
            their text alone tells is seen without.
        is_sought: copies were looked for; a tag that says so is written only then.
    """

    condition: Condition
    copy: Archived | None = None
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


class Reason(StrEnum):
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
class Replacement:
    """A piece of the text that was replaced.

    Attributes:
        span: in the original; empty where something was put in.
        new_span: in the repaired text.
        before: what stood there.
        after: what stands there now.
    """

    span: Span
    new_span: Span
    before: str
    after: str


@dataclass(frozen=True)
class Repair:
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
    replacements: tuple[Replacement, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """A citation that has a remedy and was left as it is."""

    citation: Citation
    reason: Reason


@dataclass(frozen=True)
class Repaired:
    """The text, repaired.

    Attributes:
        text: the new one; the very same when nothing was to be done.
        changes: what was done, in the text's order.
        refused: what was not, and why.
    """

    text: str
    changes: tuple[Repair, ...] = ()
    refused: tuple[Refused, ...] = ()


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


Remedies = Mapping[str, Remedy]  # by `Citation.url`


@dataclass(frozen=True, slots=True)
class Edit:
    """A piece to be replaced: ``text[start:end]`` becomes `new`."""

    start: int
    end: int
    new: str


@dataclass
class Draft:
    """What is to be done to one citation, while it is being thought of."""

    edits: list[Edit] = field(default_factory=list)
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

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.value)
        self.reason = reason
