"""What a page, its frames of other sites and its workers are told about their visitor."""

import io
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from PIL import Image

from core.captures import ArtifactKind
from core.config.settings import VisitSettings
from render.identity import page_options, visit_user_agent
from render.visit import Visit

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

Look = Callable[..., Awaitable[Visit]]
TOLD = "http://site.test/told.html"  # it has a frame of other.test
AGENT = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 HeadlessChrome/156.0.0.0 Safari/537.36"


def told(seen: Visit) -> dict[str, str]:
    """The lines of the page, as name and value."""
    text = next(a.data for a in seen.artifacts if a.kind is ArtifactKind.TEXT).decode()
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


async def test_locale_and_time_zone_hold_everywhere(look: Look, proxy: Any) -> None:
    """The page, a frame of another site, a worker and a shared worker see one visitor."""
    said = told(await look(TOLD, proxy.endpoint(), language="de-DE,de", timezone="Asia/Tokyo", settle_s=0.5))

    for where in ("page", "frame", "worker", "shared"):
        assert said[f"{where}.language"] == "de-DE", where
        assert said[f"{where}.locale"] == "de-DE", where
        assert said[f"{where}.number"] == "1.234,5", where
        assert said[f"{where}.zone"] == "Asia/Tokyo", where
        assert said[f"{where}.hour"] == "9", where


async def test_a_phone_is_one_everywhere(look: Look, proxy: Any) -> None:
    """Touch, pointer, hints, User-Agent and scale agree, in frames and workers too."""
    said = told(
        await look(
            TOLD, proxy.endpoint(), mobile=True, viewport_width=390, viewport_height=844, device_scale=3.0, settle_s=0.5
        )
    )

    assert said["page.coarse"] == "true"
    assert said["page.hover"] == "false"
    assert said["page.platform"] == "Linux armv81"
    for where in ("page", "frame"):
        assert said[f"{where}.touch"] == "5", where
    assert "Headless" not in said["shared.agent"], "a shared worker is told the browser's own"
    for where in ("page", "frame", "worker"):
        assert "Android 10; K" in said[f"{where}.agent"], where
        assert " Mobile Safari" in said[f"{where}.agent"], where
    assert said["page.scale"] == "3"
    assert said["page.width"] == "980", "a page without a viewport meta is laid out wide"


async def test_a_phones_page_fits_the_phone_when_it_says_so(look: Look) -> None:
    """A viewport meta counts, and pictures have the screen's own pixels."""
    seen = await look("/narrow.html", mobile=True, viewport_width=390, device_scale=2.0)

    assert told(seen)["width"] == "390"
    view = next(a.data for a in seen.artifacts if a.kind is ArtifactKind.VIEW)
    assert Image.open(io.BytesIO(view)).size[0] == 780


async def test_colour_scheme_and_motion_are_as_the_profile_says(look: Look, proxy: Any) -> None:
    """Also in frames; by default neither is asked for."""
    said = told(await look(TOLD, proxy.endpoint(), colour_scheme="dark", reduced_motion=True, settle_s=0.5))
    usual = told(await look("/told.html"))

    assert (said["page.dark"], said["page.still"], said["frame.dark"]) == ("true", "true", "true")
    assert (usual["page.dark"], usual["page.still"], usual["page.zone"]) == ("false", "false", "UTC")


async def test_whom_to_ask_is_in_the_user_agent() -> None:
    """The contact stands behind the browser's own User-Agent, a phone's, and the profile's."""
    for changes, begin in (
        ({}, "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/156.0.0.0 Safari/537.36"),
        ({"mobile": True}, "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36"),
        ({"user_agent": "Archive/1"}, "Archive/1"),
    ):
        settings = VisitSettings(contact="https://example.org/bot", **changes)
        agent = visit_user_agent(settings, browser_said=AGENT, version="156.0.8078.79")

        assert agent.startswith(begin), agent
        assert agent.endswith(" (+https://example.org/bot)"), agent


async def test_a_simple_page_costs_no_more_commands() -> None:
    """What is as usual is not said."""
    options = page_options(VisitSettings(), browser_said=AGENT, version="156.0")

    assert [method for method, _ in options.commands("page")] == [
        "Emulation.setUserAgentOverride",
        "Emulation.setDeviceMetricsOverride",
    ]


async def test_client_hints_say_the_same_as_the_user_agent(look: Look, proxy: Any) -> None:
    """Over TLS, where browsers send them unasked."""
    await look("https://secure.test/narrow.html", proxy.endpoint(), mobile=True)
    await look("https://secure.test/narrow.html?desk", proxy.endpoint())
    hints = [
        (asked.headers["sec-ch-ua-mobile"], asked.headers["sec-ch-ua-platform"])
        for asked in proxy.asked
        if asked.path.startswith("/narrow.html")
    ]

    assert hints == [("?1", '"Android"'), ("?0", '"Linux"')]
