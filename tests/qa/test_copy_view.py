"""A look at a copy: on the screen of its capture, never for longer than allowed, and never elsewhere."""

import asyncio
import io
from dataclasses import replace

import pytest
from PIL import Image

from core.clock import SystemClock
from core.page_manifest import PageBehaviour, PageInfo, PagePicture, PageScreen, VisitOutcome
from playback.url_paths import Memento, MementoModifier, memento_path
from qa.copy_view import CopyAddress, CopyView, picture_height_limit, screen_at_capture, view_copy
from render.browser import Browser
from tests.qa.conftest import answer, listening
from tests.support.playback_fixtures import ReplayedCollection, png

pytestmark = pytest.mark.browser
in_session = pytest.mark.asyncio(loop_scope="session")  # where the browser is

CLOCK = SystemClock()
PAGE = PageInfo("p", "https://a.example/", "https://a.example/", "", VisitOutcome.COMPLETE)


def size_of(view: CopyView) -> tuple[int, int]:
    """Return the size of the view's picture in pixels."""
    assert view.picture is not None
    with Image.open(io.BytesIO(view.picture)) as image:
        return image.size


def of_host(host: str, path: str = "/") -> CopyAddress:
    """Return the address of a page of one of our servers."""
    return CopyAddress(f"http://{host}{path}", (host,))


@pytest.mark.playback
@in_session
async def test_a_look_tells_picture_text_and_requests(
    archived: ReplayedCollection, site: str, browser: Browser
) -> None:
    """Of the whole copy; what it asked for in vain is told as such."""
    archived.builder.response(f"{site}/here.png", png("red", (40, 40)), mime="image/png")
    timestamp = "20260301120000"
    archived.builder.page(
        f"{site}/",
        "<!DOCTYPE html><body style='margin:0'><p>Seen</p><img src=here.png><img src=gone.png>"
        "<div style='height:2000px'></div>",
    )
    path = memento_path(Memento(timestamp, MementoModifier.VERY, f"{site}/"))
    host = archived.replay.origin.removeprefix("http://")

    view = await view_copy(browser, of_host(host, path), PageScreen(), clock=CLOCK)

    assert (view.reason, view.status) == ("", 200)
    assert (view.text or "").strip() == "Seen"
    width, height = size_of(view)
    assert width == 1280
    assert 2000 < height < 2400
    request_by_name = {each.url.rpartition("/")[2]: each for each in view.requests}
    assert request_by_name["here.png"].status == 200
    assert request_by_name["gone.png"].failed


@in_session
async def test_words_of_drawings_count_as_text(browser: Browser) -> None:
    """A copy shows a drawing as a picture, whose alternative text are the words in it."""

    async def serve(_target: str, writer: asyncio.StreamWriter) -> None:
        shown = "<img alt='In the\ndrawing' src='data:image/png;base64,iVBORw0KGgo='>"
        await answer(writer, f"<!DOCTYPE html><p>Seen{shown}<span hidden>{shown}</span><img alt=No>")

    async with listening(serve) as host:
        view = await view_copy(browser, of_host(host), PageScreen(), clock=CLOCK)

    assert (view.text or "").split() == ["Seen", "In", "the", "drawing"]


@in_session
async def test_what_stands_in_frames_far_below_is_pictured(browser: Browser) -> None:
    """A browser draws a frame of another origin only in sight; frames of copies are such."""
    frame = "<iframe sandbox style='display:block' srcdoc=\"<body style='background:#f00'>\"></iframe>"

    async def serve(_target: str, writer: asyncio.StreamWriter) -> None:
        far = "<div style='height:5000px'></div>"
        await answer(writer, f"<!DOCTYPE html><body style='margin:0'>{far}{frame}{far}{frame}")

    async with listening(serve) as host:
        view = await view_copy(browser, of_host(host), PageScreen(), clock=CLOCK)
    assert view.picture is not None
    with Image.open(io.BytesIO(view.picture)) as image:
        picture = image.convert("RGB")
    red = [y for y in range(picture.height) if picture.getpixel((20, y)) == (255, 0, 0)]

    assert red == [*range(5002, 5152), *range(10156, 10306)]


