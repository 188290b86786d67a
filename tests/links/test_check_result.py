"""The status byte: every HTTP status has a place, and no body makes a missing page a good one."""

import ipaddress
from contextlib import suppress

import dns.rcode
import pytest
from hypothesis import given
from hypothesis import strategies as st

from links.check_result import (
    REEXAMINED,
    CheckVerdict,
    FetchFailure,
    NoAnswerError,
    StatusCode,
    code_of_http,
    public_status,
    verdict_of,
    words_of,
)
from links.checker import dns_resolver as module
from links.checker.answer_verdict import read_status
from links.checker.dns_resolver import DnsResolver
from tests.links.name_server import ROOT, NameRecords, NameServer, naming

_PDF = b"%PDF-1.7\n" + b"x" * 5000
_PAGE = b"<!doctype html><html><head><title>Not found</title></head><body>" + b"no such page " * 400
_PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + b"\x00" * 5000

# W58's table, with W59's defects settled.
_PLACES = {
    StatusCode.FINE: [200, 304],
    StatusCode.ON_REQUEST: [201, 204, 205, 206, 226, 250, 299, 300],
    StatusCode.MOVED: [301],
    StatusCode.FOUND: [302],
    StatusCode.SEE_OTHER: [303],
    StatusCode.USE_PROXY: [305],
    StatusCode.SWITCH_PROXY: [306],
    StatusCode.TEMPORARY: [307],
    StatusCode.PERMANENT: [308],
    StatusCode.BAD_REQUEST: [400, 414, 422, 500],
    StatusCode.NO_ACCESS: [401, 402, 403, 407, 451, 999],
    StatusCode.NOT_FOUND: [404],
    StatusCode.NOT_ACCEPTABLE: [406],
    StatusCode.STRANGE: [409, 411, 412, 417, 418, 420, 421, 424, 425, 428, 444, 449, 499, 430],
    StatusCode.GONE: [410],
    StatusCode.BAD_TYPE: [415],
    StatusCode.BAD_RANGE: [416],
    StatusCode.LOCKED: [423],
    StatusCode.NOT_EXTENDED: [510],
    StatusCode.UNKNOWN: [-1, 0, 99, 100, 103, 199, 309, 399, 600, 700, 998, 1000, 2**31],
    StatusCode.BAD_METHOD: [405],
    StatusCode.REQUEST_TIMEOUT: [408],
    StatusCode.TOO_LARGE: [413],
    StatusCode.UPGRADE: [426],
    StatusCode.TOO_MANY: [429],
    StatusCode.HEADERS_TOO_LARGE: [431],
    StatusCode.NOT_IMPLEMENTED: [501],
    StatusCode.BAD_GATEWAY: [502, 504, 598, 599],
    StatusCode.UNAVAILABLE: [503],
    StatusCode.BAD_VERSION: [505],
    StatusCode.STORAGE: [507],
    StatusCode.BANDWIDTH: [509],
    StatusCode.EDGE: [520, 521, 522, 523, 524, 525, 526, 527, 528, 529, 530],
    StatusCode.SERVER_ERROR: [506, 508, 512, 519, 531, 561, 597],
    StatusCode.OUR_NETWORK: [511],
}
_CASES = [(status, code) for code, statuses in _PLACES.items() for status in statuses]


@pytest.mark.parametrize(("status", "code"), _CASES)
def test_each_http_status_has_one_place(status: int, code: StatusCode) -> None:
    """W58 and W59: 431 is placed once, 308, 421, 511 and 520-530 are placed, 507 is no loop."""
    assert code_of_http(status) is code


def test_every_code_is_explained_and_fits_a_byte() -> None:
    """No code is without its line, its words, and an outward number that HTTP could have."""
    for code in StatusCode:
        assert 0 <= code <= 255
        assert words_of(code).endswith(".")
        assert public_status(code) == 0 or 200 <= public_status(code) <= 599


