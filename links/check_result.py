"""Link check results: status byte, verdicts, redirect hops, and reasons why a fetch got no answer.

`STATUS_TABLE` is the table; docs/reference/link-states.md shows it. It is W58's with these corrections (W59):

- 431 is only 37; 308 is 14 like the other permanent redirects, and 307 is named temporary.
- 507 is 42, "insufficient storage"; loops (508) and 506 are among the other server errors, 46.
- 421 is 20. 511 is 77, since it comes from a captive portal of our own network. 520-530, which no
  RFC defines, are CDN errors (45); 599 and similar are gateway errors (39).
- 68 to 76 split what 64 to 67 combined: refused and broken connections, time-outs, TLS.
- 80 to 86 are derived from the content of a page; they never come from a status alone.

A number never changes its meaning, as registries store them.

The value of a `FetchFailure` begins a result's note. Own failures (`UNDECIDED`) and requests that no browser could
make either (`INVALID`) never count against a link; nor does what may be due to the checker's own TLS or HTTP/1.1
(`CONNECTION_DOUBTS`): a browser's connection may be answered.
"""

import errno
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import partial


class CheckVerdict(StrEnum):
    """Verdict of a single check. Not a state: a state is derived from a history (`links.states`)."""

    OK = "ok"  # the page, or another good answer
    GONE = "gone"  # 404, 410, a name that does not exist, a soft 404
    FAILING = "failing"  # no answer, or an error that may pass: 5xx, time-outs, broken TLS
    REFUSED = "refused"  # it answered, but refused us: 401, 403, 407, 451, a challenge, a login
    UNDECIDED = "undecided"  # state unknown: 429, 503 with Retry-After, an internal error
    SUSPECT = "suspect"  # it looks good, but may not be the page: a redirect to the site's root, a soft 404
    DEVIATED = "deviated"  # a page, but with another content than the copy's
    USURPED = "usurped"  # the domain has a new owner: parked, for sale, gambling
    INVALID = "invalid"  # not a URL that can be requested


class CheckMethod(IntEnum):
    """Method of a check; the values are stored in the registry."""

    HEAD = 1
    GET = 2  # with the headers of a browser
    BROWSER = 3  # rendered
    INFERRED = 4  # inferred from another URL of the host in the same pass: no request was made (W46)
    PERSON = 5  # a person stated it