@in_session
async def test_a_framed_copy_is_seen_after_the_behaviours_of_its_capture(browser: Browser) -> None:
    """Those that had an effect there; a click on a link does not leave the copy."""
    copy = (
        "<!DOCTYPE html><details><summary>How long</summary>120 metres</details><a href='/other' id=more>Load more</a>"
    )

    async def serve(target: str, writer: asyncio.StreamWriter) -> None:
        framing = "<!DOCTYPE html><p>Banner<iframe sandbox='allow-scripts' src=/copy></iframe>"
        await answer(writer, {"/": framing, "/copy": copy}.get(target, "<p>Elsewhere"))

    async with listening(serve) as host:
        address = replace(of_host(host), framed=True)
        done = [PageBehaviour(name, found=1, done=1) for name in ("details", "more", "hover")]
        idle = [PageBehaviour("details", found=1)]
        unopened = await view_copy(browser, address, PageScreen(), clock=CLOCK, behaviours=idle)
        after = await view_copy(browser, address, PageScreen(), clock=CLOCK, behaviours=done)

    assert (unopened.text or "").split() == ["How", "long", "Load", "more"]
    assert (after.text or "").split() == ["How", "long", "120", "metres", "Load", "more"]
    assert "more" in after.timings


@in_session
async def test_the_screen_is_that_of_the_capture(browser: Browser) -> None:
    """A phone's page is laid out for a phone, sharp as its picture was, in its colours."""

    async def serve(_target: str, writer: asyncio.StreamWriter) -> None:
        await answer(
            writer,
            "<meta name=viewport content='width=device-width'><style>body{background:white}"
            "@media (prefers-color-scheme: dark) {body{background:black}}</style>"
            "<p class=banner>Cookies</p>",
        )

    phone = PageScreen(412, 915, 2.0, mobile=True, colour_scheme="dark")
    async with listening(serve) as host:
        view = await view_copy(browser, of_host(host), phone, clock=CLOCK)
        hidden = replace(phone, css=".banner { display: none !important }")
        bare = await view_copy(browser, of_host(host), hidden, clock=CLOCK)

    assert size_of(view) == (824, 1830)
    assert view.picture is not None
    with Image.open(io.BytesIO(view.picture)) as image:
        assert image.convert("RGB").getpixel((800, 1800)) == (0, 0, 0)
    assert bare.picture is not None
    with Image.open(io.BytesIO(bare.picture)) as image:
        assert len(image.convert("RGB").getcolors() or ()) == 1, "its pictures leave the banner out"


def test_the_screen_of_an_old_manifest_is_guessed_from_its_view() -> None:
    """An old manifest says nothing of it but the sizes of its pictures."""
    phone = replace(PAGE, pictures=(PagePicture("view", 824, 1830),))
    wide = replace(PAGE, pictures=(PagePicture("view", 1920, 1080),))

    assert screen_at_capture(phone) == PageScreen(412, 915, 2.0, mobile=True)
    assert screen_at_capture(wide) == PageScreen(1920, 1080)
    assert screen_at_capture(PAGE) == PageScreen()
    assert screen_at_capture(replace(phone, screen=PageScreen(800, 600))) == PageScreen(800, 600)


def test_a_picture_that_was_cut_is_compared_with_one_cut_at_the_same_place() -> None:
    """The part below was not stored, so it cannot be lost."""
    cut = replace(PAGE, pictures=(PagePicture("fullPage", 824, 6_000, cut_from=20_000),))

    assert picture_height_limit(cut, PageScreen(412, 915, 2.0)) == 3_000
    assert picture_height_limit(PAGE, PageScreen()) == 16_000


