"""Detection of a page at rest: as soon as it is, and no later."""

import asyncio
import io
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from PIL import Image

from classify.missing_page import UNFINISHED
from core.captures import ArtifactKind
from core.page_classes import PageClass
from core.page_manifest import VisitOutcome
from render.visit import Visit

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

Look = Callable[..., Awaitable[Visit]]
# Whoever waits this long in vain runs into a limit, and says so.
FOR_EVER_S = 60.0


def text(seen: Visit) -> str:
    return next(a.data for a in seen.artifacts if a.kind is ArtifactKind.TEXT).decode()


async def test_a_page_that_can_do_nothing_is_at_rest_at_once(look: Look) -> None:
    """Without scripts nothing is to be expected, however long quiet should last; CSS may turn."""
    seen = await look("/rest-still.html", settle_s=FOR_EVER_S)

    assert (seen.outcome, seen.restless) == (VisitOutcome.COMPLETE, ())
    assert seen.settled["quiet"] < FOR_EVER_S / 10


async def test_a_page_whose_sandbox_lets_no_script_run_is_at_rest_once_loaded(look: Look) -> None:
    """Our own timers do not fire there, so nothing may wait for them."""
    seen = await look("/sandboxed", settle_s=FOR_EVER_S)

    assert (seen.outcome, seen.restless, seen.behaviours) == (VisitOutcome.COMPLETE, (), ())
    assert seen.title == "Sandboxed"


async def test_a_page_with_scripts_is_watched_for_a_moment(look: Look) -> None:
    """Nothing holds it, but something might come."""
    seen = await look("/stream.html", settle_s=0.4)

    assert seen.settled["quiet"] >= 0.4
    assert seen.restless == ()


async def test_a_page_that_can_be_read_does_not_wait_for_late_timers(look: Look) -> None:
    """They put things away for the next visit, and ask whether the reader is still there."""
    seen = await look("/rest-flush.html")

    assert seen.title == "Flush"
    assert "timers" not in seen.settled


async def test_what_a_timer_fetches_is_seen(look: Look) -> None:
    """A timer that fires soon is waited for, in the page and in its frames, and what follows too.

    What held a page adds up to no more than its settling, and the steps to no more than the visit.
    """
    late, nested = await asyncio.gather(look("/rest-late.html"), look("/rest-nested.html"))

    assert "Here: only <text>" in text(late)
    assert "Here: only <text>" in text(nested)
    assert sum(late.settled.values()) <= late.timings["settle"] + 0.01
    assert late.seconds / 2 <= sum(late.timings.values()) <= late.seconds + 0.01


async def test_a_timer_of_the_whole_patience_is_waited_for(look: Look) -> None:
    """Also after a shorter one has used up a part of it."""
    seen = await look("/rest-patience.html")

    assert text(seen).strip().endswith("after two seconds")


async def test_what_a_timer_fetches_in_a_foreign_frame_is_asked_for(look: Look, site: Any, proxy: Any) -> None:
    """The same in a frame of another site, which has a process of its own."""
    seen = await look("http://one.test/rest-outer.html", proxy.endpoint())

    assert seen.outcome is VisitOutcome.COMPLETE
    assert "/text.txt" in site.paths()


async def test_timers_look_as_they_always_do(look: Look) -> None:
    """Watching them takes nothing from a page, gives it nothing, and survives what it overwrites.

    A cleared timer, of 1,900 ms, is not waited for; the one of 400 ms is.
    """
    seen = await look("/rest-timers.html")

    assert text(seen).strip() == "function () { [native code] }|undefined|setTimeout|1|given|true"
    assert seen.console == ()
    assert 0 < seen.settled["timers"] < 1.85


async def test_what_goes_on_without_end_does_not_hold_the_page(look: Look) -> None:
    """Changes of the same few nodes are enough, and named; so are repeated requests."""
    patient = {"settle_limit_s": FOR_EVER_S, "timeout_s": 3 * FOR_EVER_S}
    clock, poll = await asyncio.gather(look("/rest-clock.html", **patient), look("/rest-poll.html", **patient))

    assert (clock.outcome, clock.restless) == (VisitOutcome.COMPLETE, ("dom",))
    assert clock.settled["dom"] < FOR_EVER_S / 2
    assert (poll.outcome, poll.restless) == (VisitOutcome.COMPLETE, ())


async def test_a_page_that_goes_on_writing_is_waited_for(look: Look) -> None:
    """New content is waited for, longer than a ticking clock would be; in shadow trees as well.

    A page that shows hardly a word is given longer, too: what a later timer brings is probably the page.
    """
    pages = {
        "/rest-list.html": "the last row",
        "/rest-shadow.html": "written",
        "/rest-splash.html": "Here: only <text>",
    }
    patient = {"settle_limit_s": FOR_EVER_S, "timeout_s": 3 * FOR_EVER_S}
    seen = await asyncio.gather(*(look(path, **patient) for path in pages))

    for each, last in zip(seen, pages.values(), strict=True):
        assert text(each).strip().endswith(last)


async def test_changes_in_one_place_are_waited_for_within_the_patience(look: Look) -> None:
    """A progress bar that ends in the page; how long it takes depends on the machine."""
    limits = {"settle_limit_s": FOR_EVER_S, "timeout_s": 3 * FOR_EVER_S, "patience_s": FOR_EVER_S}
    seen = await look("/rest-loader.html", settle_s=3.0, **limits)  # a busy machine may pause between two steps

    assert text(seen).strip() == "all there"


async def test_a_page_that_is_loading_gets_more_time_from_a_patient_profile(look: Look) -> None:
    """By default it is captured as it loads, and says so; a recapture waits 2.5 times `patience_s`."""
    limits = {"settle_limit_s": FOR_EVER_S, "timeout_s": 3 * FOR_EVER_S}
    hasty, patient = await asyncio.gather(
        look("/rest-waiting.html", **limits), look("/rest-waiting.html", patience_s=4.0, **limits)
    )

    assert hasty.classification.kind is PageClass.NEAR_EMPTY
    assert hasty.classification.evidence == (f"{UNFINISHED}it shows that it is loading.",)
    assert text(patient).startswith("Here at last")
    assert patient.classification.kind is PageClass.OK


async def test_an_answer_that_nobody_reads_does_not_hold_the_page(look: Look) -> None:
    """The browser never calls it finished; that it came is enough."""
    seen = await look("/rest-unread.html", settle_limit_s=4.0)

    assert (seen.outcome, seen.restless) == (VisitOutcome.COMPLETE, ())


async def test_a_fade_has_ended_before_the_picture_is_taken(look: Look) -> None:
    """An animation that comes to an end is waited for: the cover over the page is gone."""
    seen = await look("/rest-fade.html")

    view = next(a.data for a in seen.artifacts if a.kind is ArtifactKind.VIEW)
    with Image.open(io.BytesIO(view)) as picture:
        assert picture.convert("RGB").getpixel((100, 100)) == (255, 255, 255)


async def test_a_refresh_soon_is_followed(look: Look, site: Any) -> None:
    """A page that says where to go in a second is left for that, though it has no script."""
    seen = await look("/rest-refresh.html")

    assert (seen.outcome, seen.final_url) == (VisitOutcome.COMPLETE, site.url("/plain.html"))


async def test_what_does_not_load_is_named(look: Look) -> None:
    """A document without an end never loads, and the visit says what it waited for."""
    seen = await look("/endless", settle_limit_s=0.5)

    assert seen.restless == ("load",)
