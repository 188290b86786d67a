"""Fonts of a page: re-encoded by the OpenType Sanitizer, shown, and sent to nobody else."""

import contextlib
import re
import struct
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Any

import pytest
import tinycss2
from hypothesis import example, given, settings
from hypothesis import strategies as st

from core.media_types import FONT_TYPE
from core.timestamps import timestamp14
from playback.access import takedowns
from playback.access.decision_store import open_decisions
from playback.access.levels import Level
from playback.access.takedowns import Takedown, TakedownEffect, TakedownKind
from playback.replay.sanitizer.css_rules import sanitise_font
from tests.playback.font_making import SERIF, sfnt, tables_of, woff, woff2
from tests.playback.web.test_page_renderer import GOLDEN, HTML_POLICY
from tests.support.examples import examples
from tests.support.playback_fixtures import (
    NOW,
    CollectionBuilder,
    HeadlessBrowser,
    LeakListener,
    ServedCollection,
    decide,
    fetch,
    running_replay,
    serving,
)
from tests.support.sites.acid_parts import typeface

pytestmark = pytest.mark.playback

Call = Callable[[str, list[object]], Any]
TS = timestamp14(NOW)
FONT = f"/c/{TS}fo_/"
FACE = "@font-face{font-family:Archived;src:url(/f)}body{font:60px Archived,monospace}"
ASKED = {"Sec-Fetch-Dest": "font"}


@pytest.fixture(scope="module")
def ttf() -> bytes:
    """Return a font that is installed on this machine."""
    return SERIF.read_bytes()


@pytest.fixture(scope="module")
def wrapped(ttf: bytes, in_replay: Call) -> dict[str, bytes]:
    """Return the font in each format that replay shows, by media type."""

    def brotli(data: bytes) -> bytes:
        return b64decode(in_replay("compressed", [b64encode(data).decode()]))

    return {"font/ttf": ttf, "font/woff": woff(ttf), "font/woff2": woff2(ttf, brotli)}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedCollection]:
    """Front and replay whose copies load their fonts."""
    builder = CollectionBuilder(tmp_path_factory.mktemp("fonts") / "collection")
    with contextlib.closing(builder), serving(builder) as it:
        yield it


def _golden(front: str, *, cross: bool, policy: str) -> dict[str, str]:
    place = "cross-origin" if cross else "same-origin"
    policy = policy.replace("http://front.test", front)
    return {**GOLDEN, "Content-Security-Policy": policy, "Cross-Origin-Resource-Policy": place}


@pytest.mark.parametrize("kind", ["font/ttf", "font/woff", "font/woff2"])
def test_a_font_leaves_with_these_headers_and_no_others(
    house: ServedCollection, site: str, wrapped: dict[str, bytes], kind: str
) -> None:
    """Its type is that of what is sent; CORS is on it and on its 304, since its page has no origin."""
    body, shown = wrapped[kind], sanitise_font(wrapped["font/ttf"])
    house.builder.response(f"{site}/f", body, mime="text/html", headers=(("Set-Cookie", "a=b"),))
    target = f"{FONT}{site}/f"

    reply = fetch(house.replay, target, headers=ASKED)

    given = dict(reply.headers)
    golden = _golden(house.front, cross=True, policy=GOLDEN["Content-Security-Policy"])
    golden |= {"Access-Control-Allow-Origin": "*", "Cache-Control": "private, no-cache"}
    golden |= {"Content-Type": FONT_TYPE, "Content-Length": str(len(shown))}
    assert (reply.status, reply.body) == (200, shown)
    assert {name: given.get(name) for name in golden} == golden
    assert set(given) - set(golden) <= {"ETag", "Memento-Datetime", "Date", "Connection"}
    known = fetch(house.replay, target, headers={**ASKED, "If-None-Match": reply["ETag"]})
    assert (known.status, known["Access-Control-Allow-Origin"]) == (304, "*")


