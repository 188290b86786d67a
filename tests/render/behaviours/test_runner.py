"""Behaviours load what a reader would have made the page load."""

from typing import Any
from urllib.parse import quote

import pytest

from core.page_manifest import VisitOutcome
from render.behaviours.catalog import load_table
from tests.render.behaviours.conftest import Act

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_scrolling_is_slow_enough_for_loaders_that_wait_for_a_pause(act: Act) -> None:
    """An image whose loader looks when scrolling has stopped is loaded by the page itself."""
    acted = await act("long.html", "scroll")

    assert "from-page" in acted.requested
    assert acted.done["scroll"].done >= 4


async def test_what_loads_after_a_moment_in_sight_is_loaded(act: Act) -> None:
    """Scrolling goes on when the timers that it made the page set have fired."""
    acted = await act("dwell.html", "scroll")

    assert {f"p{number}" for number in range(6)} <= acted.requested


async def test_a_page_that_grows_at_its_end_is_followed_up_to_the_limit(act: Act) -> None:
    """Infinite scroll is followed for so many rounds, and no further."""
    acted = await act("infinite.html", "scroll", scroll_rounds=3)

    assert {"batch-1", "batch-2", "batch-3"} <= acted.requested
    assert "batch-9" not in acted.requested
    assert acted.done["scroll"].notes == ("grew 3 times",)


async def test_a_page_that_is_slow_to_grow_is_followed(act: Act) -> None:
    """It goes on while the page computes and requests, as every page does on a busy machine."""
    acted = await act("infinite-slow.html", "scroll", scroll_rounds=3)

    assert acted.done["scroll"].notes == ("grew 3 times",)


async def test_a_page_that_grows_when_scrolling_has_stopped_is_followed(act: Act) -> None:
    """The timers that it sets at each scrolling are awaited, however often it sets them."""
    acted = await act("infinite-debounced.html", "scroll")

    assert {f"batch-{number + 1}" for number in range(5)} <= acted.requested


async def test_a_page_is_scrolled_no_further_than_its_limit_of_pixels(act: Act) -> None:
    """Growth ends at the height that the profile allows."""
    acted = await act("infinite.html", "scroll", scroll_px=3_000, scroll_rounds=100)

    assert "batch-1" in acted.requested
    assert "batch-9" not in acted.requested


async def test_what_scrolls_within_the_page_is_scrolled_in_both_directions(act: Act) -> None:
    """Containers are scrolled down and sideways although the page itself does not scroll."""
    acted = await act("inner.html", "scroll")

    assert {"deep", "side"} <= acted.requested


async def test_a_page_that_forbids_scrolling_is_scrolled_all_the_same(act: Act) -> None:
    """overflow: hidden, as banners set it, keeps nothing from being loaded, and is put back."""
    acted = await act("locked.html", "scroll")

    assert "behind-the-banner" in acted.requested
    dom = next(each.data for each in acted.visit.artifacts if str(each.kind) == "dom")
    assert b"visible" not in dom


async def test_lazy_images_and_frames_are_given_their_sources(act: Act) -> None:
    """data-src and its kin, <noscript> twins and backgrounds load; what waits for consent does not.

    The source that a lazy image would show is loaded beside the one it shows.
    """
    acted = await act("lazy.html", "lazy")

    wanted = {"data-src", "original", "beside", "frame", "native", "bg", "bg-url", "twin", "shown"}
    wanted |= {"twin-source", "twin-poster", "lazy-poster"}
    assert wanted <= acted.requested
    assert {"set-1x", "set-2x"} & acted.requested
    assert not {"pixel", "after-consent"} & acted.requested
    dom = next(each.data for each in acted.visit.artifacts if str(each.kind) == "dom")
    assert b"/wide.svg?shown" in dom


async def test_every_candidate_of_a_picture_is_loaded(act: Act, proxy: Any) -> None:
    """srcset, <picture>, image-set, the src that lost to a srcset; other screens, schemes, paper; icons.

    In shadow trees, frames, and style sheets of other origins, too; fonts are no pictures.
    """
    acted = await act("candidates.html", "candidates", proxy=proxy.endpoint(), host="candidates.test")

    wanted = {"fallback", "w100", "w200,5", "w4000", "huge", "webp", "plain"}
    wanted |= {"css-1x", "css-2x", "narrow", "dark", "print", "dense", "other-print"}
    wanted |= {"touch", "mask", "manifest", "shortcut"}
    wanted |= {"shadow", "shadow-2x", "shadow-print", "frame-1x", "frame-2x", "frame-dark"}
    assert wanted - acted.requested == set()


