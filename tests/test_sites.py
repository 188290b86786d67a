"""The test web's rule pages answer as they are described: over real sockets, to a real client."""

import hashlib
import io
import json
import zlib
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from PIL import Image

from tests.support.sites import hosts
from tests.support.sites.client import client
from tests.support.sites.encodings import MEGABYTE
from tests.support.sites.web import TestWeb

RULES = f"http://{hosts.RULES}"


@pytest.fixture(scope="module")
def web() -> Iterator[TestWeb]:
    with TestWeb.start(real=False) as running:
        yield running


@pytest.fixture
def http(web: TestWeb) -> Iterator[httpx.Client]:
    web.clear()
    with client(web) as each:
        yield each


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_has_its_status_and_its_target(http: httpx.Client, status: int) -> None:
    """Each kind of redirect leads to one page."""
    answer = http.get(f"{RULES}/redirect/{status}")

    assert answer.status_code == status
    assert answer.headers["location"] == "/page/target"
    assert http.get(f"{RULES}/redirect/{status}", follow_redirects=True).status_code == 200


def test_a_chain_of_redirects_has_the_length_that_was_asked_for(http: httpx.Client) -> None:
    """Five redirects of mixed kinds, then the page."""
    answer = http.get(f"{RULES}/redirect/chain/5", follow_redirects=True)

    assert [each.status_code for each in answer.history] == [307, 302, 301, 307, 302]
    assert answer.url.path == "/page/target"


def test_a_loop_of_redirects_never_ends(http: httpx.Client) -> None:
    """The loop leads to itself."""
    with pytest.raises(httpx.TooManyRedirects):
        http.get(f"{RULES}/redirect/loop", follow_redirects=True)


def test_a_redirect_can_change_the_scheme_and_the_host(http: httpx.Client) -> None:
    """To https on the same host, and to another host."""
    secure = http.get(f"{RULES}/redirect/to-https", follow_redirects=True)
    other = http.get(f"{RULES}/redirect/to-other", follow_redirects=True)

    assert str(secure.url) == f"https://{hosts.RULES}/page/target"
    assert other.url.host == hosts.OTHER


@pytest.mark.parametrize("status", [204, 401, 403, 404, 410, 429, 451, 500, 503])
def test_a_status_page_has_that_status(http: httpx.Client, status: int) -> None:
    """The status in the path is the status of the answer."""
    assert http.get(f"{RULES}/status/{status}").status_code == status


def test_a_refusal_can_say_when_to_come_back(http: httpx.Client) -> None:
    """503 with Retry-After (RFC 9110, 10.2.3)."""
    answer = http.get(f"{RULES}/status/503/120")

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "120")


def test_a_pdf_is_a_pdf(http: httpx.Client) -> None:
    """It has the type and the signature."""
    answer = http.get(f"{RULES}/document.pdf")

    assert answer.headers["content-type"] == "application/pdf"
    assert answer.content.startswith(b"%PDF-")


def test_a_slow_page_lets_its_first_byte_wait(http: httpx.Client) -> None:
    """The answer takes at least as long as the path says."""
    answer = http.get(f"{RULES}/slow/first-byte/0.4")

    assert answer.status_code == 200
    assert answer.elapsed.total_seconds() >= 0.4


def test_a_dripping_body_is_complete_in_the_end(http: httpx.Client) -> None:
    """It comes in many pieces, over the time that the path says."""
    with http.stream("GET", f"{RULES}/slow/drip/0.4") as answer:
        pieces = list(answer.iter_raw())

    assert len(pieces) > 5
    assert b"".join(pieces).endswith(b"</html>\n")
    assert answer.elapsed.total_seconds() >= 0.4


@pytest.mark.parametrize("kind", ["body", "image", "text"])
def test_an_endless_body_goes_on(web: TestWeb, http: httpx.Client, kind: str) -> None:
    """More comes however much has come; the server survives the client's leaving."""
    with http.stream("GET", f"{RULES}/endless/{kind}") as answer:
        taken = 0
        for piece in answer.iter_raw():
            taken += len(piece)
            if taken > MEGABYTE:
                break

    assert taken > MEGABYTE
    assert http.get(f"{RULES}/page/after").status_code == 200


@pytest.mark.parametrize("how", ["short", "chunk", "head", "empty", "reset", "garbage"])
def test_a_broken_response_breaks(http: httpx.Client, how: str) -> None:
    """Cut bodies, cut heads, silence and noise are errors of the protocol, never whole pages."""
    with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
        http.get(f"{RULES}/broken/{how}")


@pytest.mark.parametrize("way", ["", "/chunked"])
def test_a_large_body_is_long_dense_and_always_the_same(http: httpx.Client, way: str) -> None:
    """Its length is exact, nothing shrinks it, and every fetch brings the same bytes."""
    first = http.get(f"{RULES}/large/2{way}").content
    again = http.get(f"{RULES}/large/2{way}").content

    assert len(first) == 2 * MEGABYTE
    assert len(zlib.compress(first)) > 0.99 * len(first)
    assert hashlib.sha256(first).digest() == hashlib.sha256(again).digest()


@pytest.mark.parametrize("coding", ["identity", "gzip", "deflate", "raw-deflate"])
@pytest.mark.parametrize("framing", ["", "/chunked", "/close"])
def test_a_coded_page_decodes_to_its_text(http: httpx.Client, coding: str, framing: str) -> None:
    """Every coding in every framing carries the same page."""
    answer = http.get(f"{RULES}/encoding/{coding}{framing}")

    assert f"<h1>Coded {coding}</h1>" in answer.text
    assert answer.text.endswith("</html>\n")


