"""Soft 404s by an invented path beside the one that is cited."""

import random
from hashlib import blake2b

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from classify.page_excerpt import invent_sibling, is_root, parse_page_excerpt, simhash
from links.check_result import CheckVerdict
from tests.support.behaviour_servers import (
    PAGE,
    Answering,
    BehaviourRequest,
    Steps,
    always,
    head_of,
    moved,
    prober_for,
    reply,
    serving,
    settings_for,
)
from tests.support.examples import examples

pytestmark = pytest.mark.slow  # servers of its own: seconds, not milliseconds

CITED = "/articles/bridge.html"


def site(cited_page: bytes, otherwise: bytes) -> Answering:
    """Return a server of the cited page; other paths get `otherwise`, with the path for ``%PATH%``."""

    def answer(request: BehaviourRequest) -> Steps:
        data = cited_page if request.path == CITED else otherwise
        body = data.partition(b"\r\n\r\n")[2].replace(b"%PATH%", request.path.encode())
        data = head_of(data).replace(b"Content-Length", b"X-Length") + body
        return [head_of(data) if request.method == "HEAD" else data]

    return answer


SORRY = (
    b"<title>Town of Stone</title><nav>Home News Bridges Mills Contact Opening hours Imprint</nav>"
    b"<p>Sorry, we have no page %PATH% here; look in the archive of the town, or ask the masons.</p>"
    b"<p>The town of Stone lies in a valley with three bridges, two mills and a market place.</p>"
)


@pytest.mark.parametrize(
    ("answering", "verdict"),
    [
        pytest.param(site(reply(), reply(404)), CheckVerdict.OK, id="a-site-that-denies-what-it-has-not"),
        pytest.param(site(reply(), reply(body=SORRY)), CheckVerdict.OK, id="a-page-beside-soft-404s"),
        pytest.param(site(reply(body=SORRY), reply(body=SORRY)), CheckVerdict.SUSPECT, id="a-soft-404-in-place"),
        pytest.param(site(reply(), moved("/")), CheckVerdict.OK, id="all-others-are-led-to-the-front-page"),
        pytest.param(site(reply(), moved(CITED)), CheckVerdict.OK, id="all-others-are-led-to-the-cited-page"),
        pytest.param(site(reply(), reply(500)), CheckVerdict.OK, id="all-others-fail"),
        pytest.param(
            site(reply(body=b"<canvas></canvas>"), reply(body=b"<canvas></canvas>")),
            CheckVerdict.OK,
            id="pages-without-words",
        ),
    ],
)
async def test_a_site_that_answers_an_invented_path_alike_is_suspect(
    answering: Answering, verdict: CheckVerdict
) -> None:
    """The same page in place, or the same end of redirects, is suspect; all else is not."""
    async with (
        serving({"a.test:80": answering}) as resolve,
        prober_for(settings_for(resolve), rng=random.Random(7)) as prober,
    ):
        finding = await prober.probe_sibling(f"http://a.test{CITED}")
    assert finding.verdict is verdict, finding


async def test_pages_led_to_one_place_with_the_invented_are_suspect() -> None:
    """A moved page that ends where invented paths end is nobody's page."""

    def answer(request: BehaviourRequest) -> Steps:
        if request.path.startswith("/articles/"):
            return [moved("/welcome-to-our-new-site.html?from=" + request.path)]
        return [reply()]

    async with serving({"a.test:80": answer}) as resolve, prober_for(settings_for(resolve)) as prober:
        finding = await prober.probe_sibling(f"http://a.test{CITED}")
    assert finding.verdict is CheckVerdict.SUSPECT
    assert finding.note == "soft 404: an invented path is led to the same page"


async def test_a_suspicion_is_compared_as_well() -> None:
    """A page that redirects to the front page, as an invented path does, is a suspected soft 404."""

    def answer(request: BehaviourRequest) -> Steps:
        return [reply() if request.path == "/" else moved("/")]

    async with serving({"a.test:80": answer}) as resolve, prober_for(settings_for(resolve)) as prober:
        finding = await prober.probe_sibling(f"http://a.test{CITED}")
    assert finding.verdict is CheckVerdict.SUSPECT
    assert finding.note.startswith("soft 404")


async def test_a_front_page_is_not_compared() -> None:
    """A site that answers all with its front page has a front page."""
    async with serving({"a.test:80": always(reply())}) as resolve, prober_for(settings_for(resolve)) as prober:
        finding = await prober.probe_sibling("http://a.test/")
    assert finding.verdict is CheckVerdict.OK


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://a.test/b/c.html", r"http://a.test/b/W.html"),
        ("http://a.test/b/c/", r"http://a.test/b/W/"),
        ("http://a.test/b?id=5", r"http://a.test/b?id=W"),
        ("http://a.test/?p=12&q=7", r"http://a.test/?p=12&q=W"),
        ("http://a.test/b?key", r"http://a.test/b?W"),
        ("http://a.test/", ""),
        ("http://a.test/index.php", ""),
        ("http://a.test/de/", ""),
    ],
)
def test_what_is_invented_stands_beside_the_cited(url: str, expected: str) -> None:
    """The same folder, the same extension; of a query the last value."""
    word = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz", k=16))
    assert invent_sibling(url, random.Random(1)) == expected.replace("W", word)


@settings(max_examples=examples(25))
@given(st.lists(st.sampled_from(["stone", "bridge", "river", "mill", "town", "valley", "market"]), min_size=200))
def test_one_more_word_hardly_moves_the_hash(words: list[str]) -> None:
    """Pages that differ in a word have hashes that differ in few bits."""
    one = simhash(parse_page_excerpt(" ".join(words).encode()))
    other = simhash(parse_page_excerpt(" ".join([*words[:100], "lighthouse", *words[100:]]).encode()))
    assert (one ^ other).bit_count() <= 20


@given(st.lists(st.sampled_from(["stone", "bridge", "river", "mill"]), min_size=1, max_size=40))
def test_a_bit_of_the_hash_is_that_of_most_shingles(words: list[str]) -> None:
    """Each bit is set when more than half of the shingles' digests have it."""
    shingles = [" ".join(words[at : at + 3]) for at in range(max(len(words) - 2, 1))]
    digests = [int.from_bytes(blake2b(each.encode(), digest_size=8).digest(), "big") for each in shingles]
    most = [sum(each >> bit & 1 for each in digests) > len(digests) / 2 for bit in range(64)]
    expected = sum(1 << bit for bit, is_set in enumerate(most) if is_set)
    assert simhash(parse_page_excerpt(" ".join(words).encode())) == expected


def test_other_pages_have_other_hashes() -> None:
    """Two pages on two matters are far apart."""
    assert (simhash(parse_page_excerpt(PAGE)) ^ simhash(parse_page_excerpt(SORRY))).bit_count() > 12


@given(st.text(max_size=200))
def test_no_path_breaks_the_inventing(text: str) -> None:
    """Any path has something beside it, or is a front page; nothing raises."""
    url = "http://a.test/" + "".join(each for each in text if each.isascii() and each.isalnum())
    assert (invent_sibling(url, random.Random(1)) == "") == is_root(url)