def test_a_page_loads_fonts_from_our_route(house: ServedCollection, site: str) -> None:
    """Its policy allows them; CORS is for fonts alone."""
    house.builder.page(f"{site}/", f"<style>{FACE}</style><p>x")

    reply = fetch(house.replay, f"/c/{TS}/{site}/")

    golden = _golden(house.front, cross=False, policy=HTML_POLICY)
    assert {name: dict(reply.headers).get(name) for name in golden} == golden
    assert "Access-Control-Allow-Origin" not in dict(reply.headers)
    assert f'src:url("{FONT}{site}/f")' in reply.text


def test_switched_off_there_are_no_fonts(house: ServedCollection, site: str, ttf: bytes) -> None:
    """Neither in the page, nor in its policy, nor at the route, whoever asks."""
    house.builder.page(f"{site}/", f"<style>{FACE}</style><p>x")
    house.builder.response(f"{site}/f", ttf, mime="font/ttf")

    with running_replay(house.builder.layout.root, house.front, "--no-fonts") as without:
        page = without.get(f"/c/{TS}/{site}/")
        opened = without.get(f"{FONT}{site}/f")
        loaded = without.get(f"{FONT}{site}/f", headers=ASKED)

    assert "font-face" not in page.text
    assert "font-src" not in page["Content-Security-Policy"]
    assert (opened.status, loaded.status) == (404, 403)


def test_what_was_made_without_fonts_is_rebuilt_with_them(house: ServedCollection, site: str) -> None:
    """Kept files and browsers' copies are of one setting: switched on or off, it holds at once."""
    house.builder.page(f"{site}/", f"<style>{FACE}</style><p>x")
    target, etags = f"/c/{TS}/{site}/", list[str]()

    with running_replay(house.builder.layout.root, house.front, "--no-fonts") as without:
        for origin, shown in ((without.origin, False), (house.replay, True), (without.origin, False)):
            known = {"If-None-Match": etags[-1]} if etags else {}
            reply = fetch(origin, target, headers=known)
            etags.append(reply["ETag"])
            assert (reply.status, "font-face" in reply.text) == (200, shown)
    assert etags[0] == etags[2] != etags[1]


@pytest.mark.parametrize("level", ["text", "limited", "html"])
def test_a_page_without_images_has_no_fonts(house: ServedCollection, site: str, level: str) -> None:
    """Fonts are of the level `images`."""
    house.builder.page(f"{site}/", f"<style>{FACE}</style><p>x", text="x")
    modifier = {"text": "tx_", "limited": "rd_", "html": "ni_"}[level]

    text = fetch(house.replay, f"/c/{TS}{modifier}/{site}/").text

    assert "font-face" not in text
    assert "fo_" not in text


def test_a_style_sheet_names_fonts_for_pages_with_images_only(house: ServedCollection, site: str) -> None:
    """A sheet has two addresses: with pictures and fonts, and without."""
    house.builder.response(f"{site}/s", FACE.encode(), mime="text/css")

    assert f"{FONT}{site}/f" in fetch(house.replay, f"/c/{TS}cs_/{site}/s").text
    assert "fo_" not in fetch(house.replay, f"/c/{TS}cp_/{site}/s").text


def test_nobody_but_a_page_is_given_a_font(house: ServedCollection, site: str, ttf: bytes) -> None:
    """Opened it would be a download that nothing asked about; read by a script it would tell."""
    house.builder.response(f"{site}/f", ttf, mime="font/ttf")

    def font_status(**headers: str) -> int:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return fetch(house.replay, f"{FONT}{site}/f", headers=given).status

    assert [font_status(), font_status(Sec_Fetch_Dest="font")] == [200, 200]
    for other in ("document", "iframe", "image", "style", "empty"):
        assert font_status(Sec_Fetch_Dest=other) == 404
    assert font_status(Sec_Fetch_Dest="script") == 403
    decide(house.builder.layout, Level.TEXT, link=f"{site}/f")
    assert font_status() == 404


