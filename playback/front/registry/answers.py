"""What the registry answers, as values: every format is made of these (W21, W70).

Days are numbers (`links.days`). Text comes from wikis and the web as it is: whoever shows it escapes it.
"""

from dataclasses import dataclass
from enum import StrEnum

from links.books.asked_pages import RequestState
from links.books.wikis import WikiName
from links.link_search import STATES, StateClass
from links.states import State

Group = StateClass  # states as people ask for them (W04)
GROUPS = {state: group for group, states in STATES.items() for state in states}


class Scope(StrEnum):
    """Which of a page's links are told."""

    PROBLEMS = "problems"  # those with findings (W06)
    ALL = "all"  # W07


class Hint(StrEnum):
    """What else is to be known of a link; its words are in `words`."""

    MOVED = "moved"  # for good
    CERTIFICATE = "certificate"
    RATE_LIMIT = "rate-limit"
    HTTPS_NEEDED = "https-needed"
    HTTP_NEEDED = "http-needed"
    DNS_ERROR = "dns-error"
    SERVER_ERROR = "server-error"
    UNVERIFIABLE = "unverifiable"
    PRESUMED_REACHABLE = "presumed-reachable"  # by readers, for half of the domain (W16)
    MISSING_TARGET = "missing-target"  # it leads to the farm itself, to no page (W50)
    FTP = "ftp"  # nobody here asks for it (W44)
    BIDI = "bidi"  # its path may be shown to say something else (W50)
    HIDDEN = "hidden"  # its path holds what nobody sees
    MIXED = "mixed-scripts"  # its host may be taken for another


@dataclass(frozen=True, slots=True)
class Run:
    """The same answer at every check from one day to another (W54).

    Attributes:
        code: the status byte.
        http: the HTTP status that it stands for; None when it stands for none (W55).
    """

    code: int
    http: int | None
    first_day: int
    last_day: int


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy in an archive (W30).

    Attributes:
        service: the archive's short name.
        address: the copy's; empty when there are copies and none was chosen.
        timestamp: 14 digits, or empty.
    """

    service: str
    address: str
    timestamp: str


@dataclass(frozen=True, slots=True)
class SpamHit:
    """A spam list that names the URL: which one, and its line (W52)."""

    list: str
    line: int


@dataclass(frozen=True, slots=True)
class Note:
    """A hint with what belongs to it: where a link moved to, what is wrong with a certificate."""

    hint: Hint
    text: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """What is known of one URL.

    Attributes:
        url: its normal form (W51); of what is no URL, the text as it stands on the page.
        state: where it stands.
        code: the last status byte.
        http: the HTTP status that it stands for; None without one.
        since_day: since when it is so; None when nobody knows.
        checked_day: when it was last looked at; None: never.
        fails: failures in a row that count.
        runs: its history, oldest first.
        evidence: what was seen last, a constant first; empty when nothing was noted.
        led_to: where its redirects ended; empty without.
        mime: an unusual type's short name, else empty; `kib` its length.
        notes: hints.
        copies: in archives.
        capture: the timestamp of our own newest copy; empty without.
        reports: readers who say that they reach it (W13).
        replacement: another URL for it, tested; empty without (W17).
        spam: spam lists that name it.
        spelling: how the page in question spells it (A17); empty: as `url`.
    """

    url: str
    state: State
    code: int = 0
    http: int | None = None
    since_day: int | None = None
    checked_day: int | None = None
    fails: int = 0
    runs: tuple[Run, ...] = ()
    evidence: str = ""
    led_to: str = ""
    mime: str = ""
    kib: int | None = None
    notes: tuple[Note, ...] = ()
    copies: tuple[Copy, ...] = ()
    capture: str = ""
    reports: int = 0
    replacement: str = ""
    spam: tuple[SpamHit, ...] = ()
    spelling: str = ""

    @property
    def group(self) -> Group:
        """Its state as people ask for it."""
        return GROUPS[self.state]

    @property
    def has_findings(self) -> bool:
        """Whether there is something to be told without being asked for everything."""
        if self.spam or self.state is State.INVALID:
            return True
        return self.group in (Group.UNREACHABLE, Group.DOUBTFUL)

    @property
    def is_unreachable(self) -> bool:
        """Whether a reader who follows it does not find what was cited, as far as is known (W67)."""
        return self.group is Group.UNREACHABLE or self.state in (State.INVALID, State.USURPED)

    @property
    def is_to_follow(self) -> bool:
        """Whether it may be a link for people: not what is somebody else's now, or spam (W52)."""
        if self.spam or any(note.hint is Hint.FTP for note in self.notes):
            return False
        return self.state not in (State.INVALID, State.USURPED)


