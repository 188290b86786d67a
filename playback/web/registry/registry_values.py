"""Values that the registry API exchanges: checked request parameters, and answers.

Text from wikis and the web is unescaped. Parameter names with the same meaning are synonyms: ``curid`` and ``pageid``
(W19, W67). Invalid parameters raise InputError with a text for `translate`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from starlette.datastructures import QueryParams

from core.errors import InputError
from links.check_history import HistoryRun
from links.feedback.reports import RequestState
from links.registry import wikis
from links.registry.link_search import STATES, StateClass
from links.registry.lookups import CopyFacts, SpamFacts
from links.registry.wikis import WikiName
from links.states import LinkState
from playback.web.i18n import languages, noop

Group = StateClass  # states as filter groups (W04)
GROUPS = {state: group for group, states in STATES.items() for state in states}


class LinkScope(StrEnum):
    """Selection of a page's links to return."""

    PROBLEMS = "problems"  # those with findings (W06)
    ALL = "all"  # W07


class LinkHint(StrEnum):
    """Additional hint about a link; its texts are in `link_messages`."""

    MOVED = "moved"  # for good
    CERTIFICATE = "certificate"
    RATE_LIMIT = "rate-limit"
    HTTPS_NEEDED = "https-needed"
    HTTP_NEEDED = "http-needed"
    DNS_ERROR = "dns-error"
    SERVER_ERROR = "server-error"
    UNVERIFIABLE = "unverifiable"
    PRESUMED_REACHABLE = "presumed-reachable"  # by readers, for half of the domain (W16)
    MISSING_TARGET = "missing-target"  # link to a missing page of the farm (W50)
    FTP = "ftp"  # not checked (W44)
    BIDI = "bidi"  # its path may be displayed as different text (W50)
    HIDDEN = "hidden"  # its path has invisible characters
    MIXED = "mixed-scripts"  # its host may be mistaken for another


@dataclass(frozen=True, slots=True)
class HintNote:
    """Hint with its details: redirect target, certificate error."""

    hint: LinkHint
    text: str = ""


@dataclass(frozen=True, slots=True)
class LinkRecord:
    """Record of one URL."""

    url: str  # its normal form (W51); for an invalid URL, the text on the page
    state: LinkState
    code: int = 0  # the last status byte
    http: int | None = None  # the corresponding HTTP status; None without one
    since_day: int | None = None  # first day of the state; None when unknown
    checked_day: int | None = None  # day of the last check; None: never
    fails: int = 0  # number of consecutive failures that count
    runs: tuple[HistoryRun, ...] = ()  # check history, oldest first
    evidence: str = ""  # evidence of the last check, constant first; may be empty
    led_to: str = ""  # redirect target; empty without one
    mime: str = ""  # short name of an unusual media type, else empty; `kib` is the length
    kib: int | None = None
    notes: tuple[HintNote, ...] = ()
    copies: tuple[CopyFacts, ...] = ()
    capture: str = ""  # timestamp of this archive's newest copy; empty without one
    reports: int = 0  # number of readers who report it as reachable (W13)
    replacement: str = ""  # replacement URL, tested; empty without one (W17)
    spam: tuple[SpamFacts, ...] = ()  # spam lists that match it
    spelling: str = ""  # its spelling on the page (A17); empty: as `url`

    @property
    def group(self) -> Group:
        """Return the filter group of its state."""
        return GROUPS[self.state]

    @property
    def has_findings(self) -> bool:
        """Return True when it is included in the default scope."""
        if self.spam or self.state is LinkState.INVALID:
            return True
        return self.group in (Group.UNREACHABLE, Group.DOUBTFUL)

    @property
    def is_unreachable(self) -> bool:
        """Return True when the cited content is presumably unreachable (W67)."""
        return self.group is Group.UNREACHABLE or self.state in (LinkState.INVALID, LinkState.USURPED)

    @property
    def is_to_follow(self) -> bool:
        """Return True when it may be shown as a link: not changed owner, not spam (W52)."""
        if self.spam or any(note.hint is LinkHint.FTP for note in self.notes):
            return False
        return self.state not in (LinkState.INVALID, LinkState.USURPED)


