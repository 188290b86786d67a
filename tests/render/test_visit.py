"""Results of visits to the pages of a hostile web."""

import asyncio
import io
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import psutil
import pytest
from PIL import Image

from core.captures import ArtifactKind
from core.clock import SystemClock
from core.config.settings import BrowserSettings, VisitSettings
from core.errors import BadUrlError, BrowserUnavailableError
from core.page_manifest import VisitOutcome
from render.browser import Browser
from render.chromium import find_browser
from render.network_log import NetworkLog
from render.visit import Visit, VisitRequest, visit
from tests.support.services.processes import arguments

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

Look = Callable[..., Awaitable[Visit]]
ALL = set(ArtifactKind) - {ArtifactKind.PAGEINFO, ArtifactKind.PDF}


def kinds(seen: Visit) -> set[ArtifactKind]:
    return {artifact.kind for artifact in seen.artifacts}


def data(seen: Visit, kind: ArtifactKind) -> bytes:
    return next(artifact.data for artifact in seen.artifacts if artifact.kind is kind)


def size(png: bytes) -> tuple[int, int]:
    with Image.open(io.BytesIO(png)) as image:
        return image.size


async def test_an_ordinary_page_is_complete(look: Look, site: Any) -> None:
    """A page that loads gives its facts and one artifact of every kind."""
    seen = await look("/plain.html")

    assert (seen.outcome, seen.reason, seen.status) == (VisitOutcome.COMPLETE, "", 200)
    assert (seen.mime, seen.title, seen.final_url) == ("text/html", "A plain page", seen.url)
    assert seen.headers["content-type"] == "text/html; charset=utf-8"
    assert kinds(seen) == ALL
    assert seen.outlinks == (site.url("/next.html"),)
    assert data(seen, ArtifactKind.TEXT) == b"Hello\n\nWords to read.next"
    assert {"navigate", "settle", "view", "dom", "text"} <= set(seen.timings)


async def test_a_page_is_asked_for_once(look: Look, site: Any) -> None:
    """No HEAD and no second GET: the first response decides (design 5)."""
    await look("/plain.html")

    assert [(request.method, request.path) for request in site.requests] == [("GET", "/plain.html")]


@pytest.mark.parametrize("status", [403, 500])
async def test_an_http_error_is_a_complete_visit(look: Look, status: int) -> None:
    """The origin's own error page is kept, with its status."""
    seen = await look(f"/status/{status}")

    assert (seen.outcome, seen.status, seen.title) == (VisitOutcome.COMPLETE, status, "Error page")
    assert kinds(seen) == ALL


async def test_a_login_is_not_attempted(look: Look, site: Any) -> None:
    """A site that wants a password shows what it shows to those who have none."""
    seen = await look("/login")

    assert (seen.outcome, seen.status, site.paths()) == (VisitOutcome.COMPLETE, 401, ["/login"])
    assert data(seen, ArtifactKind.TEXT) == b"Log in"


async def test_named_hosts_are_reached_without_a_proxy(clock: SystemClock, site: Any, settings: VisitSettings) -> None:
    """A browser that was told where a name lies goes there, and nowhere else."""
    hosts = {"known.test:80": f"127.0.0.1:{site.port}"}
    async with await Browser.launch(BrowserSettings(), find_browser(), hosts=hosts, clock=clock) as browser:
        known, other = [
            await visit(browser, VisitRequest(f"http://{name}/plain.html"), settings, clock=clock)
            for name in ("known.test", "other.test")
        ]

    assert (known.outcome, known.final_url) == (VisitOutcome.COMPLETE, "http://known.test/plain.html")
    assert (other.outcome, other.reason) == (VisitOutcome.FAILED, "net::ERR_NAME_NOT_RESOLVED")


async def test_an_http_error_without_a_body_has_no_words(look: Look) -> None:
    """The browser's own error page is never kept as the site's."""
    seen = await look("/empty/404")

    assert (seen.outcome, seen.status, seen.title) == (VisitOutcome.COMPLETE, 404, "")
    assert all(a.data == b"" for a in seen.artifacts if a.kind is ArtifactKind.TEXT)


