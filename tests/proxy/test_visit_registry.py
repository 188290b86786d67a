"""Whose request a request is: a visit's credentials are good for that visit, and nothing else is."""

import asyncio
import base64
import gzip
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product

import psutil
import pytest
from hypothesis import given, strategies
from hypothesis import settings as budget
from isal import isal_zlib

from core.errors import InputError
from core.hosts import ProxyEndpoint
from proxy.control.client import ContextCredentials
from proxy.visit_registry import VisitRegistry, VisitSession
from tests.support.examples import examples
from tests.support.proxy_fixtures import ProxyBrowser, ProxyCommand, ProxyInProcess, ScriptedOrigin, check, records

pytestmark = pytest.mark.proxy
URL = "http://origin.example/page"


@contextmanager
def browser(proxy: ProxyInProcess, given: ProxyEndpoint) -> Iterator[ProxyBrowser]:
    """Yield a client with a visit's credentials."""
    client = ProxyBrowser(proxy.port, given.username, given.password)
    yield client
    client.close()


def token(text: str) -> str:
    """Return the text as Basic credentials (RFC 7617)."""
    return base64.b64encode(text.encode()).decode()


def answers(proxy: ProxyInProcess, authorization: str) -> list[int]:
    """Return the statuses of a request and a tunnel with that header, which may be missing or doubled."""
    statuses = []
    for method, target in (("GET", URL), ("CONNECT", "secure.example:443")):
        client = ProxyBrowser(proxy.port)
        client.authorization = authorization
        statuses.append(client.ask(method, target).status)
        client.close()
    return statuses


async def test_only_the_whole_of_a_visits_credentials_is_a_key(
    proxy: ProxyInProcess, origin: ScriptedOrigin, secure_origin: ScriptedOrigin
) -> None:
    """No half of them, no mixture, no other spelling or scheme, and not those of a visit that is over."""
    async with proxy.client.visit("over", bucket="b") as over:
        await over.seal(grace_s=0)
    async with proxy.client.visit("one", bucket="b") as one, proxy.client.visit("two", bucket="b") as two:
        first, second, gone = one.credentials, two.credentials, over.credentials
        right = token(f"{first.username}:{first.password}")
        wrong = [
            token(f"{first.username}:{second.password}"),
            token(f"{second.username}:{first.password}"),
            token(f"{gone.username}:{gone.password}"),
            token(f"{gone.username}:{first.password}"),
            token(f"{first.username}:"),
            token(f":{first.password}"),
            token(":"),
            token(f"{first.username}:{first.password}\n"),
            token(f"{first.username}:{first.password}\0"),
            token(f"{first.username}:{first.password.upper()}X"),
            token(f"{first.username}:{first.password[:-1]}"),
            token("one:two"),
            right.lower(),
            right + right,
            f"{right}, Basic {right}",
            "",
        ]
        for each in wrong:
            assert answers(proxy, f"Proxy-Authorization: Basic {each}\r\n") == [407, 407]
        for scheme in ("Bearer", "Digest", "Negotiate", "basicx", ""):
            assert answers(proxy, f"Proxy-Authorization: {scheme} {right}\r\n") == [407, 407]
        for name in ("Authorization", "Proxy-Authorisation", "X-Proxy-Authorization", "Cookie"):
            assert answers(proxy, f"{name}: Basic {right}\r\n") == [407, 407]
        assert answers(proxy, f"Proxy-Authorization: Basic {right}\r\n") == [200, 200]

        assert [entry.url for entry in await one.seal(grace_s=1)] == [URL]
        assert await two.seal(grace_s=1) == []
    assert len(origin.requests) == 1
    assert secure_origin.requests == []