@dataclass(frozen=True, slots=True)
class RedirectHop:
    """Redirect in a chain: its status and its target."""

    status: int
    url: str


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of one check."""

    code: int  # the status byte (`StatusCode`)
    verdict: CheckVerdict  # the verdict
    how: CheckMethod  # the method
    http: int | None = None  # the HTTP status of the last answer; None without an answer
    final_url: str = ""  # the target of redirects; empty without any
    hops: tuple[RedirectHop, ...] = ()  # the redirects, oldest first
    note: str = ""  # the evidence in a few words, a constant first, e.g. ``dns: NXDOMAIN``.
    mime: str = ""  # the bare media type; empty when not given
    length: int | None = None  # bytes of the body; None when not given
    tls_fault: str = ""  # why the certificate does not verify; empty when it does, or without one
    retry_after_s: float | None = None  # delay requested by the host; None without one
    whole_host: bool = False  # it applies to all URLs of the host: no such name, no server
    head_fails: bool = False  # HEAD was answered differently from GET: this host needs GET (W42)
    similarity: int | None = None  # share of the copy's text in percent; None: not compared
    seconds: float = 0.0  # duration of the check


class StatusCode(IntEnum):
    """Status byte, as stored in the registry; `STATUS_TABLE` describes each value."""

    NONE = 0
    FINE = 1
    ON_REQUEST = 2
    CORRECTED = 7
    MOVED = 8
    FOUND = 9
    SEE_OTHER = 10
    USE_PROXY = 11
    SWITCH_PROXY = 12
    TEMPORARY = 13
    PERMANENT = 14
    BAD_REQUEST = 16
    NO_ACCESS = 17
    NOT_FOUND = 18
    NOT_ACCEPTABLE = 19
    STRANGE = 20
    GONE = 21
    BAD_TYPE = 22
    BAD_RANGE = 23
    LOCKED = 24
    NOT_EXTENDED = 25
    UNKNOWN = 26
    BAD_METHOD = 32
    REQUEST_TIMEOUT = 33
    TOO_LARGE = 34
    UPGRADE = 35
    TOO_MANY = 36
    HEADERS_TOO_LARGE = 37
    NOT_IMPLEMENTED = 38
    BAD_GATEWAY = 39
    UNAVAILABLE = 40
    BAD_VERSION = 41
    STORAGE = 42
    BANDWIDTH = 43
    EDGE = 45
    SERVER_ERROR = 46
    OTHER_SCHEME = 63
    NETWORK = 64
    DNS_REFUSED = 65
    DNS_UNKNOWN = 66
    NO_ROUTE = 67
    REFUSED = 68
    BROKEN_OFF = 69
    TIMEOUT = 70
    TLS = 71
    CERTIFICATE = 72
    NO_HTTP = 73
    REDIRECTS = 74
    DNS_EMPTY = 75
    DNS_FAULT = 76
    OUR_NETWORK = 77
    NOT_ALLOWED = 78
    SOFT_404 = 80
    CHALLENGE = 81
    LOGIN = 82
    PARKED = 83
    OTHER_CONTENT = 84
    TO_THE_ROOT = 85
    NOT_RENDERED = 86
    INVALID = 128


# Answers that always need another check by other means (W53).
REEXAMINED = frozenset({StatusCode.NOT_ACCEPTABLE, StatusCode.STRANGE, StatusCode.UPGRADE, StatusCode.BAD_VERSION})


@dataclass(frozen=True, slots=True)
class StatusEntry:
    """Entry of the status table."""

    code: StatusCode  # the byte
    statuses: str  # the HTTP statuses that map to it; empty when it comes from none
    verdict: CheckVerdict  # the default verdict
    outward: int  # the HTTP status for public APIs (W55); 0 when there is none
    words: str  # English sentence for users, and key of the translations


# (code, HTTP statuses: numbers, ranges, or a whole class for what no other line names, verdict,
# outward, words). Reasons of the verdicts:
# - What answered, but not to us, is REFUSED, and can never make a link dead: 403 and its like, 405, 406,
#   426 and every 4xx that means nothing for a plain GET, since firewalls choose among these; 505: by another version.
# - 400, 408, 413-416, 422 and 431 are FAILING: the request was plain, so the server is out of order.
# - 429 and 509 say that too much was asked, of whomever: UNDECIDED.
_C, _V = StatusCode, CheckVerdict
_LINES: tuple[tuple[StatusCode, str, CheckVerdict, int, str], ...] = (
    (_C.NONE, "", _V.UNDECIDED, 0, "Not checked yet."),
    (_C.FINE, "200 304", _V.OK, 200, "It works."),
    (_C.ON_REQUEST, "201-299 300", _V.OK, 200, "It works; the content comes on request."),
    (_C.CORRECTED, "", _V.OK, 200, "It works, although the server reports an error."),
    (_C.MOVED, "301", _V.OK, 301, "It has moved permanently to another address."),
    (_C.FOUND, "302", _V.OK, 302, "It has moved temporarily to another address."),
    (_C.SEE_OTHER, "303", _V.OK, 303, "Another page is shown in its place."),
    (_C.USE_PROXY, "305", _V.FAILING, 305, "It must be requested through a proxy."),
    (*(_C.SWITCH_PROXY, "306", _V.FAILING, 306), "The server answers with a status that is no longer in use."),
    (_C.TEMPORARY, "307", _V.OK, 307, "It has moved temporarily to another address."),
    (_C.PERMANENT, "308", _V.OK, 308, "It has moved permanently to another address."),
    (*(_C.BAD_REQUEST, "400 414 422 500", _V.FAILING, 500), "The server could not handle the request."),
    (*(_C.NO_ACCESS, "401 402 403 407 451 999", _V.REFUSED, 403), "The public, or our checker, has no access."),
    (_C.NOT_FOUND, "404", _V.GONE, 404, "There is no such page."),
    (_C.NOT_ACCEPTABLE, "406", _V.REFUSED, 406, "The server refuses to answer our checker."),
    (
        *(_C.STRANGE, "409 411 412 417-421 424 425 428 444 449 4xx", _V.REFUSED, 400),
        "The server sent an invalid answer.",
    ),
    (_C.GONE, "410", _V.GONE, 410, "The page was removed permanently."),
    (_C.BAD_TYPE, "415", _V.FAILING, 415, "The server refuses the type of the request."),
    (*(_C.BAD_RANGE, "416", _V.FAILING, 416), "The server cannot deliver the requested part."),
    (_C.LOCKED, "423", _V.REFUSED, 423, "The page is locked."),
    (_C.NOT_EXTENDED, "510", _V.FAILING, 510, "The server requires an unknown extension."),
    (_C.UNKNOWN, "", _V.FAILING, 502, "The server sent a status that does not exist."),
    (_C.BAD_METHOD, "405", _V.REFUSED, 405, "The server forbids this request method."),
    (_C.REQUEST_TIMEOUT, "408", _V.FAILING, 408, "The server gave up waiting for the request."),
    (_C.TOO_LARGE, "413", _V.FAILING, 413, "The server found the request too large."),
    (_C.UPGRADE, "426", _V.REFUSED, 426, "The server requires another protocol."),
    (*(_C.TOO_MANY, "429", _V.UNDECIDED, 429), "The server limits the request rate; the state is unknown."),
    (*(_C.HEADERS_TOO_LARGE, "431", _V.FAILING, 431), "The server found the headers of the request too large."),
    (_C.NOT_IMPLEMENTED, "501", _V.FAILING, 501, "The server does not support this request method."),
    (*(_C.BAD_GATEWAY, "502 504 598 599", _V.FAILING, 502), "The server behind the gateway does not answer."),
    (_C.UNAVAILABLE, "503", _V.FAILING, 503, "The server is overloaded, or being maintained."),
    (_C.BAD_VERSION, "505", _V.REFUSED, 505, "The server does not know this version of HTTP."),
    (_C.STORAGE, "507", _V.FAILING, 507, "The server has no storage left."),
    (*(_C.BANDWIDTH, "509", _V.UNDECIDED, 509), "The server has exceeded its traffic quota; the state is unknown."),
    (*(_C.EDGE, "520-530", _V.FAILING, 502), "The network that delivers the site cannot reach its server."),
    (_C.SERVER_ERROR, "506 508 5xx", _V.FAILING, 500, "The server reports an internal error."),
    (_C.OTHER_SCHEME, "", _V.OK, 200, "It works with https instead of http, or the reverse."),
    (_C.NETWORK, "", _V.FAILING, 502, "The network failed on the way."),
    (_C.DNS_REFUSED, "", _V.FAILING, 502, "The name servers refuse to resolve the host."),
    (_C.DNS_UNKNOWN, "", _V.GONE, 502, "There is no host of that name."),
    (_C.NO_ROUTE, "", _V.FAILING, 504, "The host cannot be reached."),
    (_C.REFUSED, "", _V.FAILING, 502, "The host refuses the connection."),
    (_C.BROKEN_OFF, "", _V.FAILING, 502, "The host closed the connection."),
    (_C.TIMEOUT, "", _V.FAILING, 504, "The host did not answer in time."),
    (_C.TLS, "", _V.FAILING, 502, "No secure connection could be established."),
    (_C.CERTIFICATE, "", _V.OK, 200, "It works, but its certificate is not valid."),
    (_C.NO_HTTP, "", _V.FAILING, 502, "The answer was not HTTP."),
    (*(_C.REDIRECTS, "", _V.FAILING, 502), "It redirects endlessly, or to an invalid address."),
    (_C.DNS_EMPTY, "", _V.FAILING, 502, "The host's name has no address."),
    (_C.DNS_FAULT, "", _V.FAILING, 504, "The name servers do not answer, or report an error."),
    (*(_C.OUR_NETWORK, "511", _V.UNDECIDED, 0), "Our own network failed; the state is unknown."),
    (_C.NOT_ALLOWED, "", _V.UNDECIDED, 0, "Our own rules forbid requests to that address."),
    (_C.SOFT_404, "", _V.SUSPECT, 404, "The page reports that it does not exist (soft 404)."),
    (_C.CHALLENGE, "", _V.REFUSED, 403, "The site lets no automatic checker in."),
    (_C.LOGIN, "", _V.REFUSED, 401, "The site asks for a login or an agreement first."),
    (_C.PARKED, "", _V.USURPED, 410, "The domain has a new owner, or is for sale."),
    (_C.OTHER_CONTENT, "", _V.DEVIATED, 200, "Its content has changed."),
    (*(_C.TO_THE_ROOT, "", _V.SUSPECT, 302), "It redirects to the site's home page; the page itself may be gone."),
    (_C.NOT_RENDERED, "", _V.FAILING, 502, "A browser could not load the page."),
    (_C.INVALID, "", _V.INVALID, 400, "This address cannot be requested."),
)
STATUS_TABLE: Mapping[StatusCode, StatusEntry] = {line[0]: StatusEntry(*line) for line in _LINES}


def _statuses() -> Mapping[int, StatusCode]:
    """Map each listed HTTP status to its code; single statuses override status classes."""
    found: dict[int, StatusCode] = {}
    pieces = [(piece, entry.code) for entry in STATUS_TABLE.values() for piece in entry.statuses.split()]
    for piece, code in sorted(pieces, key=lambda each: not each[0].endswith("xx")):
        first, _, last = piece.replace("xx", "00").partition("-")
        end = int(first) + 99 if piece.endswith("xx") else int(last or first)
        for status in range(int(first), end + 1):
            found[status] = code
    return found


_OF_HTTP = _statuses()


def code_of_http(status: int) -> StatusCode:
    """Return the code of an HTTP status; any number has one, `StatusCode.UNKNOWN` as the default.

    >>> code_of_http(404), code_of_http(308), code_of_http(451), code_of_http(0)
    (<StatusCode.NOT_FOUND: 18>, <StatusCode.PERMANENT: 14>, <StatusCode.NO_ACCESS: 17>, <StatusCode.UNKNOWN: 26>)
    """
    return _OF_HTTP.get(status, StatusCode.UNKNOWN)


def verdict_of(code: int) -> CheckVerdict:
    """Return the default verdict of a code; UNDECIDED for an unassigned number."""
    entry = _entry(code)
    return entry.verdict if entry else CheckVerdict.UNDECIDED


def public_status(code: int) -> int:
    """Return the HTTP status of a code for public APIs (W55), without an answer 502 or 504; 0: none."""
    entry = _entry(code)
    return entry.outward if entry else 0


def answered_status(code: int, evidence: str = "") -> int | None:
    """Return the HTTP status that the server gave, also by the check's note; None without an answer.

    >>> [answered_status(code) for code in (StatusCode.NOT_FOUND, StatusCode.DNS_UNKNOWN, StatusCode.BAD_REQUEST)]
    [404, None, None]
    >>> answered_status(StatusCode.BAD_REQUEST, "http: 422")
    422
    """
    noted = re.match(r"http: ([1-5][0-9]{2})\b", evidence)
    if noted:
        return int(noted[1])
    entry = _entry(code)
    if entry is None:
        return None
    first, *others = entry.statuses.split() or [""]
    is_one = first.isdigit() and (not others or entry.code is StatusCode.FINE)
    return int(first) if is_one else None


def reason_of(code: int) -> str:
    """Return the code's name for programs: ``dns-unknown``; empty for an unknown one."""
    return StatusCode(code).name.lower().replace("_", "-") if code in _NUMBERS else ""