async def test_no_content_is_complete_without_artifacts(look: Look) -> None:
    """A 204 answers, and shows nothing."""
    seen = await look("/nothing")

    assert (seen.outcome, seen.status, seen.artifacts) == (VisitOutcome.COMPLETE, 204, ())


async def test_a_refused_connection_fails_with_its_reason(look: Look) -> None:
    """Nobody listens there."""
    seen = await look("http://127.0.0.1:1/")

    assert (seen.outcome, seen.reason) == (VisitOutcome.FAILED, "net::ERR_UNSAFE_PORT")


async def test_a_redirect_to_a_dead_host_fails(look: Look, site: Any) -> None:
    """The end of the redirects decides; the hop is still in the log."""
    seen = await look("/to-dead")

    assert seen.outcome is VisitOutcome.FAILED
    assert seen.reason.startswith("net::ERR_")
    assert (seen.requests[0].url, seen.requests[0].status) == (site.url("/to-dead"), 302)


async def test_the_browser_resolves_no_names_itself(look: Look) -> None:
    """Names are the proxy's to resolve; without one there are none (C-04)."""
    seen = await look("http://localhost.example.org/")

    assert (seen.outcome, seen.reason) == (VisitOutcome.FAILED, "net::ERR_NAME_NOT_RESOLVED")


async def test_redirects_are_followed_and_told(look: Look, site: Any) -> None:
    """Every hop is a request of its own, and named on the way."""
    seen = await look("/hop/2")

    assert seen.outcome is VisitOutcome.COMPLETE
    assert seen.final_url == site.url("/plain.html")
    assert seen.redirects == tuple(site.url(f"/hop/{left}") for left in (2, 1, 0))
    assert [request.status for request in seen.requests[:4]] == [302, 302, 302, 200]


async def test_a_redirect_loop_fails(look: Look) -> None:
    """A URL that leads to itself costs this visit only."""
    seen = await look("/loop")

    assert (seen.outcome, seen.reason) == (VisitOutcome.FAILED, "net::ERR_TOO_MANY_REDIRECTS")


@pytest.mark.parametrize("path", ["/jump.html", "/jump-late.html", "/refresh.html", "/beforeunload.html"])
async def test_redirects_by_the_page_itself_are_followed(look: Look, site: Any, path: str) -> None:
    """Scripts and meta refresh lead on as Location does."""
    seen = await look(path)

    assert (seen.outcome, seen.title) == (VisitOutcome.COMPLETE, "A plain page")
    assert seen.final_url == site.url("/plain.html")
    assert seen.redirects == (site.url(path),)


async def test_a_page_that_reloads_for_ever_is_partial(look: Look) -> None:
    """It is stopped after some turns, and what it shows is kept; here a refresh, below a script."""
    seen = await look("/refresh-loop.html", settle_limit_s=60.0, timeout_s=180.0)

    assert (seen.outcome, seen.reason) == (VisitOutcome.PARTIAL, "redirect-loop")
    assert kinds(seen) == ALL


async def test_the_last_document_of_a_loop_is_whole(look: Look) -> None:
    """It is not stopped between its head and its body: what has no body is never drawn."""
    seen = await look("/reload-slowly", settle_limit_s=60.0, timeout_s=180.0)

    assert (seen.outcome, seen.reason) == (VisitOutcome.PARTIAL, "redirect-loop")
    assert kinds(seen) == ALL
    assert data(seen, ArtifactKind.TEXT) == b"again"


async def test_a_script_that_leads_nowhere_fails_the_visit(look: Look) -> None:
    """The browser's error page is not the page."""
    seen = await look("/jump-dead.html")

    assert seen.outcome is VisitOutcome.FAILED
    assert seen.reason.startswith("net::ERR_")
    assert seen.artifacts == ()


@pytest.mark.parametrize(("path", "mime"), [("/file.pdf", "application/pdf"), ("/file.zip", "application/zip")])
async def test_a_file_is_complete_and_asked_for_once(look: Look, site: Any, path: str, mime: str) -> None:
    """A main document that is saved instead of shown is no failure, and is asked for once."""
    seen = await look(path)

    assert (seen.outcome, seen.reason, seen.status) == (VisitOutcome.COMPLETE, "", 200)
    assert (seen.mime, seen.artifacts, site.paths()) == (mime, (), [path])