async def test_inside_a_tunnel_nobody_changes_the_visit(proxy: ProxyInProcess, secure_origin: ScriptedOrigin) -> None:
    """The CONNECT said whose it is; credentials in a page's request are not passed on."""
    async with proxy.client.visit("one", bucket="b") as one, proxy.client.visit("two", bucket="b") as two:
        with browser(proxy, one.credentials) as client:
            client.tunnel("secure.example:443")
            other = token(f"{two.credentials.username}:{two.credentials.password}")
            claim = f"Proxy-Authorization: Basic {other}\r\nX-Page: kept\r\n"
            assert client.ask("GET", "/page", headers=claim, tunnel=True).status == 200
            entries = await one.seal(grace_s=1)
            assert client.ask("GET", "/late", headers=claim, tunnel=True).status == 403
        assert await two.seal(grace_s=1) == []
    proxy.stop()
    written = records(proxy.layout)

    assert [entry.url for entry in entries] == ["https://secure.example/page"]
    assert len(secure_origin.requests) == 1
    assert b"X-Page: kept" in secure_origin.requests[0]
    assert other.encode() not in secure_origin.requests[0]
    assert {record.headers.get("WARC-Page-ID", "one") for record in written} == {"one"}


async def test_guessing_gets_nothing_and_disturbs_nobody(
    start_process: Callable[..., ProxyCommand], origin: ScriptedOrigin
) -> None:
    """Strangers on many connections are all refused while a visit goes on; nothing is left of them."""
    proxy = start_process()
    process = psutil.Process(proxy.process.pid)

    def guess(count: int) -> set[int]:
        statuses = set()
        stranger = ProxyBrowser(proxy.port)
        for _ in range(count):
            stranger.authorization = (
                f"Proxy-Authorization: Basic {token(f'{secrets.token_hex(8)}:{secrets.token_hex(16)}')}\r\n"
            )
            statuses.add(stranger.get(URL).status)
        stranger.close()
        return statuses

    def load(given: ProxyEndpoint) -> set[int]:
        with browser(proxy, given) as client:
            return {client.get(f"{URL}?{number}").status for number in range(20)}

    async with proxy.client.visit("p", bucket="b") as visit:
        given = visit.credentials
        await asyncio.to_thread(guess, 10)
        before = process.num_fds()
        work = [asyncio.to_thread(guess, 25) for _ in range(8)]
        *guessed, loaded = await asyncio.gather(*work, asyncio.to_thread(load, given))
        entries = await visit.seal(grace_s=1)

    assert set().union(*guessed) == {407}
    assert loaded == {200}
    assert len(entries) == 20
    assert len(origin.requests) == 20
    assert process.num_fds() <= before + 12  # the visit's own connections may still be idle


@budget(max_examples=examples(100))
@given(strategies.binary(max_size=200) | strategies.none())
def test_no_bytes_are_a_key_by_chance(authorization: bytes | None) -> None:
    """Whatever is not the header of an open visit is nobody's."""
    visits, visit = VisitRegistry(), VisitSession("p", "b", limit_requests=1)
    visits.add(visit)
    key = b"Basic " + base64.b64encode(f"{visit.username}:{visit.password}".encode())

    assert visits.authorised(authorization) is None
    assert visits.authorised(key) is visit
    visits.close(visit)
    assert visits.authorised(key) is None


async def test_visits_side_by_side_are_never_mixed(
    proxy: ProxyInProcess, origin: ScriptedOrigin, secure_origin: ScriptedOrigin
) -> None:
    """Four visits with many connections each: every record and every entry is its own page's."""
    names = [f"page-{number}" for number in range(4)]
    hosts = ("http://origin.example", "http://other.example", "https://secure.example")

    def load(given: ProxyEndpoint, name: str) -> None:
        for host, number in product(hosts, range(3)):
            with browser(proxy, given) as client:
                if host.startswith("https"):
                    client.tunnel("secure.example:443")
                    answer = client.ask("GET", f"/{name}/{number}", tunnel=True)
                else:
                    answer = client.get(f"{host}/{name}/{number}")
                assert answer.status == 200

    async def one(name: str) -> list[str]:
        async with proxy.client.visit(name, bucket="b") as visit:
            work = [asyncio.to_thread(load, visit.credentials, name) for _ in range(2)]
            await asyncio.gather(*work)
            return [entry.url for entry in await visit.seal(grace_s=2)]

    page_urls = await asyncio.gather(*(one(name) for name in names))
    proxy.stop()
    check(proxy.layout)
    written = [record for record in records(proxy.layout) if record.kind != "warcinfo"]

    for name, urls in zip(names, page_urls, strict=True):
        assert len(urls) == 18
        assert {url.split("/")[3] for url in urls} == {name}
    assert len(written) == 4 * 18 * 2
    for record in written:
        assert record.url.split("/")[3] == record.headers["WARC-Page-ID"]


