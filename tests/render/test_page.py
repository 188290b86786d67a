"""Frames of other origins: their documents, text and links belong to the page."""

import html
from typing import Any

import pytest
import pytest_asyncio

from core.captures import ArtifactKind
from core.clock import SystemClock
from core.config.settings import VisitSettings
from render.behaviours.catalog import NO_BEHAVIOURS
from render.browser import Browser
from render.visit import Visit, VisitRequest, visit
from tests.render.conftest import TlsAuthority, proxying, serving

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def framed(browser: Browser, authority: TlsAuthority, settings: VisitSettings, clock: SystemClock) -> Visit:
    """Visit a page with frames of many kinds, once."""
    async with serving() as site, proxying(site, authority) as proxy:
        request = VisitRequest("http://outer.test/frames.html", proxy.endpoint())
        return await visit(browser, request, settings, clock=clock)


def artifact(seen: Visit, kind: ArtifactKind) -> str:
    return next(a.data for a in seen.artifacts if a.kind is kind).decode()


async def test_documents_of_other_origins_are_in_the_dom(framed: Visit) -> None:
    """Other sites', sandboxed ones, and those inside others, each in its frame's attribute."""
    whole = artifact(framed, ArtifactKind.DOM)

    once = html.unescape(whole)
    assert (framed.reason, framed.notes) == ("", ())
    assert '<p>inner <b>words</b> &amp; "more"</p>' in once
    assert "<p>sandboxed words</p>" in once
    assert "by script" in once
    for number in (1, 2, 3, 4):
        assert f"frame-inner.html?{number}" in whole
    # Two levels of frames are two levels of escapes.
    assert whole.count("&amp;lt;b&amp;gt;words") == 2
    assert whole.count("&lt;b&gt;words") == 2


async def test_text_of_frames_stands_where_they_stand(framed: Visit) -> None:
    """In reading order, and nothing of a frame that is not shown."""
    words = artifact(framed, ArtifactKind.TEXT).split("\n")
    lines = [line for line in words if line]
    assert lines == [
        "Before the frames", 'inner words & "more"', "Inner heading", "inner link",
        'inner words & "more"', "Inner heading", "inner link", "Between the frames",
        "sandboxed words", "sby script", "same origin", 'inner words & "more"', "Inner heading",
        "inner link", 'inner words & "more"', "Inner heading", "inner link", "After the frames",
    ]  # fmt: skip


async def test_links_of_frames_are_links_of_the_page(framed: Visit) -> None:
    """Each says that it stands in a frame."""
    assert set(framed.outlinks) == {
        "http://other.test/from-inner", "http://deep.test/from-inner", "http://linked.test/sandbox",
        "http://third.test/from-inner",
    }  # fmt: skip
    link = next(link for link in framed.links if link.url == "http://third.test/from-inner")
    assert (link.text, link.rel, link.heading) == ("inner link", "nofollow", "Inner heading")
    assert link.frame


async def test_a_frame_that_hangs_costs_only_itself(
    browser: Browser, proxy: Any, settings: VisitSettings, clock: SystemClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its place stays empty, the manifest says so, and all else is there."""
    monkeypatch.setattr("render.page_frames.DOCUMENT_TIMEOUT_S", 1.5)
    request = VisitRequest("http://outer.test/hung-frame.html", proxy.endpoint())
    seen = await visit(browser, request, settings, behaviours=NO_BEHAVIOURS, clock=clock)

    assert seen.notes == ("frames: 1 did not answer and are omitted.",)
    assert "<b>words</b>" in html.unescape(artifact(seen, ArtifactKind.DOM))
    assert "inner link" in artifact(seen, ArtifactKind.TEXT)
    assert "http://other.test/from-inner" in seen.outlinks