async def test_a_profile_bounds_how_many_pictures_are_asked_for(act: Act) -> None:
    """Of a hundred thousand candidates no more are loaded than `fetches` says, and the answer tells it."""
    acted = await act("many-candidates.html", "candidates", fetches=20)

    assert acted.done["candidates"].done == 20
    assert acted.done["candidates"].notes[0].endswith("were left out: limit of fetches")


async def test_details_are_opened(act: Act) -> None:
    """Resources that a <details> loads on opening are loaded."""
    acted = await act("details.html", "details")

    assert "opened" in acted.requested


async def test_tabs_and_folds_are_opened_without_losing_the_page(act: Act) -> None:
    """They are pressed; a link, a form, a word of accounts and a script that leads away are not followed."""
    acted = await act("expand.html", "expand")

    assert {"tab-t2", "unfolded", "after-dialog"} <= acted.requested
    assert not {"tab-t3", "submitted", "followed", "lost", "popup"} & acted.requested
    assert (acted.visit.title, acted.visit.outcome) == ("Tabs", VisitOutcome.COMPLETE)


async def test_load_more_is_pressed_as_long_as_it_brings_something(act: Act) -> None:
    """A button that says so in any of the languages, but never one that also destroys."""
    acted = await act("more.html", "more")

    assert {"more-1", "more-2", "more-3"} <= acted.requested
    assert "deleted" not in acted.requested


async def test_what_a_late_timer_brings_is_awaited_before_the_next_press(act: Act) -> None:
    """Timers and requests of a press come to their end, however long that takes."""
    acted = await act("more-late.html", "more")

    assert {"late-1", "late-2"} <= acted.requested


async def test_arrows_of_carousels_show_every_slide(act: Act) -> None:
    """They are pressed more often than most carousels have slides."""
    acted = await act("carousel.html", "expand")

    assert {"slide-2", "slide-3", "slide-4"} <= acted.requested


async def test_a_list_that_grows_within_the_page_is_followed(act: Act) -> None:
    """Its own requests and timers are awaited at its end."""
    acted = await act("inner-infinite.html", "scroll")

    assert {"inner-1", "inner-2", "inner-3", "inner-4"} <= acted.requested


@pytest.mark.parametrize("name", [rule["name"] for rule in load_table("sites")["rule"]])
async def test_what_readers_press_on_a_known_platform_is_pressed(act: Act, name: str) -> None:
    """Once, or as long as more comes; nothing is submitted or followed."""
    acted = await act(f"sites.html?{quote(name)}", "sites")

    presses = acted.done["sites"].done
    assert acted.done["sites"].notes == (f"{name}: {presses}",)
    assert {f"pressed-{number + 1}" for number in range(presses)} <= acted.requested
    assert not {"submitted", "before=20", "page=1"} & acted.requested
    assert presses in (1, 3)


async def test_load_more_without_end_is_pressed_so_often(act: Act) -> None:
    """Clicks are bounded."""
    acted = await act("endless-more.html", "more", clicks=4)

    assert acted.done["more"].done == 4


async def test_every_source_of_audio_and_video_is_asked_for(act: Act) -> None:
    """preload=none, sources that this browser cannot play, posters and text tracks."""
    acted = await act("media.html", "media")

    assert {"first", "second", "audio", "poster", "captions"} <= acted.requested


async def test_players_are_started_for_a_moment(act: Act) -> None:
    """Audio and video play, and play buttons are pressed."""
    acted = await act("play.html", "play")

    assert {"pressed", "playing", "played"} <= acted.requested


async def test_the_pointer_is_moved_over_what_reacts_to_it(act: Act) -> None:
    """:hover rules and mouseenter listeners."""
    acted = await act("hover.html", "hover")

    assert {"by-rule", "entered"} <= acted.requested


async def test_routes_in_the_fragment_are_visited_and_left_again(act: Act) -> None:
    """#/ and #! routes, also those that a route brings; not fragments of the page, not logging out."""
    acted = await act("routes.html", "routes")

    assert {"route-one", "route-two", "route-three"} <= acted.requested
    assert not {"route-plain", "route-logout"} & acted.requested
    dom = next(each.data for each in acted.visit.artifacts if str(each.kind) == "dom")
    assert b"<main>home</main>" in dom


async def test_behaviours_run_in_frames(act: Act) -> None:
    """Lazy content within a frame is loaded, too."""
    acted = await act("framed.html", "lazy")

    assert "data-src" in acted.requested


async def test_icons_that_another_visit_loaded_are_not_asked_for_again(act: Act, site: Any) -> None:
    """Every page of a site names the same."""
    icons = {"/image.png?touch", "/image.png?mask", "/image.png?manifest", "/image.png?shortcut"}
    await act("candidates.html", "candidates")
    first = [path for path in site.paths() if path in icons]
    await act("candidates.html", "candidates")
    again = [path for path in site.paths() if path in icons]

    assert set(first) == icons
    assert again == first