def bomb(size: int) -> str:
    """Return `size` zeros in the form of warcprox's compressed_blocks."""
    return base64.b64encode(isal_zlib.compress(bytes(size), 1)).decode()


METAS = {
    "compressed blocks": f'{{"compressed_blocks": "{bomb(50_000_000)}"}}',
    "a terrible pattern": '{"blocks": [{"regex": "(a+)+$"}], "mime-type-filters": [{"regex": "(.*)*x", "type": "LIMIT"}]}',
    "a prefix": '{"warc-prefix": "PAGECHOSEN"}',
    "no archive": '{"warc-prefix": "-"}',
    "a folder": '{"warc-prefix": "../../x", "subdir_prefix": "../../../tmp/x"}',
    "a bucket": '{"dedup-buckets": {"stolen": "rw"}, "dedup-bucket": "stolen", "captures-bucket": "x"}',
    "limits": '{"limits": {"x/total/urls": 0}, "soft-limits": {"x/total/urls": 0}, "stats": {"buckets": ["x"]}}',
    "blocks": '{"blocks": [{"domain": "origin.example"}]}',
    "features": '{"accept": ["capture-metadata"], "metadata": {"seed": "x", "warc-collection": "x"}}',
    "nested": '{"a":' * 20_000 + "1" + "}" * 20_000,
    "no JSON": "{" * 1000 + "\x7f\xff",
    "empty": "",
}


async def test_warcproxs_header_is_a_header_like_any_other(proxy: ProxyInProcess, origin: ScriptedOrigin) -> None:
    """C-02: whatever it says is stored as the page sent it; files, buckets and limits are ours."""
    async with proxy.client.visit("p", bucket="b") as visit:
        with browser(proxy, visit.credentials) as client:
            for number, meta in enumerate(METAS.values()):
                answer = client.get(f"{URL}?{number}", headers=f"Warcprox-Meta: {meta}\r\n")
                assert (answer.status, answer.body) == (200, b"nothing here")
                assert not [name for name in answer.headers if "warcprox" in name]
        entries = await visit.seal(grace_s=1)
    proxy.stop()
    check(proxy.layout)
    written = records(proxy.layout)

    assert len(entries) == len(METAS)
    assert len(written) == 1 + 2 * len(METAS)
    assert {record.filename.split("-")[0] for record in written} == {"weboid"}
    for request, meta in zip(origin.requests, METAS.values(), strict=True):
        assert b"\r\nWarcprox-Meta: " + meta.encode().strip() + b"\r\n" in request
    (file,) = proxy.layout.archive.glob("weboid-*")
    stored = gzip.decompress(file.read_bytes())
    assert all(request in stored for request in origin.requests)
    names = {path.name for path in proxy.layout.root.iterdir()}
    assert names <= {"archive", "db", "ca", "reports", "collection.toml", ".lock", ".spool.lock"}
    assert not list(proxy.layout.root.parent.rglob("*PAGECHOSEN*"))