def words_of(code: int) -> str:
    """Return the meaning of a code as an English sentence, which is a key of the translations."""
    entry = _entry(code)
    return entry.words if entry else "Nothing is known about it."


def _entry(code: int) -> StatusEntry | None:
    return STATUS_TABLE[StatusCode(code)] if code in _NUMBERS else None


_NUMBERS = frozenset(map(int, StatusCode))


NO_FILES = frozenset((errno.EMFILE, errno.ENFILE))


class FetchFailure(StrEnum):
    """Reason that no answer was received."""

    DNS_UNKNOWN = "dns: NXDOMAIN"
    DNS_NO_ADDRESS = "dns: no address"
    DNS_FAILS = "dns: SERVFAIL"
    DNS_REFUSED = "dns: REFUSED"
    DNS_SILENT = "dns: time-out"
    DNS_BROKEN = "dns: malformed"  # loops of aliases, malformed messages
    DNS_LIES = "dns: a lie"  # the answer for names that do not exist
    DNS_OURS = "dns: ours"  # our own name server answers for no name at all
    DNS_UNFINISHED = "dns: unfinished"  # the look's time was over first
    ADDRESS = "address"  # refused by us: not public, our own, or refused by setting
    BLOCKED = "blocked"  # the host, by setting
    PORT = "port"  # no browser would ask there
    URL = "url"  # not a URL that can be requested for
    NO_NETWORK = "network: ours"  # no route, no more ports: this machine
    NO_FILES = "files: ours"  # this process or machine may open no more (EMFILE, ENFILE)
    REFUSED = "connection: refused"
    UNREACHABLE = "connection: unreachable"
    NO_CONNECTION = "connection: time-out"
    TLS = "tls"
    TLS_SILENT = "tls: time-out"
    WANTS_CERTIFICATE = "tls: wants a certificate"  # of a client, such as members have
    OTHER_PROTOCOL = "tls: another protocol"  # no HTTP/1.1: a browser may know it
    RESET = "answer: reset"
    CLOSED = "answer: none"
    SILENT = "answer: time-out"
    NO_HTTP = "answer: not HTTP"
    LOOP = "redirect: loop"
    TOO_MANY = "redirect: too many"
    FAULT = "fault: ours"  # a bug in this program