def test_the_numbers_of_the_founding_table_are_kept() -> None:
    """The registry is full of these numbers: none may ever change its meaning (W58)."""
    assert {code.name: int(code) for code in StatusCode if code < 64} == {
        "NONE": 0, "FINE": 1, "ON_REQUEST": 2, "CORRECTED": 7, "MOVED": 8, "FOUND": 9, "SEE_OTHER": 10,
        "USE_PROXY": 11, "SWITCH_PROXY": 12, "TEMPORARY": 13, "PERMANENT": 14, "BAD_REQUEST": 16,
        "NO_ACCESS": 17, "NOT_FOUND": 18, "NOT_ACCEPTABLE": 19, "STRANGE": 20, "GONE": 21, "BAD_TYPE": 22,
        "BAD_RANGE": 23, "LOCKED": 24, "NOT_EXTENDED": 25, "UNKNOWN": 26, "BAD_METHOD": 32,
        "REQUEST_TIMEOUT": 33, "TOO_LARGE": 34, "UPGRADE": 35, "TOO_MANY": 36, "HEADERS_TOO_LARGE": 37,
        "NOT_IMPLEMENTED": 38, "BAD_GATEWAY": 39, "UNAVAILABLE": 40, "BAD_VERSION": 41, "STORAGE": 42,
        "BANDWIDTH": 43, "EDGE": 45, "SERVER_ERROR": 46, "OTHER_SCHEME": 63,
    }  # fmt: skip
    numbers = (
        StatusCode.NETWORK,
        StatusCode.DNS_REFUSED,
        StatusCode.DNS_UNKNOWN,
        StatusCode.NO_ROUTE,
        StatusCode.INVALID,
    )
    assert numbers == (64, 65, 66, 67, 128)


@given(st.integers())
def test_any_number_gets_an_answer(number: int) -> None:
    """A number without a meaning is never a failure, and never raises (W55)."""
    assert code_of_http(number) in StatusCode
    words_of(number)
    if number not in set(StatusCode):
        assert verdict_of(number) is CheckVerdict.UNDECIDED
        assert public_status(number) == 0


@pytest.mark.parametrize("status", [404, 410])
def test_only_the_server_itself_calls_a_page_gone(status: int) -> None:
    """404 and 410 are gone."""
    assert verdict_of(code_of_http(status)) is CheckVerdict.GONE


@given(st.integers(-10, 1100).filter(lambda status: status not in (404, 410)))
def test_no_other_status_calls_a_page_gone(status: int) -> None:
    """Whatever else a server says, the page may be there."""
    assert verdict_of(code_of_http(status)) is not CheckVerdict.GONE


@pytest.mark.parametrize("status", [401, 402, 403, 405, 406, 407, 409, 412, 418, 426, 428, 444, 451, 505, 999])
def test_who_refuses_us_is_not_failing(status: int) -> None:
    """Firewalls choose among these statuses."""
    assert verdict_of(code_of_http(status)) is CheckVerdict.REFUSED


# False statuses


@pytest.mark.parametrize("status", [404, 410, 500, 503])
@pytest.mark.parametrize("size", [0, 100, 100_000, 10_000_000])
@pytest.mark.parametrize(
    "mime",
    ["", "text/html", "application/xhtml+xml", "application/json", "application/problem+json",
     "application/xml", "application/octet-stream", "image/png", "image/svg+xml", "text/javascript"],
)  # fmt: skip
def test_no_page_text_or_picture_is_taken_for_good_against_its_status(status: int, size: int, mime: str) -> None:
    """A rightful 404 may be a whole page, a placeholder picture, or an API's answer, of any length."""
    for body in (b"", _PAGE, _PNG, b'{"error": "not found"}'):
        assert read_status(status, mime, size, body)[1] is not CheckVerdict.OK


@pytest.mark.parametrize("mime", ["text/html", "application/xhtml+xml", ""])
def test_a_large_missing_page_is_missing(mime: str) -> None:
    """404 pages have megabytes today: their length says nothing."""
    reading = read_status(404, mime, 5_000_000, _PAGE)
    assert reading == (StatusCode.NOT_FOUND, CheckVerdict.GONE, "")


@pytest.mark.parametrize(
    ("mime", "body"),
    [
        ("application/pdf", _PDF),
        ("application/zip", b"PK\x03\x04" + b"\x14\x00" + b"\x00" * 5000),
        ("audio/flac", b"fLaC\x00\x00\x00\x22" + b"\x00" * 5000),
    ],
    ids=["pdf", "zip", "flac"],
)
@pytest.mark.parametrize("status", [404, 410, 400, 500, 503])
def test_a_document_with_an_errors_status_is_corrected(status: int, mime: str, body: bytes) -> None:
    """W53: an error is no document; type and first bytes agree that it is one."""
    reading = read_status(status, mime, 80_000, body)
    assert reading[:2] == (StatusCode.CORRECTED, CheckVerdict.OK)
    assert reading[2].startswith("false status: ")


def test_a_document_by_one_sign_alone_is_suspected() -> None:
    """Declared and not read, or read and declared otherwise: the browser is to look."""
    for mime, body in (("application/pdf", b""), ("text/html", _PDF), ("", _PDF)):
        reading = read_status(404, mime, 80_000, body)
        assert reading[:2] == (StatusCode.CORRECTED, CheckVerdict.SUSPECT)