def test_a_font_of_another_moment_counts_as_a_part(house: ServedCollection, site: str, ttf: bytes) -> None:
    """It is told of as pictures are, and is not shown at all beyond the window (P-10)."""
    house.builder.page(f"{site}/", f"<style>{FACE}</style><p>x")
    for days in (2, 31):
        house.builder.response(f"{site}/{'f' if days == 2 else 'g'}", ttf, mime="font/ttf", at=NOW + timedelta(days))

    text = fetch(house.replay, f"/c/{TS}sk_/{site}/").text

    assert text == f"shown 1\nother 1\nearlier 0\nlater {2 * 86_400}\n"
    assert fetch(house.replay, f"{FONT}{site}/f", headers=ASKED).status == 200
    assert fetch(house.replay, f"{FONT}{site}/g", headers=ASKED).status == 404


def test_what_is_no_font_is_absent(house: ServedCollection, site: str, ttf: bytes) -> None:
    """By its bytes alone, whatever it says of itself; and what is too large (P-16, P-21)."""
    bodies = {
        "html": b"<html><script>1</script>", "cut": ttf[:200], "large": ttf + b"\0" * 9_000_000,
        "svg": b"<svg xmlns='http://www.w3.org/2000/svg'><font/></svg>", "empty": b"",
        "collection": b"ttcf" + ttf[4:], "eot": b"\0\0\0\0" * 9 + ttf,
    }  # fmt: skip
    for name, body in bodies.items():
        house.builder.response(f"{site}/{name}.woff2", body, mime="font/woff2")

    replies = {name: fetch(house.replay, f"{FONT}{site}/{name}.woff2", headers=ASKED) for name in bodies}

    assert {name: (each.status, each.body) for name, each in replies.items()} == dict.fromkeys(
        bodies, (404, b"Not captured.\n")
    )


def test_a_font_that_was_taken_down_stays_down(house: ServedCollection, site: str, ttf: bytes) -> None:
    """By its digest, at every address, also for browsers that have it."""
    body = ttf + b"\0" * 4
    capture = house.builder.response(f"{site}/f", body, mime="font/ttf")
    house.builder.revisit(f"{site}/g", capture)
    first = fetch(house.replay, f"{FONT}{site}/f", headers=ASKED)
    assert first.status == 200
    with contextlib.closing(open_decisions(house.builder.layout)) as store:
        takedowns.add_takedowns(
            store, [Takedown(0, TakedownKind.DIGEST, capture.digest, "", TakedownEffect.BLOCK, "", "", "a", NOW, None)]
        )

    known = {**ASKED, "If-None-Match": first["ETag"]}
    assert fetch(house.replay, f"{FONT}{site}/f", headers=known).status == 451
    assert fetch(house.replay, f"{FONT}{site}/g", headers=ASKED).status == 451


