"""One page checked: what was kept is compared, what was not is not, and nothing of it can stop a check."""

from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from classify.missing_page import UNFINISHED
from core.captures import ArtifactKind
from core.clock import SystemClock
from core.errors import UnavailableError
from core.page_classes import PageClass
from core.page_manifest import PageResource
from core.playback_check import PlaybackFault, QaVerdict, picture_name
from core.timestamps import timestamp14
from playback.access import takedowns
from playback.access.decision_store import open_decisions
from playback.access.levels import Level
from playback.access.takedowns import Takedown, TakedownEffect, TakedownKind
from playback.playback_server import ServerOrigins
from qa.check_run import store_check
from qa.check_store import find_checks
from qa.checker import CheckOutcome, PlaybackChecker
from qa.local_replay import open_collection_replay
from qa.sample import SampleCandidate
from render.browser import Browser
from tests.qa.conftest import drawing, drawn_page, lending
from tests.support.playback_fixtures import NOW, CollectionBuilder, FullSite, ServedCollection, decide, full, png  # noqa: F401 fixtures
from tests.support.services.ports import free_port
from tests.support.services.registries import open_registry

pytestmark = [pytest.mark.browser, pytest.mark.playback, pytest.mark.asyncio(loop_scope="session")]

CLOCK = SystemClock()
SIZE = (1280, 800)
STYLE = "<!DOCTYPE html><body style='margin:0'><div style='height:800px;background:{}'>{}</div></body>"
Check = Callable[..., AbstractAsyncContextManager[PlaybackChecker]]


def candidate(url: str, page_id: str, **facts: object) -> SampleCandidate:
    """Return the page as the index knows it."""
    host = url.split("/")[2]
    plain = {"mime": "text/html", "status": 200, "page_class": PageClass.OK}
    return SampleCandidate(page_id, url, url, NOW, timestamp14(NOW), host, **{**plain, **facts})  # type: ignore[arg-type]


@asynccontextmanager
async def checker(
    at: FullSite, browser: Browser, level: Level = Level.IMAGES, replay: str = ""
) -> AsyncIterator[PlaybackChecker]:
    """Yield a checker of pages of the collection in that browser."""
    origins = ServerOrigins(at.served.front, replay or at.served.replay)
    with (
        ThreadPoolExecutor(2) as pool,
        open_collection_replay(at.builder.layout, "", origins, level, clock=CLOCK) as playback,
    ):
        yield PlaybackChecker(playback, lending(browser), pool, CLOCK)


async def check(at: FullSite, browser: Browser, url: str, page_id: str, level: Level = Level.IMAGES) -> CheckOutcome:
    """Check one page of the site."""
    async with checker(at, browser, level) as checks:
        return await checks.check(candidate(url, page_id))


async def test_what_is_shown_as_it_was_is_good(full: FullSite, site: str, browser: Browser) -> None:  # noqa: F811
    """Picture and text are compared; the pictures are there for people, and what the capture lacked."""
    page_id = full.builder.page(
        f"{site}/",
        STYLE.format("green", "A few words"),
        shot=png("green", SIZE),
        text="A few words",
        notes=("links: 2 of 3.", "glyphs: no font for Thai, boxes are drawn."),
    )

    outcome = await check(full, browser, f"{site}/", page_id)

    assert outcome.check.verdict is QaVerdict.GOOD, outcome.check
    assert outcome.check.picture is not None
    assert (outcome.check.text, outcome.check.page_id) == (1.0, page_id)
    assert outcome.check.reason == "glyphs: no font for Thai, boxes are drawn."
    assert set(outcome.pictures) == {"seen", "shown"}


