"""Reasons why an HTTP fetch got no answer, with status byte and effect (`FAILURE_MEANINGS`).

The value of a `FetchFailure` begins a result's note. Own failures (`UNDECIDED`) and requests that no browser could
make either (`INVALID`) never count against a link; nor does what may be due to the checker's own TLS or HTTP/1.1
(`CONNECTION_DOUBTS`): a browser's connection may be answered.
"""

import errno
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from links.check_result import CheckVerdict, StatusCode

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
    URL = "url"  # no URL that can be asked for
    NO_NETWORK = "network: ours"  # no route, no more ports: this machine
    NO_FILES = "files: ours"  # this process or machine may open no more (EMFILE, ENFILE)
    REFUSED = "connection: refused"
    UNREACHABLE = "connection: unreachable"
    NO_CONNECTION = "connection: time-out"
    TLS = "tls"
    TLS_SILENT = "tls: time-out"
    WANTS_CERTIFICATE = "tls: wants a certificate"  # of us, as of its own people
    OTHER_PROTOCOL = "tls: another protocol"  # no HTTP/1.1: a browser may know it
    RESET = "answer: reset"
    CLOSED = "answer: none"
    SILENT = "answer: time-out"
    NO_HTTP = "answer: not HTTP"
    LOOP = "redirect: loop"
    TOO_MANY = "redirect: too many"
    FAULT = "fault: ours"  # a mistake in this program


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