@pytest.mark.parametrize("kind", ["font/ttf", "font/woff", "font/woff2"])
def test_a_directory_that_lies_is_no_fonts(wrapped: dict[str, bytes], kind: str) -> None:
    """Cut anywhere in its directory, or with a number of tables that cannot be."""
    data = wrapped[kind]
    assert sanitise_font(data)[:4] == b"\0\1\0\0"
    for size in (0, 4, 11, 12, 43, 44, 47, 48, 60, 100, len(data) // 2):
        assert sanitise_font(data[:size]) == b""
    at = 4 if kind == "font/ttf" else 12  # how many tables there are
    for count in (0, 1, 0xFFFF):
        assert sanitise_font(data[:at] + struct.pack(">H", count) + data[at + 2 :]) == b""
    assert sanitise_font(b"ttcf" + data[4:]) == b""


def test_tables_that_no_browser_needs_are_left_out() -> None:
    """Glyphs in SVG, and tables that nobody knows (P-02)."""
    plain = typeface("x")
    more = [(b"SVG ", 0, b"<svg onload='x()'/>"), (b"evil", 0, b"text")]

    written = sanitise_font(sfnt([*tables_of(plain), *more]))

    assert [tag for tag, *_ in tables_of(written)] == [tag for tag, *_ in tables_of(plain)]
    assert b"svg" not in written


@settings(max_examples=examples(60))
@given(st.sampled_from([b"wOF2", b"wOFF", b"OTTO", b"true", b"\0\1\0\0", b""]), st.binary(max_size=300))
def test_noise_is_no_font(magic: bytes, rest: bytes) -> None:
    """No bytes raise."""
    assert sanitise_font(magic + rest) == b""


_CSS = st.lists(
    st.sampled_from(
        ["@font-face{", "@FONT-F\\41 CE {", "font-family:x;", "font-family:'</style>';", "src:", "url(f.woff2)",
         "url(//evil.example/x)", "url(http://evil.example/h)", "url('a b')", "u\\72l(//evil.example/y)", "local(x)", "src('//evil.example/z')",
         "url(data:font/ttf;base64,AAAA)", " format('woff2')", " format(svg)", " tech(variations)", ",", ";", "}",
         "{", "(", ")", "'", '"', "\\", "/*", "*/", "unicode-range:U+0-FF;", "font-weight:var(--x);", "@media x{",
         "p{", "color:red", "ascent-override:90%;", "url(", "\n", " x"]
    ),
    max_size=25,
).map("".join)  # fmt: skip


def functions_of(nodes: Iterable[Any]) -> Iterator[str]:
    """Yield the functions of all declarations; in a selector `local()` names no font."""
    for node in nodes:
        if node.type == "declaration":
            yield from (each.lower_name for each in tokens_of(node.value) if each.type == "function")
        elif getattr(node, "content", None) is not None:
            yield from functions_of(tinycss2.parse_blocks_contents(node.content))


def tokens_of(tokens: Iterable[Any]) -> Iterator[Any]:
    """Yield the tokens with those inside them."""
    for token in tokens:
        yield token
        yield from tokens_of(getattr(token, "arguments", None) or getattr(token, "content", None) or ())


@settings(max_examples=examples(100))
@given(_CSS)
@example("local(x)unicode-range:U+0-FF;{font-family:x;")
def test_whatever_a_sheet_says_its_fonts_come_from_us(in_replay: Call, css: str) -> None:
    """A second filtering changes nothing, and there is no address but of our font and image routes."""
    once, twice = in_replay("font_style_twice", [css])

    assert twice == once
    assert "</" not in once
    once = re.sub(r'(url\("[^"]*"\))|"(?:\\.|[^"\\])*"', r"\1", once)  # what strings hold is text
    for face in re.findall(r"(?<!\\)@font-face\{[^}]*\}", once):  # an escaped @ is a name
        assert "src:url(" in face
    for url in re.findall(r"(?i)(?<![\w-])url\(\s*[\"']?([^\"')]*)", once):
        assert url.startswith((FONT, f"/c/{TS}im_/", f"/c/{TS}mk_/")), once
    assert not {"local", "src"} & set(functions_of(tinycss2.parse_stylesheet(once)))


@pytest.mark.parametrize(
    ("src", "sources"),
    [
        ("local(x),url(a.woff2)format(woff2) tech(color-COLRv1)",
         'url("{}a.woff2") format("woff2") tech(color-colrv1)'),
        ("url(a.eot?#iefix)format('embedded-opentype'),url(b.ttf)format('truetype')",
         'url("{}b.ttf") format("truetype")'),
        ("url(a.svg#x)format('svg')", ""),
        ("local(x)", ""),
        ("url(a.ttf)tech(color-svg)", ""),
        ("url(a.ttf) evil(x)", ""),
        ("'a.ttf'", ""),
        ("url(javascript:alert(1))", ""),
        ("url(data:text/html;base64,PGI+)", ""),
        ("url(data:font/woff2;base64,d09GMg==)", ""),
    ],
)  # fmt: skip
def test_of_sources_those_stay_that_are_ours(in_replay: Call, src: str, sources: str) -> None:
    """Nothing on the reader's machine, nothing of a format that is not handed out (P-13)."""
    shown = in_replay("font_style_twice", [f"@font-face{{font-family:x;src:{src};color:red}}"])[0]

    wanted = sources.format(f"{FONT}https://page.example/dir/")
    assert shown == (f"@font-face{{font-family:x;src:{wanted};}}" if sources else "")


def test_a_font_within_a_sheet_is_looked_at(in_replay: Call, ttf: bytes) -> None:
    """It is re-encoded when it is a font, by the name of what it is, and goes when it is not."""
    data, shown = b64encode(ttf).decode(), b64encode(sanitise_font(ttf)).decode()
    for claimed in ("application/x-font-woff", "text/html", ""):
        face = f"@font-face{{font-family:x;src:url(data:{claimed};base64,{data})}}"
        once, twice = in_replay("font_style_twice", [face])
        written = f'@font-face{{font-family:x;src:url("data:{FONT_TYPE};base64,{shown}");}}'
        assert once == twice == written


@pytest.mark.browser
def test_a_browser_shows_the_page_in_its_own_fonts(
    house: ServedCollection, site: str, browser: HeadlessBrowser, leaks: LeakListener, wrapped: dict[str, bytes]
) -> None:
    """A line in each format as it was live, unlike in the substitute, and nobody else is asked."""
    kinds = ("font/ttf", "font/woff", "font/woff2", "data")
    inline = {
        kind: f"data:{kind};base64,{b64encode(wrapped.get(kind, wrapped['font/woff2'])).decode()}" for kind in kinds
    }
    for kind in kinds[:3]:
        house.builder.response(f"{site}/{kind}", wrapped[kind], mime="application/octet-stream")
    other = "@font-face{font-family:Other;src:url(//leak.test/g)}i{font-family:Other}"
    archived, live = other, "i{font-family:Other}"
    for kind, data in inline.items():
        where = data if kind == "data" else f"/{kind}"
        name = f"Archived-{kind.replace('/', '-')}"
        archived += f"@font-face{{font-family:{name};src:url(http://leak.test/f),url({where})}}"
        live += f"@font-face{{font-family:{name};src:url({data})}}"

    def page(style: str, family: str) -> str:
        lines = "".join(
            "<p style='margin:0;height:100px;overflow:hidden;font:60px "
            f"{family.replace('KIND', kind.replace('/', '-'))}monospace'>Weboid Ragfy 123<i></i></p>"
            for kind in kinds
        )
        return f"<!DOCTYPE html><style>{style}</style><body style='margin:0'>{lines}"

    house.builder.page(f"{site}/own", page(archived, "Archived-KIND,"))
    house.builder.page(f"{site}/none", page(archived, ""))
    file = browser.home / "live.html"
    file.write_text(page(live, "Archived-KIND,"))

    own, none = (browser.screenshot(f"{house.replay}/c/{TS}/{site}/{path}") for path in ("own", "none"))
    browser.dump_dom(f"{house.front}/page/{TS}/{site}/own", leaks=leaks)

    # Not their bytes: a difference would be explained for minutes.
    assert own == browser.screenshot(file.as_uri())
    for number, kind in enumerate(kinds):
        line = (0, 100 * number, 800, 100 * (number + 1))
        assert own.crop(line) != none.crop(line), kind
    assert leaks.requests == []


def test_the_fonts_of_the_tests_are_fonts(ttf: bytes) -> None:
    """The test font can be unpacked and has the tables of a real font."""
    assert {b"cmap", b"glyf", b"head"} <= {tag for tag, _, _ in tables_of(ttf)}