@dataclass(frozen=True, slots=True)
class PageReference:
    """Page of a wiki."""

    wiki: WikiName
    page_id: int
    title: str  # current title, as far as known
    namespace: int
    address: str = ""  # address of the page; empty when unknown


@dataclass(frozen=True, slots=True)
class PageAnswer:
    """Answer about a page's links."""

    page_id: int | None  # as requested or stored; None for an unknown title
    title: str | None
    namespace: int | None = None  # None when the page is not observed
    is_observed: bool = False
    listed_day: int | None = None  # last read of its links (W08), maybe on request; None: not yet
    address: str = ""  # address of the page; empty when unknown
    total: int = 0  # of its links in any scope; if not observed, of the known ones
    links: tuple[LinkRecord, ...] = ()  # those in the scope, in the order of `link_order`
    revision: int | None = None  # revision the links were read from; None: not recorded
    is_current: bool | None = None  # whether that is the requested revision; None: none was given
    request: RequestState | None = None  # to read a page that is not observed


@dataclass(frozen=True, slots=True)
class RegistryAnswer:
    """Answer to a query for pages: one entry for each, in order."""

    wiki: WikiName
    scope: LinkScope
    day: int
    pages: tuple[PageAnswer, ...]


@dataclass(frozen=True, slots=True)
class UrlUses:
    """Pages that contain a URL (W09)."""

    pages: tuple[PageReference, ...]  # the first of them
    has_more: bool  # whether there are others
    is_farm_wide: bool  # whether all wikis of the farm were searched


class WikiListKind(StrEnum):
    """Kind of list of a wiki's pages (W05)."""

    SPAM = "spam"
    UNREACHABLE = "unreachable"
    DOUBTFUL = "doubtful"


@dataclass(frozen=True, slots=True)
class WikiListPart:
    """Part of a list."""

    pages: tuple[tuple[PageReference, int], ...]  # with the number of matching links, by page number
    after: int | None  # page number after which the next part begins; None at the end
    is_whole: bool = True  # False when the scan limit was reached before the part was full


def link_order(url: str) -> tuple[object, ...]:
    """Return the sort key of links: reversed host, port, scheme, path (W68).

    >>> sorted(["https://b.example.org/", "http://example.org/b", "http://a.example.com/"], key=link_order)
    ['http://a.example.com/', 'http://example.org/b', 'https://b.example.org/']
    """
    scheme, colon, rest = url.partition("://")
    if not colon:
        return (("",), 0, "", url)  # no URL: before all others
    authority, slash, path = rest.partition("/")
    host, _, port = authority.rpartition(":") if not authority.endswith("]") else (authority, "", "")
    host, port = (host, port) if host else (authority, "")
    return (tuple(reversed(host.split("."))), int(port) if port.isdigit() else 0, scheme, slash + path)


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
    """Output format of an answer."""

    JSON = "json"
    XML = "xml"
    HTML = "html"
    JAVASCRIPT = "js"


@dataclass(frozen=True, slots=True)
class PageQuestion:
    """Query for pages."""

    wiki: WikiName
    page_ids: tuple[int, ...]  # page numbers in request order, without duplicates
    titles: tuple[str, ...]  # normalised titles, without duplicates
    scope: LinkScope = LinkScope.PROBLEMS
    language: str = ""  # of the texts
    is_ping: bool = False  # only record the request (W22)
    fields: frozenset[str] = frozenset()  # fields of each link; empty: all
    revision: int = 0  # the caller's revision of the page; 0: not given, or several pages (W08)

    @property
    def size(self) -> int:
        """Return the number of pages."""
        return len(self.page_ids) + len(self.titles)


