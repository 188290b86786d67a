"""Values that the registry API exchanges: checked request parameters, and answers.

Days are numbers (`links.check_history`). Text comes from wikis and the web as it is: whoever shows it escapes it.

Names of parameters that mean the same are taken alike: ``curid`` and ``pageid`` (W19, W67). Reasons
are texts for `translate`: programs get them as they are, people in their language.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from starlette.datastructures import QueryParams

from core.errors import InputError
from links.feedback.page_requests import RequestState
from links.registry import wikis
from links.registry.link_search import STATES, StateClass
from links.registry.wikis import WikiName
from links.states import LinkState
from playback.web.i18n import languages, noop

Group = StateClass  # states as people ask for them (W04)
GROUPS = {state: group for group, states in STATES.items() for state in states}


class LinkScope(StrEnum):
    """Which of a page's links are told."""

    PROBLEMS = "problems"  # those with findings (W06)
    ALL = "all"  # W07


class LinkHint(StrEnum):
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
class CheckPeriod:
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
class LinkCopy:
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
class SpamListHit:
    """A spam list that names the URL: which one, and its line (W52)."""

    list: str
    line: int


@dataclass(frozen=True, slots=True)
class HintNote:
    """A hint with what belongs to it: where a link moved to, what is wrong with a certificate."""

    hint: LinkHint
    text: str = ""


@dataclass(frozen=True, slots=True)
class LinkRecord:
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
    state: LinkState
    code: int = 0
    http: int | None = None
    since_day: int | None = None
    checked_day: int | None = None
    fails: int = 0
    runs: tuple[CheckPeriod, ...] = ()
    evidence: str = ""
    led_to: str = ""
    mime: str = ""
    kib: int | None = None
    notes: tuple[HintNote, ...] = ()
    copies: tuple[LinkCopy, ...] = ()
    capture: str = ""
    reports: int = 0
    replacement: str = ""
    spam: tuple[SpamListHit, ...] = ()
    spelling: str = ""

    @property
    def group(self) -> Group:
        """Its state as people ask for it."""
        return GROUPS[self.state]

    @property
    def has_findings(self) -> bool:
        """Whether there is something to be told without being asked for everything."""
        if self.spam or self.state is LinkState.INVALID:
            return True
        return self.group in (Group.UNREACHABLE, Group.DOUBTFUL)

    @property
    def is_unreachable(self) -> bool:
        """Whether a reader who follows it does not find what was cited, as far as is known (W67)."""
        return self.group is Group.UNREACHABLE or self.state in (
            LinkState.INVALID,
            LinkState.USURPED,
        )

    @property
    def is_to_follow(self) -> bool:
        """Whether it may be a link for people: not what is somebody else's now, or spam (W52)."""
        if self.spam or any(note.hint is LinkHint.FTP for note in self.notes):
            return False
        return self.state not in (LinkState.INVALID, LinkState.USURPED)


@dataclass(frozen=True, slots=True)
class PageReference:
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
        links: those that the scope asks for, in the order of `link_order`.
    """

    page_id: int | None
    title: str | None
    namespace: int | None = None
    is_observed: bool = False
    listed_day: int | None = None
    address: str = ""
    total: int = 0
    links: tuple[LinkRecord, ...] = ()
    revision: int | None = None
    is_current: bool | None = None
    request: RequestState | None = None


@dataclass(frozen=True, slots=True)
class RegistryAnswer:
    """The answer to a question for pages: one entry for each that was asked for, in that order."""

    wiki: WikiName
    scope: LinkScope
    day: int
    pages: tuple[PageAnswer, ...]


@dataclass(frozen=True, slots=True)
class UrlUses:
    """Pages that have a URL (W09).

    Attributes:
        pages: the first of them.
        has_more: whether there are others.
        is_farm_wide: whether other wikis of the farm were looked at.
    """

    pages: tuple[PageReference, ...]
    has_more: bool
    is_farm_wide: bool


class WikiListKind(StrEnum):
    """Lists of a wiki's pages (W05)."""

    SPAM = "spam"
    UNREACHABLE = "unreachable"
    DOUBTFUL = "doubtful"