def test_one_payload_has_many_urls(http: httpx.Client) -> None:
    """Duplicates are equal in every byte of their bodies."""
    bodies = {http.get(f"{RULES}/duplicate/{number}").content for number in range(5)}

    assert len(bodies) == 1


def test_cookies_are_set_and_come_back(http: httpx.Client) -> None:
    """Two cookies, each in a header of its own."""
    answer = http.get(f"{RULES}/cookies/set")
    shown = http.get(f"{RULES}/cookies/show")

    assert len(answer.headers.get_list("set-cookie")) == 2
    assert "session=abc123" in shown.text


def test_the_echo_tells_what_was_asked(http: httpx.Client) -> None:
    """Method, URL, headers and the length of the body, as JSON."""
    echo = json.loads(http.post(f"{RULES}/headers?a=1", content=b"12345", headers={"X-One": "1"}).text)

    assert (echo["method"], echo["body_length"]) == ("POST", 5)
    assert echo["url"] == f"{RULES}/headers?a=1"
    assert ["X-One", "1"] in [[name.title(), value] for name, value in echo["headers"]]


def test_robots_differ_from_host_to_host(http: httpx.Client) -> None:
    """One host allows, one forbids everything, one is unwell."""
    robots = {host: http.get(f"http://{host}/robots.txt") for host in (hosts.RULES, hosts.NOROBOTS, hosts.SICKROBOTS)}

    assert "Disallow: /forbidden/" in robots[hosts.RULES].text
    assert "Disallow: /\n" in robots[hosts.NOROBOTS].text
    assert robots[hosts.SICKROBOTS].status_code == 500


@pytest.mark.parametrize("host", hosts.BAD_TLS)
def test_bad_certificates_are_refused(http: httpx.Client, host: str) -> None:
    """Self-signed, expired and misnamed certificates fail verification."""
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        http.get(f"https://{host}/page/tls")


def test_a_closed_port_refuses(http: httpx.Client) -> None:
    """Nobody listens there, and nobody else can."""
    with pytest.raises(httpx.ConnectError, match="refused"):
        http.get(f"http://{hosts.REFUSED}/")


def test_a_silent_host_accepts_and_says_nothing(web: TestWeb) -> None:
    """The connection stands, the answer never comes."""
    with client(web, timeout_s=0.3) as hasty, pytest.raises(httpx.ReadTimeout):
        hasty.get(f"http://{hosts.SILENT}/")


def test_a_name_that_nobody_has_resolves_to_nothing(web: TestWeb) -> None:
    """It is in no table, so whoever asks must ask the real name service, in vain."""
    assert not any(name.startswith(hosts.NOWHERE) for name in web.resolve)


def test_both_schemes_serve_every_good_host(web: TestWeb, http: httpx.Client) -> None:
    """A host answers alike on http and https, under a certificate with its name."""
    for scheme in ("http", "https"):
        answer = http.get(f"{scheme}://{hosts.OTHER}/page/x")
        assert answer.status_code == 200


def test_a_connection_is_kept_alive(web: TestWeb, http: httpx.Client) -> None:
    """Requests of one client to one host share a connection (RFC 9112, 9.3)."""
    first = http.get(f"{RULES}/page/1")
    second = http.get(f"{RULES}/page/2")

    assert first.extensions["network_stream"] is second.extensions["network_stream"]


def test_what_came_in_can_be_asked_for_and_forgotten(web: TestWeb, http: httpx.Client) -> None:
    """The log has each request's URL, method and headers, in order."""
    http.get(f"{RULES}/page/first", headers={"X-Mark": "7"})
    http.head(f"{RULES}/page/second")
    seen = web.requests()

    assert [(each.method, each.url) for each in seen] == [
        ("GET", f"{RULES}/page/first"),
        ("HEAD", f"{RULES}/page/second"),
    ]
    assert "7" in dict(seen[0].headers).values()
    assert web.count() == 2
    web.clear()
    assert web.requests() == []


@pytest.mark.slow
def test_every_rule_page_that_ends_gives_an_answer_or_a_clean_error(web: TestWeb, http: httpx.Client) -> None:
    """Nothing in the list hangs, and the server outlives them all."""
    for url in web.urls.rule_pages:
        try:
            answer = http.get(url)
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.DecodingError):
            assert "/broken/" in url
        else:
            assert answer.status_code != 404 or url.endswith(("/status/404", "/font.ttf"))


def test_a_gallery_has_91_subresources_unlike_any_other(web: TestWeb, http: httpx.Client) -> None:
    """Every item of two galleries has a payload of its own, between 1 and 24 KB."""
    bodies = []
    for number in (1, 2):
        page = http.get(web.gallery(number)).text
        urls = web.gallery_subresources(number)
        assert len(urls) == 91
        assert all(url.removeprefix(f"https://{hosts.GALLERY}") in page for url in urls)
        bodies += [http.get(url).content for url in urls]

    assert len(set(bodies)) == 182
    assert all(1_000 < len(body) < 24_000 for body in bodies)


def test_a_gallerys_pictures_are_pictures(web: TestWeb, http: httpx.Client) -> None:
    """The mark that makes each unique does not spoil it, and two runs serve the same bytes."""
    for url in web.gallery_subresources(5):
        answer = http.get(url)
        if url.endswith(("jpg", "png")):
            with Image.open(io.BytesIO(answer.content)) as picture:
                picture.load()
                assert picture.format == {"jpg": "JPEG", "png": "PNG"}[url[-3:]]
        assert answer.content == http.get(url).content


def test_stopping_leaves_no_process_and_no_file(tmp_path: Path) -> None:
    """One owner closes what it opened."""
    web = TestWeb.start(real=False)
    process, folder = web._server, Path(web.ca_file).parent

    web.stop()

    assert process.returncode == 0
    assert not folder.exists()
