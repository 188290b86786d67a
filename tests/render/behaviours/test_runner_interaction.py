"""Banners that ask for consent are refused, and hidden in pictures when they stay."""

import io
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from PIL import Image

from core.captures import ArtifactKind
from core.page_manifest import VisitOutcome
from render.behaviours.catalog import load_table
from tests.render.behaviours.conftest import Act, BehaviourVisit

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


def banner(**facts: str) -> str:
    return "banner.html?" + urlencode({key.replace("_", "-"): value for key, value in facts.items()})


def corner(acted: BehaviourVisit) -> tuple[int, ...]:
    """Return the colour of the view's last pixel (RGB): red is the banner, white the page."""
    view = next(a.data for a in acted.visit.artifacts if a.kind is ArtifactKind.VIEW)
    with Image.open(io.BytesIO(view)) as image:
        pixel = image.convert("RGB").getpixel((1279, 799))
    assert isinstance(pixel, tuple)
    return pixel


RED, WHITE = (255, 0, 0), (255, 255, 255)


@pytest.mark.parametrize(
    ("platform", "facts"),
    [
        ("OneTrust", {"id": "onetrust-banner-sdk", "reject": "#onetrust-reject-all-handler"}),
        ("Cookiebot", {"id": "CybotCookiebotDialog", "reject": "#CybotCookiebotDialogBodyButtonDecline"}),
        ("Didomi", {"id": "didomi-notice", "reject": "#didomi-notice-disagree-button"}),
        ("Usercentrics", {"id": "usercentrics-root", "shadow": "1", "reject": "@uc-deny-all-button"}),
    ],
)
async def test_a_platform_is_refused_by_its_own_button(act: Act, platform: str, facts: dict[str, str]) -> None:
    """The rule's reject button is pressed, in closed shadow roots, too, and accept never."""
    acted = await act(banner(**facts, accept=".go"), "consent")

    assert acted.done["consent"].notes == (f"{platform}: refused",)
    assert "rejected" in acted.requested
    assert "accepted" not in acted.requested
    assert corner(acted) == WHITE


@pytest.mark.parametrize(
    "text",
    ["Reject all", "Alle ablehnen", "Continuer sans accepter", "Rechazar todo", "Rifiuta tutto",
     "Alles weigeren", "Odrzuć wszystkie"],
)  # fmt: skip
async def test_a_banner_of_no_known_platform_is_refused_by_what_its_button_says(act: Act, text: str) -> None:
    """In seven languages."""
    acted = await act(banner(id="our-cookies", accept="1", reject="2", reject_text=text), "consent")

    assert acted.done["consent"].notes == ("banner: refused",)
    assert "rejected" in acted.requested


async def test_a_banner_that_offers_no_refusal_is_left_and_hidden_in_pictures_only(act: Act) -> None:
    """It is not accepted; the pictures are without it, the copy of the DOM keeps it."""
    acted = await act(banner(id="our-cookies", accept="1"), "consent")

    assert "accepted" not in acted.requested
    assert acted.done["consent"].notes == ("banner: left alone, hidden",)
    assert corner(acted) == WHITE
    dom = next(a.data for a in acted.visit.artifacts if a.kind is ArtifactKind.DOM)
    assert b"our-cookies" in dom
    assert b"display: none !important" not in dom


async def test_without_the_behaviour_the_banner_is_in_the_picture(act: Act) -> None:
    """Nothing is hidden that was not asked for."""
    assert corner(await act(banner(id="our-cookies", accept="1"))) == RED


async def test_a_profile_may_accept_where_nothing_can_be_refused(act: Act) -> None:
    """accept_cookies is the last resort."""
    acted = await act(banner(id="our-cookies", accept="1"), "consent", accept_cookies=True)

    assert acted.done["consent"].notes == ("banner: accepted",)
    assert "accepted" in acted.requested


async def test_a_banner_that_stays_after_its_refusal_is_hidden(act: Act) -> None:
    """A platform whose button does nothing."""
    facts = {"id": "onetrust-consent-sdk", "reject": "#onetrust-reject-all-handler"}
    acted = await act(banner(**{**facts, "id": "onetrust-banner-sdk"}, stays="1"), "consent")

    assert acted.done["consent"].notes == ("OneTrust: refused, hidden",)


async def test_an_answer_that_reloads_the_page_does_not_lose_it(act: Act) -> None:
    """The page is held while the button is pressed."""
    facts = {"id": "onetrust-banner-sdk", "reject": "#onetrust-reject-all-handler"}
    acted = await act(banner(**facts, reload="1"), "consent")

    assert (acted.visit.title, acted.visit.outcome) == ("Banner", VisitOutcome.COMPLETE)
    documents = [r for r in acted.visit.requests if r.resource_type == "Document" and not r.failed]
    assert len(documents) == 1


@pytest.mark.parametrize("host", ["page.test", "www.other.test"])
async def test_a_banner_in_a_frame_is_refused_there(act: Act, proxy: Any, host: str) -> None:
    """Sourcepoint asks in a frame, in another process or in the page's own."""
    acted = await act("framed-banner.html", "consent", proxy=proxy.endpoint(), host=host)

    assert acted.done["consent"].notes == ("Sourcepoint (frame): answered",)
    assert any(request.path.endswith("frame-refused") for request in proxy.requests)


async def test_a_page_without_a_banner_is_left_alone(act: Act) -> None:
    """Nothing is pressed on a page that merely speaks of cookies in its text."""
    acted = await act("user.html", "consent")

    assert (acted.done["consent"].found, acted.done["consent"].done) == (0, 0)


async def test_every_selector_of_the_rules_is_one(act: Act, tmp_path: Path) -> None:
    """A selector that the browser does not take would silently end the behaviour."""
    sites = load_table("sites")
    rules = [*load_table("consent")["rule"], *sites["rule"], sites["carousels"]]
    selectors = [each for rule in rules for key in rule if key not in ("name", "see") for each in rule[key]]
    check = "// hosts: *\n() => { for (const s of " + repr(selectors)
    check += ") document.querySelector(s); return { found: 0, done: 0 }; }"
    script = tmp_path / "check.js"
    script.write_text(check, encoding="utf-8")

    acted = await act("user.html", scripts=(str(script),))

    assert acted.done["check"].error == ""