@pytest.mark.parametrize(
    ("facts", "verdict"),
    [
        ({"notes": ("scenes: 1 not drawn.",)}, QaVerdict.DOUBTFUL),
        ({"evidence": (f"{UNFINISHED}it is loading.",)}, QaVerdict.BROKEN),
    ],
)
async def test_a_capture_of_an_unfinished_page_is_no_good_copy(
    full: FullSite,  # noqa: F811
    site: str,
    browser: Browser,
    facts: dict[str, Any],
    verdict: QaVerdict,
) -> None:
    """However true the copy is: another capture may show the page."""
    html = STYLE.format("green", "A few words")
    page_id = full.builder.page(f"{site}/", html, shot=png("green", SIZE), text="A few words", **facts)

    outcome = await check(full, browser, f"{site}/", page_id)

    assert (outcome.check.verdict, outcome.check.faults) == (verdict, (PlaybackFault.UNFINISHED,))
    (reason,) = (reason for each in facts.values() for reason in each)
    assert outcome.check.reason == reason


async def test_a_page_without_a_full_picture_is_held_against_its_view(
    full: FullSite,  # noqa: F811
    site: str,
    browser: Browser,
) -> None:
    """Of the copy no more is pictured then, however high it is."""
    html = STYLE.format("green", "") + "<div style='height:3000px;background:red'></div>"
    page_id = full.builder.page(f"{site}/", html)
    full.builder.artifact(ArtifactKind.VIEW, f"{site}/", png("green", SIZE), mime="image/png", page_id=page_id)

    outcome = await check(full, browser, f"{site}/", page_id)

    assert outcome.check.verdict is QaVerdict.GOOD
    assert outcome.check.picture == 1.0


async def test_a_page_without_pictures_is_judged_by_its_words(
    full: FullSite,  # noqa: F811
    site: str,
    browser: Browser,
) -> None:
    """And one of which nothing was kept by nothing: that is said, and is no verdict."""
    words = "Nothing of what was written here long ago is to be seen any more in this place today."
    page_id = full.builder.page(f"{site}/words", STYLE.format("green", "Error"), text=words * 3)
    bare = full.builder.page(f"{site}/bare", STYLE.format("green", ""))

    lost = await check(full, browser, f"{site}/words", page_id)
    nothing = await check(full, browser, f"{site}/bare", bare)

    assert (lost.check.verdict, lost.check.picture) == (QaVerdict.BROKEN, None)
    assert PlaybackFault.TEXT in lost.check.faults
    assert nothing.check.verdict in {QaVerdict.UNCHECKED, QaVerdict.GOOD}
    assert nothing.check.picture is None


@pytest.mark.parametrize(
    "shot",
    [b"no picture at all", png("green", SIZE)[:200], b"\x89PNG\r\n\x1a\n" + b"\0" * 8 + b"\xff" * 64],
    ids=["other bytes", "cut off", "claims to be huge"],
)
async def test_a_damaged_picture_is_a_doubt_and_no_crash(
    full: FullSite,  # noqa: F811
    site: str,
    browser: Browser,
    shot: bytes,
) -> None:
    """The rest is compared as ever; which record is damaged is told."""
    page_id = full.builder.page(f"{site}/", STYLE.format("green", "Words"), text="Words")
    full.builder.artifact(ArtifactKind.FULL_PAGE, f"{site}/", shot, mime="image/png", page_id=page_id)

    outcome = await check(full, browser, f"{site}/", page_id)

    assert outcome.check.verdict is QaVerdict.DOUBTFUL
    assert outcome.check.faults == (PlaybackFault.DAMAGED,)
    assert [each.url for each in outcome.check.lost] == [f"urn:fullPage:{site}/"]
    assert outcome.check.text == 1.0