def parse_page_question(parameters: QueryParams) -> PageQuestion:
    """Parse the parameters of a query for pages."""
    for name in ("url", "urls", "q", "pattern"):
        if parameters.get(name):
            raise InputError(
                noop(
                    "Programs may not look up single URLs: request the page that contains it with"
                    " dbname and curid. A form for people is at /links."
                )
            )
    texts = _several(parameters, "curid", "pageid", "curids", "pageids")
    titles = _several(parameters, "titles", "title", separators="|")
    if not texts and not titles:
        raise InputError(noop("Specify a page: curid=9301140, or titles=Main Page."))
    revision = parameters.get("revid", "")
    question = PageQuestion(
        parse_wiki(parameters.get("dbname", "")),
        tuple(dict.fromkeys(map(parse_page_id, texts))),
        tuple(dict.fromkeys(map(parse_title, titles))),
        parse_scope(parameters.get("scope", "")),
        parse_language(parameters.get("lang", "")),
        parse_flag(parameters.get("ping", "")),
        parse_fields(parameters.get("fields", "")),
        _number(revision, noop("A revision ID is a positive integer.")) if revision else 0,
    )
    if question.size > 1:
        question = replace(question, revision=0)  # ambiguous for several pages
    if question.size > MOST_PAGES:
        raise InputError(noop("At most 50 pages are allowed per request."))
    return question


def parse_wiki(text: str) -> WikiName:
    """Parse ``dbname@farm``; without a farm, the default one is used (W24).

    >>> str(parse_wiki("dewiki"))
    'dewiki@WMF'
    """
    try:
        name = wikis.parse_wiki(text)
    except InputError:
        name = None
    if name is None or text != text.strip():
        raise InputError(noop("Specify the wiki (dbname), such as dewiki@WMF."))
    return name


def parse_page_id(text: str) -> int:
    """Parse a page number."""
    return _number(text, noop("A page ID is a positive integer, such as 9301140."))


def _number(text: str, error: str) -> int:
    if not _PAGE_ID.fullmatch(text):
        raise InputError(error)
    return int(text)


def parse_title(text: str) -> str:
    """Normalize a page title: spaces instead of underscores.

    >>> parse_title("_Foo__bar ")
    'Foo bar'
    """
    title = _SPACES.sub(" ", text).strip()
    if not title or len(title) > _LONGEST_TITLE or _CONTROL.search(title):
        raise InputError(noop("A page title has 1 to 1024 characters and no control characters."))
    return title


def parse_scope(text: str) -> LinkScope:
    """Parse the scope; by default, links with findings."""
    if text and text not in set(LinkScope):
        raise InputError(noop("scope is problems or all."))
    return LinkScope(text or LinkScope.PROBLEMS)


def parse_format(text: str, formats: Sequence[AnswerFormat]) -> AnswerFormat:
    """Parse the format; the first of `formats` by default."""
    if text and text not in formats:
        raise InputError(noop("There is no such format."))
    return AnswerFormat(text) if text else formats[0]


def parse_list(text: str) -> WikiListKind:
    """Parse the kind of list."""
    if text not in set(WikiListKind):
        raise InputError(noop("Specify the list: with=spam, with=unreachable or with=doubtful."))
    return WikiListKind(text)


def parse_after(text: str) -> int:
    """Parse the page number after which a list continues; 0 for its beginning."""
    if text in ("", "0"):
        return 0
    return _number(text, noop("after is the number returned with the previous part."))


def parse_language(text: str) -> str:
    """Parse a language; empty when none is given, or there is no translation."""
    if not text:
        return ""
    match = _LANGUAGE.fullmatch(text)
    if match is None:
        raise InputError(noop("Use a language tag such as de or de-AT."))
    base = match[1].lower()
    return base if base in languages() else ""


def parse_fields(text: str) -> frozenset[str]:
    """Parse the names of link fields; empty: all."""
    names = frozenset(re.split("[|,]", text)) if text else frozenset()
    if not names <= LINK_FIELDS:
        raise InputError(noop("fields is a comma-separated list of fields of a link."))
    return names


def parse_flag(text: str) -> bool:
    """Parse a flag: ``1`` is True; ``0`` or nothing is False."""
    if text not in ("", "0", "1"):
        raise InputError(noop("Use 1 for yes, or 0 for no."))
    return text == "1"


def _several(parameters: QueryParams, *names: str, separators: str = "|,") -> list[str]:
    """Return the values of parameters that may be repeated or contain several values."""
    texts = [text for name in names for text in parameters.getlist(name) if text]
    pattern = f"[{re.escape(separators)}]"
    return [each for text in texts for each in re.split(pattern, text)]