async def test_warcproxs_header_costs_no_memory_and_no_descriptors(
    start_process: Callable[..., ProxyCommand], origin: ScriptedOrigin
) -> None:
    """C-02: no bomb is unpacked, no file opened, however often it comes."""
    proxy = start_process()
    process = psutil.Process(proxy.process.pid)

    async def round_of(count: int) -> tuple[int, int]:
        async with proxy.client.visit("p", bucket="b") as visit:
            with browser(proxy, visit.credentials) as client:
                for number in range(count):
                    for meta in METAS.values():
                        client.get(f"{URL}?{number % 3}", headers=f"Warcprox-Meta: {meta}\r\n")
            await visit.seal(grace_s=1)
        return process.num_fds(), process.memory_info().rss

    await round_of(5)
    fds, rss = await round_of(3)
    later_fds, later_rss = await round_of(8)

    assert later_fds <= fds + 2
    assert later_rss <= rss + 16_000_000


async def test_visits_of_a_shared_context_take_turns(
    proxy: ProxyInProcess, origin: ScriptedOrigin, secure_origin: ScriptedOrigin
) -> None:
    """Each has what is requested with its token, through new connections and old tunnels alike."""
    shared = ContextCredentials.random()
    way = ProxyEndpoint("127.0.0.1", proxy.port, *shared)
    with browser(proxy, way) as tunnelled:
        for name in ("first", "second"):
            async with proxy.client.visit(name, bucket="b", shared=shared) as visit:
                own = f"Content-Language: {visit.credentials.token}\r\n"
                if name == "first":
                    tunnelled.tunnel("secure.example:443")
                assert tunnelled.ask("GET", f"/{name}", headers=own, tunnel=True).status == 200
                with browser(proxy, way) as fresh:
                    assert fresh.ask("GET", URL, headers=own).status == 200
                entries = await visit.seal(grace_s=1)
            assert [each.url for each in entries] == [f"https://secure.example/{name}", URL]
    proxy.stop()
    pages = sorted(
        (each.headers.get("WARC-Page-ID", ""), each.url)
        for each in records(proxy.layout)
        if each.kind in ("response", "revisit")
    )
    assert pages == [
        ("first", URL),
        ("first", "https://secure.example/first"),
        ("second", URL),
        ("second", "https://secure.example/second"),
    ]
    assert not any(b"content-language" in each.lower() for each in origin.requests)


async def test_a_late_request_in_a_shared_context_is_refused(proxy: ProxyInProcess, origin: ScriptedOrigin) -> None:
    """Neither the token of an earlier visit nor none is good; a 407 would cost the credentials."""
    shared = ContextCredentials.random()
    way = ProxyEndpoint("127.0.0.1", proxy.port, *shared)

    def status(method: str = "GET", headers: str = "") -> int:
        with browser(proxy, way) as client:
            return client.ask(method, URL, headers=headers).status

    async with proxy.client.visit("first", bucket="b", shared=shared) as visit:
        earlier = f"Content-Language: {visit.credentials.token}\r\n"
        await visit.seal(grace_s=1)
        assert status(headers=earlier) == 403
    assert status(headers=earlier) == 403
    async with proxy.client.visit("second", bucket="b", shared=shared) as visit:
        assert (status(headers=earlier), status()) == (403, 403)
        # Browsers send these without the headers of a page, but none before the request for the page.
        untold = ("OPTIONS", ""), ("GET", "Sec-Fetch-Dest: sharedworker\r\n")
        assert [status(method, headers) for method, headers in untold] == [403, 403]
        assert origin.requests == []
        assert status(headers=f"Content-Language: {visit.credentials.token}\r\n") == 200
        assert [status(method, headers) for method, headers in untold] == [200, 200]
        assert [each.method for each in await visit.seal(grace_s=1)] == ["GET", "OPTIONS", "GET"]


async def test_a_context_never_has_two_visits(proxy: ProxyInProcess) -> None:
    """The second is refused while the first is open, and so are credentials that could be guessed."""
    shared = ContextCredentials.random()
    async with proxy.client.visit("first", bucket="b", shared=shared):
        with pytest.raises(InputError, match="Another visit"):
            async with proxy.client.visit("second", bucket="b", shared=shared):
                pass
    with pytest.raises(InputError, match="hexadecimal"):
        async with proxy.client.visit("third", bucket="b", shared=ContextCredentials("a", "b")):
            pass