@pytest.mark.parametrize("effect", list(TakedownEffect))
async def test_nothing_of_what_was_taken_down_is_looked_at_or_kept(
    full: FullSite,  # noqa: F811
    site: str,
    browser: Browser,
    tmp_path: Path,
    effect: TakedownEffect,
) -> None:
    """Also what an earlier check had kept goes."""
    url = f"{site}/"
    page_id = drawn_page(full.builder, url, is_there=False)
    before = await check(full, browser, url, page_id)
    with closing(open_registry(full.builder.layout, "")) as store:
        store_check(store, tmp_path, before, now=CLOCK.now())
        assert list(tmp_path.rglob("*.webp"))
        taken = Takedown(0, TakedownKind.URL, url, "", effect, "", "", "test", NOW, None)
        with closing(open_decisions(full.builder.layout)) as decisions:
            takedowns.add_takedowns(decisions, [taken])

        outcome = await check(full, browser, url, page_id)
        store_check(store, tmp_path, outcome, now=CLOCK.now())

    assert before.check.verdict is QaVerdict.BROKEN
    assert (outcome.check.verdict, outcome.is_withheld) == (QaVerdict.UNCHECKED, True)
    assert outcome.check.reason == "Taken down: it is not shown."
    assert not outcome.pictures
    assert not list(tmp_path.rglob("*.webp"))


async def test_the_pictures_of_a_page_go_when_it_is_good_again(
    full: FullSite,  # noqa: F811
    site: str,
    browser: Browser,
    tmp_path: Path,
) -> None:
    """Its row stays, and says so."""
    url = f"{site}/"
    page_id = drawn_page(full.builder, url, is_there=False)
    with closing(open_registry(full.builder.layout, "")) as store:
        broken = await check(full, browser, url, page_id)
        store_check(store, tmp_path, broken, now=CLOCK.now())
        picture_names = {path.name for path in tmp_path.rglob("*.webp")}
        full.builder.response(f"{site}/drawing.png", drawing(), mime="image/png")
        good = await check(full, browser, url, page_id)
        store_check(store, tmp_path, good, now=CLOCK.now())
        with store.reading() as reader:
            rows = find_checks(reader, [page_id])

    assert broken.check.verdict is QaVerdict.BROKEN
    assert picture_names >= {Path(picture_name(page_id, "images", "seen")).name}
    assert [each.verdict for each in rows] == [QaVerdict.GOOD]
    assert not list(tmp_path.rglob("*.webp"))


async def test_a_copy_that_playback_cannot_show_is_broken(
    full: FullSite,  # noqa: F811
    site: str,
    browser: Browser,
) -> None:
    """With the status that a reader gets; what was seen at capture is there to be looked at."""
    page_id = full.builder.page(f"{site}/", None, shot=png("green", SIZE))

    outcome = await check(full, browser, f"{site}/", page_id)

    assert (outcome.check.verdict, outcome.check.faults) == (QaVerdict.BROKEN, (PlaybackFault.NOT_SHOWN,))
    assert outcome.check.reason == "Playback answered with status 404."
    assert (outcome.check.score, set(outcome.pictures)) == (0.0, {"seen"})


async def test_a_challenge_is_compared_like_any_page(
    full: FullSite,  # noqa: F811
    site: str,
    browser: Browser,
) -> None:
    """Its class is one thing, whether it plays back another."""
    page_id = full.builder.page(
        f"{site}/", STYLE.format("green", ""), shot=png("green", SIZE), page_class=PageClass.CHALLENGE
    )

    outcome = await check(full, browser, f"{site}/", page_id)

    assert outcome.check.verdict is QaVerdict.GOOD


async def test_a_file_is_not_looked_at(full: FullSite, site: str, browser: Browser) -> None:  # noqa: F811
    """It is no page; what the archive holds of it decides."""
    url = f"{site}/paper.pdf"
    page_id = full.builder.page(url, mime="application/pdf")
    full.builder.response(url, b"%PDF-1.4", mime="application/pdf", page_id=page_id)

    before = browser.visits
    async with checker(full, browser) as checks:
        outcome = await checks.check(candidate(url, page_id, mime="application/pdf"))

    assert outcome.check.verdict is QaVerdict.GOOD
    assert browser.visits == before


async def test_at_a_lower_level_only_words_count(
    full: FullSite,  # noqa: F811
    site: str,
    browser: Browser,
) -> None:
    """It is not meant to look like the page."""
    page_id = full.builder.page(
        f"{site}/", STYLE.format("green", "A few words"), shot=png("red", SIZE), text="A few words"
    )

    outcome = await check(full, browser, f"{site}/", page_id, Level.TEXT)

    assert (outcome.check.verdict, outcome.check.picture) == (QaVerdict.GOOD, None)
    assert outcome.check.level == "text"