def test_a_page_that_is_declared_a_document_is_a_page() -> None:
    """A server that sends its 404 page with the type of the missing file sends a 404."""
    assert read_status(404, "application/pdf", 80_000, _PAGE)[1] is CheckVerdict.GONE


def test_a_small_document_proves_nothing() -> None:
    """A PDF of one line may say "not found"."""
    assert read_status(404, "application/pdf", 900, _PDF[:900])[1] is CheckVerdict.GONE


def test_an_error_page_that_nobody_unpacked_proves_nothing() -> None:
    """Packed bytes with the type of a page are a page."""
    packed = b"\x1f\x8b\x08" + b"\x00" * 5000
    assert read_status(404, "text/html", 80_000, packed)[1] is CheckVerdict.GONE


def test_a_refusal_is_a_refusal_by_whatever_it_is_said() -> None:
    """A 403 with a PDF is no page for us either."""
    assert read_status(403, "application/pdf", 80_000, _PDF)[1] is CheckVerdict.REFUSED
    assert read_status(429, "application/pdf", 80_000, _PDF)[1] is CheckVerdict.UNDECIDED


@pytest.mark.parametrize(
    ("status", "mime", "size", "verdict"),
    [
        (500, "text/html", 60_000, CheckVerdict.FAILING),
        (500, "text/html", 400_000, CheckVerdict.SUSPECT),
        (404, "text/plain", 2_000, CheckVerdict.GONE),
        (404, "text/plain", 400_000, CheckVerdict.SUSPECT),
        (404, "text/html", 400_000, CheckVerdict.GONE),
    ],
)
def test_a_body_larger_than_any_error_is_suspected(status: int, mime: str, size: int, verdict: CheckVerdict) -> None:
    """W53: bodies of 5xx are small, so are error texts; then the browser looks."""
    assert read_status(status, mime, size, b"plain words")[1] is verdict


@given(st.sampled_from([200, 201, 206, 300, 304, 302]), st.text(max_size=30), st.binary(max_size=100))
def test_a_good_status_is_believed(status: int, mime: str, body: bytes) -> None:
    """Only errors are held against their bodies here; soft 404s are found otherwise."""
    assert read_status(status, mime, None, body)[1] is CheckVerdict.OK


@given(st.integers(0, 999), st.text(max_size=30), st.none() | st.integers(-1, 2**40), st.binary())
def test_whatever_a_server_sends_is_read(status: int, mime: str, length: int | None, body: bytes) -> None:
    """Nothing raises, and a 404 or 410 becomes good only as a document."""
    reading = read_status(status, mime, length, body)
    if reading[1] is CheckVerdict.OK and status >= 400:
        assert reading[0] is StatusCode.CORRECTED
        assert mime
        assert body


def test_what_is_strange_is_looked_at_again() -> None:
    """19 and 20 are always re-examined (W53), and who wants another version of HTTP."""
    assert frozenset({19, 20, StatusCode.UPGRADE, StatusCode.BAD_VERSION}) == REEXAMINED


pytestmark = pytest.mark.slow  # servers of its own: seconds, not milliseconds


ONE = NameRecords(["192.0.2.1"])


def names_of(server: NameServer, **more: object) -> DnsResolver:
    return DnsResolver(nameservers=[server.endpoint], hosts={}, **more)  # type: ignore[arg-type]


async def trouble_of(names: DnsResolver, host: str) -> FetchFailure:
    with pytest.raises(NoAnswerError) as caught:
        await names.addresses(host)
    return caught.value.trouble


@pytest.mark.parametrize(
    ("records", "trouble"),
    [
        pytest.param(NameRecords(rcode=dns.rcode.NXDOMAIN), FetchFailure.DNS_UNKNOWN, id="unknown"),
        pytest.param(NameRecords(), FetchFailure.DNS_NO_ADDRESS, id="no-address"),
        pytest.param(NameRecords(rcode=dns.rcode.SERVFAIL), FetchFailure.DNS_FAILS, id="fails"),
        pytest.param(NameRecords(rcode=dns.rcode.REFUSED), FetchFailure.DNS_REFUSED, id="refused"),
        pytest.param(NameRecords(rcode=dns.rcode.FORMERR), FetchFailure.DNS_BROKEN, id="formerr"),
        pytest.param(
            NameRecords(aliases=["b.test", "a.test", "b.test", "a.test"] * 10),
            FetchFailure.DNS_BROKEN,
            id="aliases-in-a-circle",
        ),
    ],
)
async def test_why_a_name_has_no_address(records: NameRecords, trouble: FetchFailure) -> None:
    """Each way to have no address has its own class."""
    async with naming({"a.test": records}) as server:
        assert await trouble_of(names_of(server), "a.test") is trouble


