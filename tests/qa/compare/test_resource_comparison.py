"""Which parts count as lost: what came then and does not come now, and nothing else."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.page_manifest import PageResource
from core.playback_check import LostPart, QaVerdict
from qa.compare.resource_comparison import (
    RESOURCE_KINDS,
    PartRequest,
    ResourceComparison,
    compare_resources,
    part_at_capture,
    part_at_playback,
)
from qa.compare.verdict_rules import judge_copy
from render.network_log import RequestLog

SITE = "https://example.org/"
_parts = st.lists(
    st.builds(
        PartRequest,
        url=st.sampled_from([f"{SITE}{name}" for name in "abcdef"] + ["no url", ""]),
        kind=st.sampled_from(["Document", "Stylesheet", "Image", "Script", "Ping", ""]),
        status=st.sampled_from([None, 200, 204, 304, 404, 503]),
        failed=st.sampled_from(["", "", "net::ERR_FAILED", "net::ERR_ABORTED"]),
        size=st.none() | st.integers(0, 100_000),
        initiator=st.sampled_from(["parser", "script", ""]),
    ),
    max_size=12,
)


def image(name: str, status: int | None = 200, **more: object) -> PartRequest:
    return PartRequest(f"{SITE}{name}", "Image", status, initiator="parser", size=20_000, **more)  # type: ignore[arg-type]


def sheet(name: str, status: int | None = 200, **more: object) -> PartRequest:
    return PartRequest(f"{SITE}{name}", "Stylesheet", status, initiator="parser", **more)  # type: ignore[arg-type]


def compare(seen: list[PartRequest], shown: list[PartRequest], level: str = "images") -> ResourceComparison:
    return compare_resources(seen, shown, level=level)


@given(_parts, _parts, st.sampled_from([*RESOURCE_KINDS, "another"]))
def test_figures_agree_whatever_was_asked_for(seen: list[PartRequest], shown: list[PartRequest], level: str) -> None:
    """The score is a share; what is not shown is lost; only what came at capture can be."""
    found = compare_resources(seen, shown, level=level)
    came = {part.url for part in seen if part.came}

    assert 0 <= found.score <= 1
    assert found.seen - found.shown == len(found.lost)
    assert {each.url for each in found.lost} <= came
    assert (found.score == 1) == (found.lost == ())


@given(_parts, st.sampled_from([*RESOURCE_KINDS]))
def test_a_page_that_is_asked_for_again_as_it_was_has_lost_nothing(parts: list[PartRequest], level: str) -> None:
    """Whatever failed at capture may fail again."""
    assert compare_resources(parts, parts, level=level).lost == ()


def test_what_came_then_and_fails_now_is_lost_with_its_reason() -> None:
    """Heaviest first: a style sheet before a picture, a large picture before a small one."""
    names = ("a.png", "b.png", "c.png", "d.png")
    seen = [*(image(name) for name in names), sheet("a.css"), image("small.png")]
    shown = [
        image("a.png", 404),
        image("b.png", None, failed="net::ERR_FAILED"),
        image("c.png", None),
        image("d.png"),
        sheet("a.css", 503),
        image("small.png"),
    ]

    found = compare(seen, shown)

    assert found.lost == (
        LostPart(f"{SITE}a.css", "status: 503"),
        LostPart(f"{SITE}a.png", "status: 404"),
        LostPart(f"{SITE}b.png", "failed: net::ERR_FAILED"),
        LostPart(f"{SITE}c.png", "unanswered"),
    )
    assert (found.seen, found.shown) == (6, 2)
    assert found.score == pytest.approx(2 / 9, abs=1e-4)


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param([], id="never asked for"),
        pytest.param([image("a.png", 404)], id="missing at its origin"),
        pytest.param([image("a.png", None)], id="no answer"),
        pytest.param([image("a.png", 200, failed="limit: bytes")], id="not kept"),
    ],
)
def test_what_was_not_there_at_capture_is_not_lost(seen: list[PartRequest]) -> None:
    """A broken image that was broken then is no fault of the copy."""
    assert compare(seen, [image("a.png", 404)]) == ResourceComparison(1.0, 0, 0, ())


@pytest.mark.parametrize("failed", ["net::ERR_ABORTED", "detached"])
def test_what_the_copy_itself_took_back_is_not_lost(failed: str) -> None:
    """A request that was cancelled says nothing of what would have come."""
    assert compare([image("a.png")], [image("a.png", None, failed=failed)]).lost == ()


def test_one_answer_of_several_is_enough() -> None:
    """A part that came once is there, whatever another request for it met."""
    shown = [image("a.png", None, failed="net::ERR_FAILED"), image("a.png"), image("a.png", 404)]

    assert compare([image("a.png")], shown).lost == ()


def test_spellings_of_a_url_are_one_part() -> None:
    """Playback writes a URL in its own way; escapes do not make another part of it."""
    seen = [image("stra%c3%9fe.png?"), image("a.png")]
    shown = [image("stra%C3%9Fe.png", 404), image("a.png")]

    assert [each.reason for each in compare(seen, shown).lost] == ["status: 404"]


def test_a_tracking_pixel_weighs_next_to_nothing() -> None:
    """It is told, but no score falls by it."""
    pixel = PartRequest(f"{SITE}pixel.gif", "Image", 200, size=343)
    gone = PartRequest(f"{SITE}pixel.gif", "Image", 404)
    found = compare([pixel, sheet("a.css"), image("a.png")], [gone, sheet("a.css"), image("a.png")])

    assert len(found.lost) == 1
    assert found.score > 0.98


def test_two_hundred_tracking_pixels_weigh_no_more_than_a_picture() -> None:
    """A page with nothing else but its document and a style sheet is whole without them."""
    document = PartRequest(SITE, "Document", 200, initiator="other")
    pixels = [PartRequest(f"{SITE}{number}.gif", "Image", 200, size=900) for number in range(200)]
    gone = [replace(each, status=404) for each in pixels]
    found = compare([document, sheet("a.css"), *pixels], [document, sheet("a.css"), *gone])

    assert (len(found.lost), found.main) == (200, "")
    assert judge_copy(None, None, found).verdict is QaVerdict.GOOD


@pytest.mark.parametrize("lost", ["main.css", "large.png"])
def test_what_a_page_needs_is_told_however_much_else_is_there(lost: str) -> None:
    """A style sheet and a main picture; not a thumbnail among many, a short sheet, or what was not asked for."""
    rest = [replace(image(f"{number}.png"), size=4_000) for number in range(100)]
    seen = [sheet("main.css"), image("large.png"), replace(sheet("x.css"), size=300), *rest]

    def without(name: str) -> ResourceComparison:
        return compare(seen, [replace(each, status=404) if each.url.endswith(name) else each for each in seen])

    assert without(f"/{lost}").main == SITE + lost
    assert judge_copy(None, None, without(f"/{lost}")).verdict is QaVerdict.DOUBTFUL
    for name in ("/7.png", "/x.css"):
        assert judge_copy(None, None, without(name)).verdict is QaVerdict.GOOD
    assert compare(seen, [each for each in seen if not each.url.endswith(lost)]).main == ""


def test_parts_that_are_not_asked_for_are_missed_only_when_nearly_all_are() -> None:
    """Scripts take parts away for good reasons; a document without any of its pictures lost them."""
    seen = [image(f"{number}.png") for number in range(8)]

    assert compare(seen, seen[:2]).lost == ()
    assert {each.reason for each in compare(seen, seen[:1]).lost} == {"unasked"}
    assert compare(seen, []).score == 0
    assert compare(seen, [], "html").lost == ()
    assert compare(seen, [], "text").lost == ()
    assert [part.url for part in compare([sheet("a.css"), *seen], seen, "html").lost] == [sheet("a.css").url]


def test_what_a_script_loaded_need_not_be_asked_for_again() -> None:
    """Copies without scripts have no use for it."""
    loaded = PartRequest(f"{SITE}a.png", "Image", 200, initiator="script")
    icon = PartRequest(f"{SITE}favicon.ico", "Image", 200, initiator="other")

    assert compare([loaded, icon], []) == ResourceComparison(1.0, 0, 0, ())


def test_a_manifest_and_a_request_log_say_what_was_seen_and_shown() -> None:
    """What was asked for and not kept was not there; the address of playback is not compared."""
    kept = PageResource(f"{SITE}a.png", status=200, resource_type="Image", initiator="parser")
    gone = replace(kept, url=f"{SITE}b.png", kept="missing", reason="unrecorded")
    address = "http://127.0.0.1:1/c/20260101000000im_/"
    asked = [
        part_at_playback(url, RequestLog(address + url, status=404, resource_type="Image"))
        for url in (kept.url, gone.url)
    ]

    assert part_at_capture(gone).failed == "unrecorded"
    assert compare([part_at_capture(kept), part_at_capture(gone)], asked).lost == (LostPart(kept.url, "status: 404"),)


def test_a_sheet_that_makes_a_page_is_not_missed_when_the_page_is_made() -> None:
    """XSLT is a style sheet to the browser; the copy holds what came of it."""
    transform = PageResource(
        f"{SITE}a.xsl", status=200, resource_type="Stylesheet", mime="text/xsl+xml", initiator="parser"
    )

    assert compare([part_at_capture(transform)], []).lost == ()