@dataclass(frozen=True, slots=True)
class FailureMeaning:
    """Effect of a fetch failure."""

    verdict: CheckVerdict  # of the check
    code: StatusCode  # the status byte (`links.check_result`)
    whole_host: bool = False  # it affects all URLs of the host
    settled: bool = True  # it is the same for HEAD and GET, so that nothing is requested twice


_host = partial(FailureMeaning, whole_host=True)
_retry = partial(FailureMeaning, settled=False)
FAILURE_MEANINGS = {
    FetchFailure.DNS_UNKNOWN: _host(CheckVerdict.GONE, StatusCode.DNS_UNKNOWN),
    FetchFailure.DNS_NO_ADDRESS: _host(CheckVerdict.FAILING, StatusCode.DNS_EMPTY),
    FetchFailure.DNS_FAILS: _host(CheckVerdict.FAILING, StatusCode.DNS_FAULT),
    FetchFailure.DNS_REFUSED: _host(CheckVerdict.FAILING, StatusCode.DNS_REFUSED),
    FetchFailure.DNS_SILENT: _host(CheckVerdict.FAILING, StatusCode.DNS_FAULT),
    FetchFailure.DNS_BROKEN: _host(CheckVerdict.FAILING, StatusCode.DNS_FAULT),
    FetchFailure.DNS_LIES: FailureMeaning(CheckVerdict.UNDECIDED, StatusCode.OUR_NETWORK),
    FetchFailure.DNS_OURS: FailureMeaning(CheckVerdict.UNDECIDED, StatusCode.OUR_NETWORK),
    FetchFailure.DNS_UNFINISHED: _retry(CheckVerdict.UNDECIDED, StatusCode.OUR_NETWORK),
    FetchFailure.ADDRESS: FailureMeaning(CheckVerdict.UNDECIDED, StatusCode.NOT_ALLOWED),
    FetchFailure.BLOCKED: FailureMeaning(CheckVerdict.UNDECIDED, StatusCode.NOT_ALLOWED),
    FetchFailure.PORT: FailureMeaning(CheckVerdict.INVALID, StatusCode.INVALID),
    FetchFailure.URL: FailureMeaning(CheckVerdict.INVALID, StatusCode.INVALID),
    FetchFailure.NO_FILES: FailureMeaning(CheckVerdict.UNDECIDED, StatusCode.NONE),
    FetchFailure.NO_NETWORK: FailureMeaning(CheckVerdict.UNDECIDED, StatusCode.OUR_NETWORK),
    FetchFailure.REFUSED: _host(CheckVerdict.FAILING, StatusCode.REFUSED),
    FetchFailure.UNREACHABLE: _host(CheckVerdict.FAILING, StatusCode.NO_ROUTE),
    FetchFailure.NO_CONNECTION: _host(CheckVerdict.FAILING, StatusCode.TIMEOUT),
    FetchFailure.TLS: FailureMeaning(CheckVerdict.FAILING, StatusCode.TLS),
    FetchFailure.TLS_SILENT: FailureMeaning(CheckVerdict.FAILING, StatusCode.TIMEOUT),
    FetchFailure.WANTS_CERTIFICATE: FailureMeaning(CheckVerdict.REFUSED, StatusCode.NO_ACCESS),
    FetchFailure.OTHER_PROTOCOL: FailureMeaning(CheckVerdict.SUSPECT, StatusCode.NO_HTTP),
    FetchFailure.RESET: _retry(CheckVerdict.FAILING, StatusCode.BROKEN_OFF),
    FetchFailure.CLOSED: _retry(CheckVerdict.FAILING, StatusCode.BROKEN_OFF),
    FetchFailure.SILENT: _retry(CheckVerdict.FAILING, StatusCode.TIMEOUT),
    FetchFailure.NO_HTTP: _retry(CheckVerdict.FAILING, StatusCode.NO_HTTP),
    FetchFailure.LOOP: _retry(CheckVerdict.FAILING, StatusCode.REDIRECTS),
    FetchFailure.TOO_MANY: _retry(CheckVerdict.FAILING, StatusCode.REDIRECTS),
    FetchFailure.FAULT: FailureMeaning(CheckVerdict.UNDECIDED, StatusCode.NONE),
}

# Failures over TLS that a browser, with another hello and HTTP/2, may not have.
CONNECTION_DOUBTS = frozenset(
    (FetchFailure.TLS, FetchFailure.OTHER_PROTOCOL, FetchFailure.RESET, FetchFailure.CLOSED, FetchFailure.NO_HTTP)
)


class NoAnswerError(Exception):
    """Fetch failure without a usable answer. Internal; caught by the prober."""

    def __init__(self, trouble: FetchFailure, detail: str = "") -> None:
        super().__init__(f"{trouble}: {detail}" if detail else str(trouble))
        self.trouble = trouble
        self.detail = detail
