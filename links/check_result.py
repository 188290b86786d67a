"""Link check results: status byte, verdicts, redirect hops, and reasons why a fetch got no answer.

`StatusCode` is the table; docs/reference/link-states.md shows it. It is W58's with these corrections (W59):

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
from typing import Self


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
    verdict: CheckVerdict
    how: CheckMethod
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


_V = CheckVerdict


class StatusCode(IntEnum):
    """Status byte, as stored in the registry. Each line has the HTTP statuses: numbers, ranges, or a class for the rest.

    Reasons of the verdicts:

    - What answered, but not to us, is REFUSED, and can never make a link dead: 403 and its like, 405, 406, 426 and
      every 4xx that means nothing for a plain GET, since firewalls choose among these; 505: by another version.
    - 400, 408, 413-416, 422 and 431 are FAILING: the request was plain, so the server is out of order.
    - 429 and 509 say that too much was asked, of whomever: UNDECIDED.
    """

    statuses: str  # the HTTP statuses that map to it; empty when it comes from none
    verdict: CheckVerdict  # the default verdict
    outward: int  # the HTTP status for public APIs (W55), without an answer 502 or 504; 0 when there is none
    words: str  # English sentence for users, and key of the translations

    def __new__(cls, number: int, statuses: str, verdict: CheckVerdict, outward: int, words: str) -> Self:
        """Set the attributes of a member."""
        member = int.__new__(cls, number)
        member._value_ = number
        member.statuses, member.verdict, member.outward, member.words = statuses, verdict, outward, words
        return member

    NONE = 0, "", _V.UNDECIDED, 0, "Not checked yet."
    FINE = 1, "200 304", _V.OK, 200, "It works."
    ON_REQUEST = 2, "201-299 300", _V.OK, 200, "It works; the content comes on request."
    CORRECTED = 7, "", _V.OK, 200, "It works, although the server reports an error."
    MOVED = 8, "301", _V.OK, 301, "It has moved permanently to another address."
    FOUND = 9, "302", _V.OK, 302, "It has moved temporarily to another address."
    SEE_OTHER = 10, "303", _V.OK, 303, "Another page is shown in its place."
    USE_PROXY = 11, "305", _V.FAILING, 305, "It must be requested through a proxy."
    SWITCH_PROXY = 12, "306", _V.FAILING, 306, "The server answers with a status that is no longer in use."
    TEMPORARY = 13, "307", _V.OK, 307, "It has moved temporarily to another address."
    PERMANENT = 14, "308", _V.OK, 308, "It has moved permanently to another address."
    BAD_REQUEST = 16, "400 414 422 500", _V.FAILING, 500, "The server could not handle the request."
    NO_ACCESS = 17, "401 402 403 407 451 999", _V.REFUSED, 403, "The public, or our checker, has no access."
    NOT_FOUND = 18, "404", _V.GONE, 404, "There is no such page."
    NOT_ACCEPTABLE = 19, "406", _V.REFUSED, 406, "The server refuses to answer our checker."
    STRANGE = 20, "409 411 412 417-421 424 425 428 444 449 4xx", _V.REFUSED, 400, "The server sent an invalid answer."
    GONE = 21, "410", _V.GONE, 410, "The page was removed permanently."
    BAD_TYPE = 22, "415", _V.FAILING, 415, "The server refuses the type of the request."
    BAD_RANGE = 23, "416", _V.FAILING, 416, "The server cannot deliver the requested part."
    LOCKED = 24, "423", _V.REFUSED, 423, "The page is locked."
    NOT_EXTENDED = 25, "510", _V.FAILING, 510, "The server requires an unknown extension."
    UNKNOWN = 26, "", _V.FAILING, 502, "The server sent a status that does not exist."
    BAD_METHOD = 32, "405", _V.REFUSED, 405, "The server forbids this request method."
    REQUEST_TIMEOUT = 33, "408", _V.FAILING, 408, "The server gave up waiting for the request."
    TOO_LARGE = 34, "413", _V.FAILING, 413, "The server found the request too large."
    UPGRADE = 35, "426", _V.REFUSED, 426, "The server requires another protocol."
    TOO_MANY = 36, "429", _V.UNDECIDED, 429, "The server limits the request rate; the state is unknown."
    HEADERS_TOO_LARGE = 37, "431", _V.FAILING, 431, "The server found the headers of the request too large."
    NOT_IMPLEMENTED = 38, "501", _V.FAILING, 501, "The server does not support this request method."
    BAD_GATEWAY = 39, "502 504 598 599", _V.FAILING, 502, "The server behind the gateway does not answer."
    UNAVAILABLE = 40, "503", _V.FAILING, 503, "The server is overloaded, or being maintained."
    BAD_VERSION = 41, "505", _V.REFUSED, 505, "The server does not know this version of HTTP."
    STORAGE = 42, "507", _V.FAILING, 507, "The server has no storage left."
    BANDWIDTH = 43, "509", _V.UNDECIDED, 509, "The server has exceeded its traffic quota; the state is unknown."
    EDGE = 45, "520-530", _V.FAILING, 502, "The network that delivers the site cannot reach its server."
    SERVER_ERROR = 46, "506 508 5xx", _V.FAILING, 500, "The server reports an internal error."
    OTHER_SCHEME = 63, "", _V.OK, 200, "It works with https instead of http, or the reverse."
    NETWORK = 64, "", _V.FAILING, 502, "The network failed on the way."
    DNS_REFUSED = 65, "", _V.FAILING, 502, "The name servers refuse to resolve the host."
    DNS_UNKNOWN = 66, "", _V.GONE, 502, "There is no host of that name."
    NO_ROUTE = 67, "", _V.FAILING, 504, "The host cannot be reached."
    REFUSED = 68, "", _V.FAILING, 502, "The host refuses the connection."
    BROKEN_OFF = 69, "", _V.FAILING, 502, "The host closed the connection."
    TIMEOUT = 70, "", _V.FAILING, 504, "The host did not answer in time."
    TLS = 71, "", _V.FAILING, 502, "No secure connection could be established."
    CERTIFICATE = 72, "", _V.OK, 200, "It works, but its certificate is not valid."
    NO_HTTP = 73, "", _V.FAILING, 502, "The answer was not HTTP."
    REDIRECTS = 74, "", _V.FAILING, 502, "It redirects endlessly, or to an invalid address."
    DNS_EMPTY = 75, "", _V.FAILING, 502, "The host's name has no address."
    DNS_FAULT = 76, "", _V.FAILING, 504, "The name servers do not answer, or report an error."
    OUR_NETWORK = 77, "511", _V.UNDECIDED, 0, "Our own network failed; the state is unknown."
    NOT_ALLOWED = 78, "", _V.UNDECIDED, 0, "Our own rules forbid requests to that address."
    SOFT_404 = 80, "", _V.SUSPECT, 404, "The page reports that it does not exist (soft 404)."
    CHALLENGE = 81, "", _V.REFUSED, 403, "The site lets no automatic checker in."
    LOGIN = 82, "", _V.REFUSED, 401, "The site asks for a login or an agreement first."
    PARKED = 83, "", _V.USURPED, 410, "The domain has a new owner, or is for sale."
    OTHER_CONTENT = 84, "", _V.DEVIATED, 200, "Its content has changed."
    TO_THE_ROOT = 85, "", _V.SUSPECT, 302, "It redirects to the site's home page; the page itself may be gone."
    NOT_RENDERED = 86, "", _V.FAILING, 502, "A browser could not load the page."
    INVALID = 128, "", _V.INVALID, 400, "This address cannot be requested."


_BY_NUMBER = {int(code): code for code in StatusCode}
# Answers that always need another check by other means (W53).
REEXAMINED = frozenset({StatusCode.NOT_ACCEPTABLE, StatusCode.STRANGE, StatusCode.UPGRADE, StatusCode.BAD_VERSION})


def _statuses() -> Mapping[int, StatusCode]:
    """Map each listed HTTP status to its code; single statuses override status classes."""
    code_by_status: dict[int, StatusCode] = {}
    pieces = [(piece, code) for code in StatusCode for piece in code.statuses.split()]
    for piece, code in sorted(pieces, key=lambda each: not each[0].endswith("xx")):
        first, _, last = piece.replace("xx", "00").partition("-")
        end = int(first) + 99 if piece.endswith("xx") else int(last or first)
        code_by_status |= dict.fromkeys(range(int(first), end + 1), code)
    return code_by_status


_OF_HTTP = _statuses()


def code_of_http(status: int) -> StatusCode:
    """Return the code of an HTTP status; any number has one, `StatusCode.UNKNOWN` as the default.

    >>> code_of_http(404), code_of_http(308), code_of_http(451), code_of_http(0)
    (<StatusCode.NOT_FOUND: 18>, <StatusCode.PERMANENT: 14>, <StatusCode.NO_ACCESS: 17>, <StatusCode.UNKNOWN: 26>)
    """
    return _OF_HTTP.get(status, StatusCode.UNKNOWN)


def verdict_of(code: int) -> CheckVerdict:
    """Return the default verdict of a code; UNDECIDED for an unassigned number."""
    return _BY_NUMBER.get(code, StatusCode.NONE).verdict


def public_status(code: int) -> int:
    """Return the HTTP status of a code for public APIs (W55); 0: none."""
    return _BY_NUMBER.get(code, StatusCode.NONE).outward


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
    first, *others = _BY_NUMBER.get(code, StatusCode.NONE).statuses.split() or [""]
    return int(first) if first.isdigit() and (not others or code == StatusCode.FINE) else None


def reason_of(code: int) -> str:
    """Return the code's name for programs: ``dns-unknown``; empty for an unknown one."""
    return _BY_NUMBER[code].name.lower().replace("_", "-") if code in _BY_NUMBER else ""