def test_a_picture_that_is_taller_than_usual_is_looked_at_whole() -> None:
    """The thorough profile keeps twice the height."""
    tall = replace(PAGE, pictures=(PagePicture("fullPage", 1280, 24_000),))
    short = replace(PAGE, pictures=(PagePicture("fullPage", 1280, 900),))

    assert (picture_height_limit(tall, PageScreen()), picture_height_limit(short, PageScreen())) == (24_000, 16_000)


@in_session
async def test_a_copy_reaches_no_other_host(browser: Browser) -> None:
    """Whatever slips through the sanitiser: pictures, scripts, sockets, frames, redirects, other tabs."""
    targets: list[str] = []

    async def other(target: str, writer: asyncio.StreamWriter) -> None:
        targets.append(target)
        await answer(writer, "elsewhere")

    async with listening(other) as elsewhere:

        async def serve(target: str, writer: asyncio.StreamWriter) -> None:
            if target == "/away":
                writer.write(
                    f"HTTP/1.1 302 Found\r\nLocation: http://{elsewhere}/moved\r\nContent-Length: 0\r\n\r\n".encode()
                )
                return
            await answer(
                writer,
                f"<img src=http://{elsewhere}/image><img src=/away>"
                f"<iframe src=http://{elsewhere}/frame></iframe>"
                f"<link rel=stylesheet href=http://{elsewhere}/sheet>"
                f"<script src=http://{elsewhere}/script></script>"
                f"<script>alert(1); fetch('http://{elsewhere}/fetch').catch(() => 0);"
                f"new WebSocket('ws://{elsewhere}/socket'); open('http://{elsewhere}/tab');"
                f"navigator.sendBeacon('http://{elsewhere}/beacon')</script>Seen",
            )

        async with listening(serve) as host:
            view = await view_copy(browser, of_host(host), PageScreen(), clock=CLOCK, timeout_s=60.0, settle_s=2.0)

    assert "Seen" in (view.text or "")
    assert len(view.requests) > 4, "they were tried"
    assert targets == []


@in_session
async def test_a_copy_that_never_comes_is_given_up(browser: Browser) -> None:
    """With a reason; the browser is none the worse for it."""
    over = asyncio.Event()

    async def serve(target: str, writer: asyncio.StreamWriter) -> None:
        if target == "/silent":
            await over.wait()
        else:
            await answer(writer, "Seen")

    async with listening(serve) as host:
        silent = await view_copy(browser, of_host(host, "/silent"), PageScreen(), clock=CLOCK, timeout_s=1.0)
        after = await view_copy(browser, of_host(host), PageScreen(), clock=CLOCK)
        over.set()

    assert silent.reason == "The copy was not shown within 1 s."
    assert (silent.picture, silent.status) == (None, None)
    assert (after.text or "").strip() == "Seen"


@in_session
async def test_an_endless_part_does_not_hold_a_look(browser: Browser) -> None:
    """All other parts of the page are shown."""
    over = asyncio.Event()

    async def serve(target: str, writer: asyncio.StreamWriter) -> None:
        if target == "/endless":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\n")
            await writer.drain()
            await over.wait()
        else:
            await answer(writer, "<p>Seen<img src=/endless>")

    async with listening(serve) as host:
        view = await view_copy(browser, of_host(host), PageScreen(), clock=CLOCK, timeout_s=60.0, settle_s=2.0)
        over.set()

    assert view.reason == ""
    assert (view.text or "").strip() == "Seen"
    assert size_of(view) == (1280, 800)
    assert view.restless, "the view names what did not come to rest"


@in_session
async def test_an_error_in_the_place_of_the_copy_is_told(browser: Browser) -> None:
    """And so is a server that does not exist."""

    async def serve(_target: str, writer: asyncio.StreamWriter) -> None:
        await answer(writer, "No such copy", status="404 Not Found")

    async with listening(serve) as host:
        view = await view_copy(browser, of_host(host), PageScreen(), clock=CLOCK)
    gone = await view_copy(browser, of_host(host), PageScreen(), clock=CLOCK)

    assert (view.reason, view.status) == ("Playback answered with status 404.", 404)
    assert gone.reason == "No copy was served: net::ERR_CONNECTION_REFUSED."