@dataclass(frozen=True, slots=True)
class PageRef:
    """A page of a wiki.

    Attributes:
        wiki: whose.
        page_id: the wiki's own number.
        title: what it is called now, as far as is known.
        address: where it is read; empty when nobody knows.
    """

    wiki: WikiName
    page_id: int
    title: str
    namespace: int
    address: str = ""


@dataclass(frozen=True, slots=True)
class PageAnswer:
    """What is known of a page's links.

    Attributes:
        page_id: as it was asked for, or as the page has it; None for a title that nobody knows.
        title: the same.
        namespace: None when the page is not observed.
        is_observed: whether the registry knows the page.
        listed_day: when its links were read from the wiki; what was added since is not among them
            (W08). None: not yet. Of one that is not observed, when it was read because somebody asked.
        address: where the page is read; empty when nobody knows.
        total: links on the page, whether they are told or not; of a page that is not observed those
            that the registry knows.
        revision: of the page, that the links were read from; None: nobody noted which.
        is_current: whether that is the revision that the question names; None: it names none.
        request: of a page that is not observed what becomes of the request to read it; None of others.
        links: those that the scope asks for, in the order of `order_of`.
    """

    page_id: int | None
    title: str | None
    namespace: int | None = None
    is_observed: bool = False
    listed_day: int | None = None
    address: str = ""
    total: int = 0
    links: tuple[Link, ...] = ()
    revision: int | None = None
    is_current: bool | None = None
    request: RequestState | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a question for pages: one entry for each that was asked for, in that order."""

    wiki: WikiName
    scope: Scope
    day: int
    pages: tuple[PageAnswer, ...]


@dataclass(frozen=True, slots=True)
class Uses:
    """Pages that have a URL (W09).

    Attributes:
        pages: the first of them.
        has_more: whether there are others.
        is_farm_wide: whether other wikis of the farm were looked at.
    """

    pages: tuple[PageRef, ...]
    has_more: bool
    is_farm_wide: bool


class ListKind(StrEnum):
    """Lists of a wiki's pages (W05)."""

    SPAM = "spam"
    UNREACHABLE = "unreachable"
    DOUBTFUL = "doubtful"


@dataclass(frozen=True, slots=True)
class ListedPage:
    """A page on a list, and how many of its links put it there."""

    page: PageRef
    links: int


@dataclass(frozen=True, slots=True)
class Listed:
    """A part of a list.

    Attributes:
        pages: in the order of their numbers.
        after: the page number that the next part begins after; None at the end.
        is_whole: False when looking for more was ended before the part was full.
    """

    pages: tuple[ListedPage, ...]
    after: int | None
    is_whole: bool = True


def order_of(url: str) -> tuple[object, ...]:
    """The order of links: host from its top-level domain down, port, scheme, path (W68).

    >>> sorted(["https://b.example.org/", "http://example.org/b", "http://a.example.com/"], key=order_of)
    ['http://a.example.com/', 'http://example.org/b', 'https://b.example.org/']
    """
    scheme, colon, rest = url.partition("://")
    if not colon:
        return (("",), 0, "", url)  # no URL: before all others
    authority, slash, path = rest.partition("/")
    host, _, port = (
        authority.rpartition(":") if not authority.endswith("]") else (authority, "", "")
    )
    host, port = (host, port) if host else (authority, "")
    return (
        tuple(reversed(host.split("."))),
        int(port) if port.isdigit() else 0,
        scheme,
        slash + path,
    )