def words_of(code: int) -> str:
    """Return the meaning of a code as an English sentence, which is a key of the translations."""
    return _BY_NUMBER[code].words if code in _BY_NUMBER else "Nothing is known about it."


NO_FILES = frozenset((errno.EMFILE, errno.ENFILE))


class FetchFailure(StrEnum):
    """Reason that no answer was received, and its effect."""

    verdict: CheckVerdict
    code: StatusCode  # the status byte
    whole_host: bool  # it affects all URLs of the host
    settled: bool  # it is the same for HEAD and GET, so that nothing is requested twice

    def __new__(cls, text: str, verdict: CheckVerdict, code: StatusCode, scope: str = "") -> Self:
        """Set a member's attributes; its scope is the whole ``host``, or a ``method``: GET may be answered unlike HEAD."""
        member = str.__new__(cls, text)
        member._value_ = text
        member.verdict, member.code = verdict, code
        member.whole_host, member.settled = scope == "host", scope != "method"
        return member

    DNS_UNKNOWN = "dns: NXDOMAIN", _V.GONE, StatusCode.DNS_UNKNOWN, "host"
    DNS_NO_ADDRESS = "dns: no address", _V.FAILING, StatusCode.DNS_EMPTY, "host"
    DNS_FAILS = "dns: SERVFAIL", _V.FAILING, StatusCode.DNS_FAULT, "host"
    DNS_REFUSED = "dns: REFUSED", _V.FAILING, StatusCode.DNS_REFUSED, "host"
    DNS_SILENT = "dns: time-out", _V.FAILING, StatusCode.DNS_FAULT, "host"
    DNS_BROKEN = "dns: malformed", _V.FAILING, StatusCode.DNS_FAULT, "host"  # loops of aliases, malformed messages
    DNS_LIES = "dns: a lie", _V.UNDECIDED, StatusCode.OUR_NETWORK  # the answer for names that do not exist
    DNS_OURS = "dns: ours", _V.UNDECIDED, StatusCode.OUR_NETWORK  # our own name server answers for no name at all
    DNS_UNFINISHED = "dns: unfinished", _V.UNDECIDED, StatusCode.OUR_NETWORK, "method"  # the check's time was over
    # refused by us: not public, our own, or refused by setting
    ADDRESS = "address", _V.UNDECIDED, StatusCode.NOT_ALLOWED
    BLOCKED = "blocked", _V.UNDECIDED, StatusCode.NOT_ALLOWED  # the host, by setting
    PORT = "port", _V.INVALID, StatusCode.INVALID  # no browser would ask there
    URL = "url", _V.INVALID, StatusCode.INVALID  # not a URL that can be requested for
    NO_NETWORK = "network: ours", _V.UNDECIDED, StatusCode.OUR_NETWORK  # no route, no more ports: this machine
    NO_FILES = "files: ours", _V.UNDECIDED, StatusCode.NONE  # this process or machine may open no more (EMFILE, ENFILE)
    REFUSED = "connection: refused", _V.FAILING, StatusCode.REFUSED, "host"
    UNREACHABLE = "connection: unreachable", _V.FAILING, StatusCode.NO_ROUTE, "host"
    NO_CONNECTION = "connection: time-out", _V.FAILING, StatusCode.TIMEOUT, "host"
    TLS = "tls", _V.FAILING, StatusCode.TLS
    TLS_SILENT = "tls: time-out", _V.FAILING, StatusCode.TIMEOUT
    # of a client, such as members have
    WANTS_CERTIFICATE = "tls: wants a certificate", _V.REFUSED, StatusCode.NO_ACCESS
    OTHER_PROTOCOL = "tls: another protocol", _V.SUSPECT, StatusCode.NO_HTTP  # no HTTP/1.1: a browser may know it
    RESET = "answer: reset", _V.FAILING, StatusCode.BROKEN_OFF, "method"
    CLOSED = "answer: none", _V.FAILING, StatusCode.BROKEN_OFF, "method"
    SILENT = "answer: time-out", _V.FAILING, StatusCode.TIMEOUT, "method"
    NO_HTTP = "answer: not HTTP", _V.FAILING, StatusCode.NO_HTTP, "method"
    LOOP = "redirect: loop", _V.FAILING, StatusCode.REDIRECTS, "method"
    TOO_MANY = "redirect: too many", _V.FAILING, StatusCode.REDIRECTS, "method"
    FAULT = "fault: ours", _V.UNDECIDED, StatusCode.NONE  # a bug in this program


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