@dataclass(frozen=True, slots=True)
class WikiListEntry:
    """A page on a list, and how many of its links put it there."""

    page: PageReference
    links: int


@dataclass(frozen=True, slots=True)
class WikiListPart:
    """A part of a list.

    Attributes:
        pages: in the order of their numbers.
        after: the page number that the next part begins after; None at the end.
        is_whole: False when looking for more was ended before the part was full.
    """

    pages: tuple[WikiListEntry, ...]
    after: int | None
    is_whole: bool = True


def link_order(url: str) -> tuple[object, ...]:
    """The order of links: host from its top-level domain down, port, scheme, path (W68).

    >>> sorted(["https://b.example.org/", "http://example.org/b", "http://a.example.com/"], key=link_order)
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


MOST_PAGES = 50
LINK_FIELDS = frozenset({
    "url", "state", "group", "words", "http", "status_byte", "reason", "mapped_http", "since",
    "checked", "failures", "cause", "evidence", "leads_to", "mime", "kib", "history", "hints",
    "copies", "own_copy", "reports", "replacement", "spam", "spelling",
})  # fmt: skip
_PAGE_ID = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)
_LANGUAGE = re.compile(r"([A-Za-z]{2,3})(?:[-_][A-Za-z0-9]{2,8}){0,3}", re.ASCII)
_SPACES = re.compile(r"[ _\u00a0]+")
_LONGEST_TITLE = 1_024  # characters; MediaWiki's are of 255 bytes, and the namespace's name
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class AnswerFormat(StrEnum):
    """What an answer is written in."""

    JSON = "json"
    XML = "xml"
    HTML = "html"
    JAVASCRIPT = "js"


@dataclass(frozen=True, slots=True)
class PageQuestion:
    """Pages that are asked for.

    Attributes:
        wiki: whose.
        page_ids: by their numbers, in the order they were given in, each once.
        titles: by their names, in normal form, each once.
        scope: which of their links.
        language: of the words.
        is_ping: only that somebody asked is to be noted (W22).
        fields: what is told of each link; empty: everything.
        revision: of the page, that the asker has; 0: it does not say, or asks for several (W08).
    """

    wiki: WikiName
    page_ids: tuple[int, ...]
    titles: tuple[str, ...]
    scope: LinkScope = LinkScope.PROBLEMS
    language: str = ""
    is_ping: bool = False
    fields: frozenset[str] = frozenset()
    revision: int = 0

    @property
    def size(self) -> int:
        """How many pages."""
        return len(self.page_ids) + len(self.titles)


def parse_page_question(given: QueryParams) -> PageQuestion:
    """The pages that the parameters ask for.

    Raises:
        InputError: they ask for none, for too many, or for something else.
    """
    for name in ("url", "urls", "q", "pattern"):
        if given.get(name):
            raise InputError(
                noop(
                    "Single URLs are not answered to programs: ask for the page that has it with"
                    " dbname and curid. People find a form at /links."
                )
            )
    texts = _several(given, "curid", "pageid", "curids", "pageids")
    titles = _several(given, "titles", "title", separators="|")
    if not texts and not titles:
        raise InputError(noop("Name a page: curid=9301140, or titles=Main Page."))
    question = PageQuestion(
        parse_wiki(given.get("dbname", "")),
        tuple(dict.fromkeys(map(parse_page_id, texts))),
        tuple(dict.fromkeys(map(parse_title, titles))),
        parse_scope(given.get("scope", "")),
        parse_language(given.get("lang", "")),
        parse_flag(given.get("ping", "")),
        parse_fields(given.get("fields", "")),
        parse_revision(given.get("revid", "")),
    )
    if question.size > 1:
        question = replace(question, revision=0)  # of which page nobody could say
    if question.size > MOST_PAGES:
        raise InputError(noop("Ask for 50 pages at a time at most."))
    return question


def parse_wiki(text: str) -> WikiName:
    """``dbname@farm``; without a farm, the default one (W24).

    Raises:
        InputError: it is none.

    >>> str(parse_wiki("dewiki"))
    'dewiki@WMF'
    """
    try:
        found = wikis.parse_wiki(text)
    except InputError:
        found = None
    if found is None or text != text.strip():
        raise InputError(noop("Name the wiki (dbname) like this: dewiki@WMF."))
    return found


def parse_page_id(text: str) -> int:
    """A page's number.

    Raises:
        InputError: it is none.
    """
    if not _PAGE_ID.fullmatch(text):
        raise InputError(noop("The number of a page is a whole number above 0, like 9301140."))
    return int(text)


def parse_revision(text: str) -> int:
    """Return the number of a page's revision; 0 when none is named.

    Raises:
        InputError: it is none.
    """
    if text and not _PAGE_ID.fullmatch(text):
        raise InputError(noop("The number of a revision is a whole number above 0."))
    return int(text or 0)


def parse_title(text: str) -> str:
    """A page's name in the form that wikis keep: spaces, not underscores.

    Raises:
        InputError: no page can be called so.

    >>> parse_title("_Foo__bar ")
    'Foo bar'
    """
    title = _SPACES.sub(" ", text).strip()
    if not title or len(title) > _LONGEST_TITLE or _CONTROL.search(title):
        raise InputError(
            noop("The name of a page has 1 to 1024 characters and no control characters.")
        )
    return title


def parse_scope(text: str) -> LinkScope:
    """Which links; by default those with findings.

    Raises:
        InputError: there is no such scope.
    """
    if text and text not in set(LinkScope):
        raise InputError(noop("scope is problems or all."))
    return LinkScope(text or LinkScope.PROBLEMS)


def parse_format(text: str, formats: Sequence[AnswerFormat]) -> AnswerFormat:
    """The format; the first of `formats` by default.

    Raises:
        InputError: it is none of these.
    """
    if text and text not in formats:
        raise InputError(noop("There is no such format."))
    return AnswerFormat(text) if text else formats[0]


def parse_list(text: str) -> WikiListKind:
    """Which of a wiki's lists.

    Raises:
        InputError: there is no such list.
    """
    if text not in set(WikiListKind):
        raise InputError(noop("Say which list: with=spam, with=unreachable or with=doubtful."))
    return WikiListKind(text)


def parse_after(text: str) -> int:
    """The page number behind which a list goes on; 0 for its beginning.

    Raises:
        InputError: it is none.
    """
    if text in ("", "0"):
        return 0
    if not _PAGE_ID.fullmatch(text):
        raise InputError(noop("after is the number that the part before gave."))
    return int(text)


def parse_language(text: str) -> str:
    """A language that there are words in; empty when none is named, or there is none for it.

    Raises:
        InputError: it is the name of no language.
    """
    if not text:
        return ""
    match = _LANGUAGE.fullmatch(text)
    if match is None:
        raise InputError(noop("A language is named like de or de-AT."))
    base = match[1].lower()
    return base if base in languages() else ""


def parse_fields(text: str) -> frozenset[str]:
    """Return the names of what is to be told of each link; none: everything.

    Raises:
        InputError: a link has no such field.
    """
    names = frozenset(re.split("[|,]", text)) if text else frozenset()
    if not names <= LINK_FIELDS:
        raise InputError(noop("fields names fields of a link, with commas between them."))
    return names


def parse_flag(text: str) -> bool:
    """Whether something is wanted: ``1``; ``0`` or nothing: it is not.

    Raises:
        InputError: it says neither.
    """
    if text not in ("", "0", "1"):
        raise InputError(noop("Say 1 for yes, or 0 for no."))
    return text == "1"


def _several(given: QueryParams, *names: str, separators: str = "|,") -> list[str]:
    """The values of parameters that may be given several times, or several at once."""
    texts = [text for name in names for text in given.getlist(name) if text]
    pattern = f"[{re.escape(separators)}]"
    return [each for text in texts for each in re.split(pattern, text)]