async def test_an_image_is_shown_and_has_no_words(look: Look) -> None:
    """Pictures of a picture make sense; its DOM and text do not."""
    seen = await look("/image.png")

    assert (seen.outcome, seen.mime) == (VisitOutcome.COMPLETE, "image/png")
    assert kinds(seen) == {ArtifactKind.VIEW, ArtifactKind.FULL_PAGE, ArtifactKind.THUMBNAIL}


async def test_plain_text_is_read(look: Look) -> None:
    """A text file is a page with words."""
    seen = await look("/text.txt")

    assert (seen.outcome, seen.mime) == (VisitOutcome.COMPLETE, "text/plain")
    assert data(seen, ArtifactKind.TEXT) == b"only <text>"
    assert b"only &lt;text&gt;" in data(seen, ArtifactKind.DOM)


async def test_files_pushed_by_a_page_do_not_disturb_it(look: Look) -> None:
    """A page that saves files is a page like any other (C-11)."""
    seen = await look("/saver.html")

    assert (seen.outcome, seen.title) == (VisitOutcome.COMPLETE, "Saver")


async def test_nothing_answered_before_the_deadline_fails(look: Look) -> None:
    """A server that accepts and is silent costs one deadline."""
    seen = await look("/silent", timeout_s=3.0)

    assert seen.outcome is VisitOutcome.FAILED
    assert seen.reason in {"deadline: open", "deadline: navigate"}  # the former on a machine that is busy
    assert seen.seconds >= 3.0


async def test_a_document_cut_short_is_partial(look: Look) -> None:
    """A connection that breaks in the middle leaves what came before."""
    seen = await look("/cut")

    assert (seen.outcome, seen.status) == (VisitOutcome.PARTIAL, 200)
    assert seen.reason == "cut: net::ERR_CONTENT_LENGTH_MISMATCH"
    assert b"The first half" in data(seen, ArtifactKind.TEXT)


async def test_an_endless_document_is_cut_and_kept(look: Look) -> None:
    """A response without an end shows what came of it."""
    seen = await look("/endless", settle_limit_s=1.5)

    assert (seen.outcome, seen.reason) == (VisitOutcome.PARTIAL, "unfinished")
    assert kinds(seen) == ALL
    assert b"It goes on" in data(seen, ArtifactKind.TEXT)