async def test_a_server_that_denies_names_without_ipv6_is_not_believed() -> None:
    """That a name does not exist counts by the word on IPv4 alone: some servers deny it otherwise."""

    def by_turns(name: str) -> NameRecords:
        if name != "a.test":
            return ROOT
        family = server.queries[-1][1]
        return NameRecords(rcode=dns.rcode.SERVFAIL if family == "A" else dns.rcode.NXDOMAIN)

    async with naming({}, by_turns) as server:
        assert await trouble_of(names_of(server), "a.test") is FetchFailure.DNS_FAILS


@pytest.mark.slow
@pytest.mark.parametrize(
    "records",
    [
        pytest.param(NameRecords(silent=True), id="silence"),
        pytest.param(NameRecords(garbage=b"\x00" * 7), id="garbage"),
    ],
)
async def test_silence_about_one_name_is_that_name_s(records: NameRecords, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that answers for the root and not for a name tells of the name."""
    monkeypatch.setattr(module, "LOOKUP_S", 1.0)
    async with naming({"a.test": records}) as server:
        failure = await trouble_of(names_of(server), "a.test")
    assert failure in (FetchFailure.DNS_SILENT, FetchFailure.DNS_BROKEN)


@pytest.mark.parametrize(
    "records",
    [
        pytest.param(NameRecords(rcode=dns.rcode.SERVFAIL), id="fails"),
        pytest.param(NameRecords(rcode=dns.rcode.REFUSED), id="refuses"),
    ],
)
async def test_a_server_that_fails_for_every_name_is_our_trouble(records: NameRecords) -> None:
    """When the root is not answered either, nothing is concluded about the name."""
    async with naming({"*": records, "": records, ".": records}) as server:
        assert await trouble_of(names_of(server), "a.test") is FetchFailure.DNS_OURS


async def test_nobody_at_the_name_server_s_address_is_our_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a name server nothing is said of any name."""
    monkeypatch.setattr(module, "LOOKUP_S", 1.0)
    monkeypatch.setattr(module, "CONTROL_LIMIT_S", 0.5)
    async with naming({}) as server:
        endpoint = server.endpoint
    names = DnsResolver(nameservers=[endpoint], hosts={})
    assert await trouble_of(names, "a.test") is FetchFailure.DNS_OURS


async def test_what_is_said_of_names_that_nobody_has_is_a_lie() -> None:
    """A provider that answers for every name is not believed, except where it says something else."""
    async with naming({"*": NameRecords(["198.51.100.9"]), "a.test": ONE}) as server:
        names = names_of(server)
        assert await trouble_of(names, "gone.test") is FetchFailure.DNS_LIES
        assert await names.addresses("a.test") == (ipaddress.ip_address("192.0.2.1"),)


async def test_an_answer_holds_for_a_while() -> None:
    """An answer is kept for its time and no longer; a failure for a shorter one."""
    now = 1000.0
    async with naming({"a.test": ONE}) as server:
        names = names_of(server, monotonic=lambda: now)
        await names.addresses("a.test")
        with suppress(NoAnswerError):
            await names.addresses("b.test")
        server.queries.clear()
        now += module.NOT_FOUND_S - 1
        await names.addresses("a.test")
        assert await trouble_of(names, "b.test") is FetchFailure.DNS_UNKNOWN
        assert not server.queries
        now += 2
        assert await trouble_of(names, "b.test") is FetchFailure.DNS_UNKNOWN
        assert {name for name, _ in server.queries} == {"b.test"}
        now += module.FOUND_S
        await names.addresses("a.test")
        assert "a.test" in {name for name, _ in server.queries}


async def test_no_more_than_so_many_answers_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory does not grow with the number of names."""
    monkeypatch.setattr(module, "CACHE_SIZE", 8)
    async with naming({"*": ONE}) as server:
        names = names_of(server)
        for at in range(30):
            with suppress(NoAnswerError):
                await names.addresses(f"n{at}.test")
        assert len(names._known) == 8


async def test_search_domains_are_not_tried() -> None:
    """A name is looked up as it is, whatever the system would append."""
    async with naming({}) as server:
        names = names_of(server)
        assert await trouble_of(names, "intranet") is FetchFailure.DNS_UNKNOWN
        assert {name for name, _ in server.queries} == {"intranet"}


async def test_a_name_that_no_name_server_takes_is_malformed() -> None:
    """Labels that are too long or empty are never sent."""
    async with naming({}) as server:
        assert await trouble_of(names_of(server), "a" * 64 + ".test") is FetchFailure.DNS_BROKEN
        assert await trouble_of(names_of(server), "a..test") is FetchFailure.DNS_BROKEN
        assert not [name for name, _ in server.queries if name.startswith("a")]