async def test_what_the_rules_do_not_show_is_not_looked_at(
    full: FullSite,  # noqa: F811
    site: str,
    browser: Browser,
) -> None:
    """No row says that a copy is broken which nobody is shown."""
    page_id = full.builder.page(f"{site}/", STYLE.format("red", ""), shot=png("green", SIZE))
    decide(full.builder.layout, Level.HTML, link=f"{site}/")

    outcome = await check(full, browser, f"{site}/", page_id)

    assert outcome.is_withheld
    assert outcome.check.reason == "The level rules allow at most html."


async def test_a_copy_in_full_is_looked_at_in_its_frame(
    full: FullSite,  # noqa: F811
    site: str,
    browser: Browser,
) -> None:
    """Its scripts run, on an origin of its own, without our banner over it."""
    page_id = full.page(
        f"{site}/",
        "<!DOCTYPE html><body style='margin:0'><script>document.body.style.background = 'green';"
        "document.body.append('Made by a script')</script>",
    )
    full.builder.artifact(ArtifactKind.VIEW, f"{site}/", png("green", SIZE), mime="image/png", page_id=page_id)
    full.builder.artifact(ArtifactKind.TEXT, f"{site}/", b"Made by a script", mime="text/plain", page_id=page_id)

    outcome = await check(full, browser, f"{site}/", page_id, Level.FULL)

    assert outcome.check.verdict is QaVerdict.GOOD, outcome.check
    assert outcome.check.picture is not None
    assert outcome.check.picture > 0.9


async def test_a_playback_that_is_gone_condemns_no_copy(
    full: FullSite,  # noqa: F811
    site: str,
    browser: Browser,
) -> None:
    """Nothing can be said of any page then."""
    page_id = full.builder.page(f"{site}/", STYLE.format("green", ""), shot=png("green", SIZE))

    async with checker(full, browser, replay=f"http://127.0.0.1:{free_port()}") as checks:
        with pytest.raises(UnavailableError, match="does not answer"):
            await checks.check(candidate(f"{site}/", page_id))


async def test_a_part_that_playback_does_not_give_is_told_by_its_status(
    full: FullSite,  # noqa: F811
    site: str,
    browser: Browser,
) -> None:
    """Too large, no picture, taken down or never captured: not by how the browser kept it from the page."""
    names = ("large.css", "down.png", "odd.png", "gone.png")
    seen = [
        PageResource(f"{site}/{name}", "GET", 200, resource_type=kind, kept="response")
        for name, kind in zip(names, ("Stylesheet", "Image", "Image", "Image"), strict=True)
    ]
    images = "".join(f"<img src=/{name}>" for name in names[1:])
    page_id = full.builder.page(
        f"{site}/",
        f"<!DOCTYPE html><link rel=stylesheet href=/large.css><p>words</p>{images}",
        text="words",
        resources=seen,
    )
    full.builder.response(f"{site}/large.css", b"p{color:red}" * 100_000, mime="text/css")
    full.builder.response(f"{site}/down.png", png("red", (9, 9)), mime="image/png")
    full.builder.response(f"{site}/odd.png", b"no picture", mime="image/png")
    with closing(open_decisions(full.builder.layout)) as decisions:
        values = (f"{site}/down.png", "", TakedownEffect.BLOCK, "", "", "test", NOW, None)
        takedowns.add_takedowns(decisions, [Takedown(0, TakedownKind.URL, *values)])

    outcome = await check(full, browser, f"{site}/", page_id)

    assert {each.url: each.reason for each in outcome.check.lost} == {
        f"{site}/large.css": "status: 404, too large",
        f"{site}/odd.png": "status: 404",
        f"{site}/gone.png": "status: 404",
    }