async def test_pages_that_hang_are_stopped_and_kept_and_slow_no_other(
    look: Look, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script that never ends is ended with its process, also in the middle of the document."""
    monkeypatch.setattr("render.visit.ANSWER_LIMIT_S", 2.0)
    hung, early, other = await asyncio.gather(
        look("/hung.html", settle_limit_s=1.0), look("/hung-early.html", settle_limit_s=1.0), look("/plain.html")
    )

    assert (hung.outcome, hung.reason, hung.status) == (VisitOutcome.PARTIAL, "hung", 200)
    assert (early.outcome, early.reason, early.status) == (VisitOutcome.PARTIAL, "hung", 200)
    assert b"Before" in data(hung, ArtifactKind.TEXT)
    assert other.outcome is VisitOutcome.COMPLETE
    _, alive = psutil.wait_procs(renderers(browser), timeout=120)
    assert alive == []


def renderers(browser: Browser) -> list[psutil.Process]:
    family = psutil.Process(browser.pid).children(recursive=True)
    return [each for each in family if "--type=renderer" in arguments(each)]


async def test_dialogs_are_dismissed(look: Look, site: Any) -> None:
    """A storm of alerts passes by itself."""
    seen = await look("/alerts.html")

    assert (seen.outcome, seen.title) == (VisitOutcome.COMPLETE, "Alerts")
    assert "/alerts-over" in site.paths()


async def test_popups_never_load(look: Look, site: Any) -> None:
    """A window that nobody asked for asks for nothing (C-11)."""
    seen = await look("/popups.html")

    assert (seen.outcome, seen.title) == (VisitOutcome.COMPLETE, "Popups")
    assert [path for path in site.paths() if path.startswith("/popup?")] == []


async def test_a_page_that_closes_itself_does_no_harm(look: Look) -> None:
    """Either it may not, or the visit says so; the browser goes on."""
    first = await look("/closing.html")
    second = await look("/plain.html")

    assert first.outcome in (VisitOutcome.COMPLETE, VisitOutcome.FAILED, VisitOutcome.PARTIAL)
    assert second.outcome is VisitOutcome.COMPLETE


async def test_a_stream_of_events_does_not_hold_the_page(look: Look) -> None:
    seen = await look("/stream.html", settle_limit_s=20.0)

    assert (seen.outcome, seen.reason, seen.restless) == (VisitOutcome.COMPLETE, "", ())


async def test_a_crashed_renderer_fails_the_visit_only(browser: Browser, look: Look, site: Any) -> None:
    """The page is gone, the browser is not."""
    going = asyncio.ensure_future(look("/silent-image.html"))
    await site.until_asked("/silent?image")
    for process in renderers(browser):
        process.kill()
    first = await going
    second = await look("/plain.html")

    assert (first.outcome, first.reason) == (VisitOutcome.FAILED, "crashed")
    assert second.outcome is VisitOutcome.COMPLETE


async def test_a_dead_browser_is_told_apart_from_a_dead_page(
    clock: SystemClock, site: Any, settings: VisitSettings
) -> None:
    """The visit did not fail, it must be tried in another browser."""
    async with await Browser.launch(BrowserSettings(), find_browser(), clock=clock) as browser:
        request = VisitRequest(site.url("/silent"))
        going = asyncio.ensure_future(visit(browser, request, settings, clock=clock))
        await site.until_asked("/silent")
        os.killpg(browser.pid, signal.SIGKILL)

        with pytest.raises(BrowserUnavailableError):
            await going
        assert browser.recycle_due() == "dead"


async def test_a_flood_of_requests_is_cut_off(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page is no tool to ask others for things thousands of times (C-17)."""
    monkeypatch.setattr(NetworkLog.__init__, "__kwdefaults__", {"limit": 500})
    seen = await look("/flood.html", settle_limit_s=30.0)

    assert (seen.outcome, seen.reason) == (VisitOutcome.PARTIAL, "too-many-requests")
    assert len(seen.requests) <= 500


async def test_frames_within_frames_without_end_are_cut_off(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page itself is kept, with the frames so far."""
    monkeypatch.setattr("render.network_log.FRAME_LIMIT", 30)
    seen = await look("/recursive-frames.html", settle_limit_s=30.0)

    assert (seen.outcome, seen.reason) == (VisitOutcome.PARTIAL, "too-many-requests")
    assert b"Each frames itself" in data(seen, ArtifactKind.DOM)


async def test_drawings_that_use_themselves_without_end_slow_no_other(
    look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred million shapes are given up within the visit's deadline."""
    monkeypatch.setattr("render.visit.ANSWER_LIMIT_S", 2.0)
    drawing, other = await asyncio.gather(
        look("/recursive-use.html", settle_limit_s=1.0, timeout_s=3.0), look("/plain.html")
    )

    assert drawing.outcome in (VisitOutcome.PARTIAL, VisitOutcome.FAILED)
    assert other.outcome is VisitOutcome.COMPLETE


async def test_sound_and_film_without_end_do_not_hold_the_page(look: Look, site: Any) -> None:
    """They begin to come, and the page is whole."""
    seen = await look("/endless-media.html", settle_limit_s=3.0)

    assert seen.outcome is VisitOutcome.COMPLETE
    assert {"/endless_sound", "/endless_sound?film"} <= set(site.paths())


async def test_a_large_document_is_whole(look: Look) -> None:
    """A table of twenty thousand cells, a DOM of two megabytes, by the default behaviours."""
    seen = await look("/table.html?20000", timeout_s=240.0, settle_s=0.25, settle_limit_s=60.0)

    assert (seen.outcome, seen.reason) == (VisitOutcome.COMPLETE, "")
    assert b"<b>19999</b>" in data(seen, ArtifactKind.DOM)
    assert len(data(seen, ArtifactKind.DOM)) > 2_000_000
    assert data(seen, ArtifactKind.TEXT).split()[-1] == b"19999"
    assert data(seen, ArtifactKind.FULL_PAGE)


async def test_error_lines_are_bounded(look: Look) -> None:
    """A page may complain, up to a point."""
    seen = await look("/errors.html")

    assert seen.console[0] == "told 1"
    assert len(seen.console) == 50
    assert max(map(len, seen.console)) == 300


async def test_requests_of_workers_are_logged(look: Look, site: Any) -> None:
    """Workers belong to the page."""
    seen = await look("/worker-page.html")

    logged = {request.url for request in seen.requests}
    names = ("/from-worker", "/from-shared-worker", "/sw.js", "/from-service-worker")
    assert {site.url(name) for name in names} <= logged


async def test_every_permission_is_refused(look: Look) -> None:
    """No page gets a camera, a place, or a notification (C-11)."""
    seen = await look("/permissions.html")

    assert set(data(seen, ArtifactKind.TEXT).split()) == {b"denied"}


async def test_visits_share_nothing(look: Look) -> None:
    """Cookies and storage end with the visit (C-07)."""
    texts = [data(await look("/storage.html"), ArtifactKind.TEXT) for _ in range(2)]

    assert texts == [b"none none", b"none none"]


async def test_the_browser_does_not_call_itself_headless(look: Look, site: Any) -> None:
    """Main documents, subresources and workers all carry one plain identity."""
    await look("/worker-page.html", language="de-DE,de")

    for request in site.requests:
        assert "Headless" not in str(request.headers)
        assert request.headers["accept-language"].startswith("de-DE")


async def test_the_profile_names_the_user_agent(look: Look, site: Any) -> None:
    await look("/plain.html", user_agent="weboid-test/1")

    assert site.requests[0].headers["user-agent"] == "weboid-test/1"


async def test_a_long_page_is_scrolled_and_pictured_whole(look: Look, site: Any) -> None:
    """Lazy content is loaded, and the full-page picture is as tall as the page."""
    seen = await look("/tall.html")

    assert {"/seen", "/image.png?far"} <= set(site.paths())
    assert size(data(seen, ArtifactKind.VIEW)) == (1280, 800)
    assert size(data(seen, ArtifactKind.FULL_PAGE))[1] > 3000
    assert size(data(seen, ArtifactKind.THUMBNAIL)) == (320, 200)


async def test_a_full_page_is_cut_at_its_limit(look: Look) -> None:
    """A page may be endless, its picture is not."""
    seen = await look("/tall.html", full_page_limit_px=1500)

    assert size(data(seen, ArtifactKind.FULL_PAGE)) == (1280, 1500)


async def test_only_what_is_wanted_is_made(look: Look) -> None:
    """Each artifact has its switch."""
    nothing = {"view": False, "full_page": False, "thumbnail": False, "dom": False, "text": False}

    assert kinds(await look("/plain.html", **nothing)) == set()
    for name, kind in (("view", "view"), ("thumbnail", "thumbnail"), ("full_page", "fullPage")):
        assert kinds(await look("/plain.html", **(nothing | {name: True}))) == {kind}


async def test_a_proxys_own_answer_is_a_failure(look: Look) -> None:
    """A 502 of the proxy's making is marked, and is not the origin's."""
    seen = await look("/proxy-error")

    assert (seen.outcome, seen.reason, seen.artifacts) == (VisitOutcome.FAILED, "dns", ())


@pytest.mark.parametrize("url", ["file:///etc/passwd", "chrome://version", "javascript:1", "x"])
async def test_only_http_is_visited(browser: Browser, clock: SystemClock, url: str) -> None:
    """A URL of another scheme never reaches the browser (C-05)."""
    with pytest.raises(BadUrlError):
        await visit(browser, VisitRequest(url), VisitSettings(), clock=clock)


async def test_many_visits_at_once_do_not_mix(look: Look, site: Any) -> None:
    """Each visit knows its own requests only."""
    paths = [f"/plain.html?{n}" for n in range(4)]
    seen = await asyncio.gather(*map(look, paths))

    assert [[request.url for request in each.requests] for each in seen] == [[site.url(path)] for path in paths]


async def test_a_cancelled_visit_leaves_no_context(browser: Browser, look: Look, site: Any) -> None:
    """Whoever gives up a visit need not clean up after it."""
    before = await browser.connection.send("Target.getBrowserContexts")
    going = asyncio.ensure_future(look("/silent"))
    await site.until_asked("/silent")
    going.cancel()
    with pytest.raises(asyncio.CancelledError):
        await going

    assert await browser.connection.send("Target.getBrowserContexts") == before
