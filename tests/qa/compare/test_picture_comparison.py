"""Comparing two pictures of a page."""

import io
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFilter

from core.playback_check import PlaybackFault, QaVerdict
from qa.compare.damage_regions import MOST_REGIONS, RegionKind
from qa.compare.picture_comparison import PictureComparison, compare_pictures
from tests.support.drawing import LINE_PX, Pixels, banner, noisy, packed, page, photo, wall

pytestmark = pytest.mark.slow

PAGE = page(1)
OTHER = page(2, photos=2)
TALL = page(3, 2_600, photos=4)  # higher than what is aligned in low bands
WHITE = np.full_like(PAGE, 255)


def compared(seen: Pixels, shown: Pixels) -> PictureComparison:
    return compare_pictures(packed(seen), packed(shown))


@pytest.mark.parametrize("picture", [PAGE, TALL, WHITE, np.zeros_like(PAGE), photo(1, 300, 211)])
def test_a_picture_is_like_itself(picture: Pixels) -> None:
    """Every score is 1, and nothing differs."""
    likeness = compared(picture, picture)

    assert (likeness.score, likeness.structure, likeness.same) == (1, 1, 1)
    assert (likeness.lost, likeness.changed, likeness.added, likeness.covered, likeness.moved) == (0, 0, 0, 0, 0)
    assert (likeness.regions, likeness.faults, likeness.verdict) == ((), (), QaVerdict.GOOD)


@pytest.mark.parametrize(("kind", "quality"), [("JPEG", 60), ("JPEG", 85), ("WEBP", 60), ("WEBP", 85)])
def test_packing_a_picture_again_costs_nothing(kind: str, quality: int) -> None:
    """Noise that no reader sees is no difference."""
    comparison = compare_pictures(packed(PAGE), packed(PAGE, kind, quality=quality))

    assert comparison.score > 0.99
    assert comparison.verdict is QaVerdict.GOOD


def test_noise_costs_nothing() -> None:
    """A few brightness levels, on every pixel."""
    assert compared(PAGE, noisy(PAGE, 5)).score > 0.99


@pytest.mark.parametrize("moved", [(0, 1), (1, 0), (1, 1), (0, 5), (0, -7)])
def test_a_page_that_is_shifted_a_little_is_the_same_page(moved: tuple[int, int]) -> None:
    """A pixel down or some aside, as a scroll bar does."""
    comparison = compared(PAGE, np.roll(PAGE, moved, (0, 1)))

    assert comparison.score > 0.96
    assert comparison.verdict is QaVerdict.GOOD


def test_a_wider_page_is_the_same_page() -> None:
    """Five columns more, in the middle."""
    wider = np.concatenate([PAGE[:, :640], np.repeat(PAGE[:, 640:641], 5, 1), PAGE[:, 640:]], 1)

    assert compared(PAGE, wider).score > 0.96
    assert compared(wider, PAGE).score > 0.96


@pytest.mark.parametrize("picture", [PAGE, TALL])
def test_a_banner_costs_the_banner(picture: Pixels) -> None:
    """All that it pushed down is found again."""
    comparison = compared(picture, banner(picture))

    assert comparison.score > 0.97
    assert comparison.lost < 0.005
    assert comparison.changed < 0.005
    assert comparison.moved > 0.7
    assert comparison.verdict is QaVerdict.GOOD


def test_a_banner_that_is_gone_is_all_that_is_lost() -> None:
    """To the row, since what follows begins right below it."""
    comparison = compared(banner(PAGE), PAGE)
    box = comparison.regions[0]

    assert (box.x, box.y, box.w, box.h, len(comparison.regions)) == (0, 0, 1280, 80, 1)


def test_damage_with_a_gap_between_is_one_region() -> None:
    """Words of a line belong together, and things far apart do not."""
    holed = TALL.copy()
    holed[640:656, 320:336], holed[640:656, 352:368], holed[1200:1216, 320:336] = 0, 0, 0
    comparison = compared(TALL, holed)

    assert sorted((each.y, each.w) for each in comparison.regions) == [(640, 48), (1200, 16)]


def test_a_banner_in_a_noisy_picture_costs_the_banner() -> None:
    """When no two rows are equal, they are matched by their order of light and dark."""
    comparison = compared(PAGE, noisy(banner(PAGE), 5))

    assert comparison.score > 0.95
    assert comparison.moved > 0.9


def test_a_line_that_moved_one_column_leaves_the_other() -> None:
    """Strips are aligned by themselves."""
    moved = TALL.copy()
    moved[300 + LINE_PX :, 260:] = TALL[300:-LINE_PX, 260:]
    comparison = compared(TALL, moved)

    assert comparison.score > 0.97
    assert 0.5 < comparison.moved < 0.95


def test_several_insertions_are_all_found() -> None:
    """Each shifts what follows by more."""
    parts = [TALL[:700], photo(5, 1280, 40), TALL[700:1600], photo(6, 1280, 60), TALL[1600:]]
    comparison = compared(TALL, np.concatenate(parts))

    assert comparison.score > 0.95
    assert comparison.lost < 0.01


def test_parts_in_another_order_are_another_page() -> None:
    """Moved parts are found only as far as the order stays."""
    comparison = compared(TALL[:2000], np.concatenate([TALL[1000:2000], TALL[:1000]]))

    assert 0.3 < comparison.score < 0.75
    assert comparison.verdict is QaVerdict.BROKEN


def test_a_page_that_goes_on_keeps_its_beginning() -> None:
    """Content that was loaded later is added, not lost."""
    comparison = compared(TALL[:1300], TALL)

    assert comparison.lost == comparison.changed == 0
    assert comparison.added > 0.3


def test_a_page_that_is_cut_off_loses_its_end() -> None:
    """The same, turned round."""
    comparison = compared(TALL, TALL[:1300])

    assert 0.35 < comparison.lost < 0.65
    assert comparison.verdict is QaVerdict.BROKEN


@pytest.mark.parametrize("ground", [255, 20])
def test_a_blank_page_is_blank(ground: int) -> None:
    """White or dark, and though a white one shares most of its pixels with the page."""
    comparison = compared(PAGE, np.full_like(PAGE, ground))

    assert comparison.blank
    assert comparison.score < 0.25
    assert PlaybackFault.BLANK in comparison.faults
    assert comparison.verdict is QaVerdict.BROKEN


def test_a_page_with_a_line_only_is_blank() -> None:
    """A border is no content."""
    line = WHITE.copy()
    line[70:72] = 0

    assert compared(PAGE, line).blank


def test_a_blank_page_that_was_seen_is_not_missed() -> None:
    """Nobody is shown less than nothing."""
    comparison = compared(WHITE, WHITE)

    assert comparison.seen_blank
    assert not comparison.blank
    assert comparison.verdict is QaVerdict.GOOD


@pytest.mark.parametrize("shown", [255 - WHITE // 2, PAGE], ids=["another colour", "a page"])
def test_what_was_blank_and_is_another_picture_is_doubtful(shown: Pixels) -> None:
    """Nothing of it can be lost, and yet it is not what was kept."""
    comparison = compared(WHITE, shown)

    assert comparison.seen_blank
    assert comparison.verdict is QaVerdict.DOUBTFUL


def test_missing_pictures_are_lost() -> None:
    """Drawn where it was seen, flat where it is shown; the page around them is fine."""
    gone = PAGE.copy()
    gone[180:640, 280:720] = 255
    comparison = compared(PAGE, gone)

    assert comparison.lost > 0.1
    assert comparison.changed < 0.02
    assert comparison.regions[0].kind is RegionKind.LOST
    assert comparison.verdict is not QaVerdict.GOOD


def test_a_picture_in_place_of_another_is_a_bounded_change() -> None:
    """As of an advertisement: in one region, and nothing is lost."""
    swapped = TALL.copy()
    swapped[200:450, 900:1200] = photo(99, 300, 250)
    before = TALL.copy()
    before[200:450, 900:1200] = photo(98, 300, 250)
    comparison = compared(before, swapped)

    assert comparison.changed > 0.003
    assert comparison.lost < 0.002
    assert comparison.verdict is QaVerdict.GOOD
    box = comparison.regions[0]
    assert (box.kind, len(comparison.regions)) == (RegionKind.CHANGED, 1)
    assert box.x in range(880, 913)
    assert box.y in range(180, 217)


def test_another_page_is_another() -> None:
    """Though both are mostly white."""
    comparison = compared(PAGE, OTHER)

    assert comparison.same > 0.5
    assert comparison.score < 0.5
    assert comparison.verdict is QaVerdict.BROKEN


def test_a_dark_twin_is_not_alike() -> None:
    """Every colour turned round."""
    comparison = compared(PAGE, 255 - PAGE)

    assert comparison.score < 0.2
    assert comparison.largest > 0.9


def test_a_wall_before_the_page_covers_it() -> None:
    """Dimmed and hidden parts both count."""
    comparison = compared(PAGE, wall(PAGE))

    assert comparison.covered > 0.5
    assert PlaybackFault.COVERED in comparison.faults
    assert comparison.regions[0].kind is RegionKind.COVERED


def test_a_picture_that_lost_its_colours_has_changed() -> None:
    """Colour counts where brightness is the same."""
    grey = np.asarray(Image.fromarray(PAGE).convert("L").convert("RGB"))

    comparison = compared(PAGE, grey)

    assert comparison.score < 0.9
    assert comparison.changed > 0.1


def test_a_blurred_page_is_not_sharp() -> None:
    """Words that cannot be read are gone."""
    blurred = np.asarray(Image.fromarray(PAGE).filter(ImageFilter.GaussianBlur(3)))

    comparison = compared(PAGE, blurred)

    assert comparison.score < 0.75
    assert comparison.verdict is not QaVerdict.GOOD


def test_more_pixels_to_a_css_pixel_are_the_same_page() -> None:
    """A picture twice as wide and high is scaled down."""
    twice = np.asarray(Image.fromarray(PAGE).resize((2560, 1600)))

    assert compared(PAGE, twice).score > 0.98
    assert compared(twice, PAGE).score > 0.98


def test_a_gradient_is_ground() -> None:
    """It is nowhere drawn, and its own noise does not matter."""
    slope = np.linspace(255, 200, 800).astype(np.uint8)
    ground = np.repeat(np.repeat(slope[:, None, None], 1280, 1), 3, 2)
    drawn = np.minimum(PAGE, ground)

    assert compared(drawn, noisy(drawn, 3)).score > 0.99
    assert compared(drawn, ground).score < 0.35


@pytest.mark.parametrize("one", [(1, 1), (1, 700), (900, 1), (17, 33), (1280, 801)])
@pytest.mark.parametrize("other", [(1, 1), (16, 16), (700, 1), (1279, 5)])
def test_any_two_sizes_can_be_compared(one: tuple[int, int], other: tuple[int, int]) -> None:
    """Also where they share a single pixel."""
    first = Image.new("RGB", one, "navy")
    second = Image.new("RGB", other, "white")
    comparison = compared(np.asarray(first), np.asarray(second))

    assert (comparison.size_seen, comparison.size_shown) == (one, other)
    assert 0 <= comparison.score <= 1


def test_larger_damage_never_scores_better() -> None:
    """Of holes that grow each costs more than the one before."""
    scores = []
    for size in range(0, 600, 100):
        holed = PAGE.copy()
        holed[100 : 100 + size, 280 : 280 + size] = 255
        scores.append(compared(PAGE, holed).score)

    assert scores == sorted(scores, reverse=True)
    assert scores[0] == 1
    assert scores[-1] < 0.7


def test_a_heat_map_is_a_small_picture_of_the_page() -> None:
    """As wide as the page at most, and lower than a tall one."""
    comparison = compare_pictures(packed(np.full((5_000, 640, 3), 255, np.uint8)), packed(WHITE), heat=True)
    assert comparison.heat is not None
    with Image.open(io.BytesIO(comparison.heat)) as heat:
        assert heat.format == "PNG"
        assert heat.width <= 640
        assert heat.height <= 4000
        assert abs(heat.width / heat.height - 640 / 5000) < 0.01
    assert compared(PAGE, PAGE).heat is None


def test_a_heat_map_is_red_where_something_is_lost() -> None:
    """And without colour where nothing happened."""
    gone = PAGE.copy()
    gone[400:, 280:] = 255
    comparison = compare_pictures(packed(PAGE), packed(gone), heat=True)
    assert comparison.heat is not None
    heat = np.asarray(Image.open(io.BytesIO(comparison.heat)).convert("RGB")).astype(int)
    redness = heat[..., 0] - heat[..., 2]

    assert (redness[420:780, 300:700] > 40).mean() > 0.5
    assert not (redness[80:380] > 40).any()


def test_whoever_sees_what_was_found_may_say_whether_to_draw() -> None:
    """A function that is given the comparison, verdict and all, decides."""
    shown: list[PictureComparison] = []

    def is_broken(comparison: PictureComparison) -> bool:
        shown.append(comparison)
        return comparison.verdict is QaVerdict.BROKEN

    drawn, left = (compare_pictures(packed(PAGE), packed(each), heat=is_broken) for each in (WHITE, PAGE))
    assert shown[0] == replace(drawn, heat=None)
    assert drawn.heat == compare_pictures(packed(PAGE), packed(WHITE), heat=True).heat
    assert left.heat is None


_BLOCKS = st.lists(st.integers(0, 5), min_size=1, max_size=6)
_DRAWN = [photo(seed, 320, 48) for seed in range(6)]


def _stacked(blocks: list[int]) -> Pixels:
    gap = np.full((20, 320, 3), 255, np.uint8)
    return np.concatenate([part for block in blocks for part in (gap, _DRAWN[block])])


@given(_BLOCKS, _BLOCKS)
@settings(max_examples=15)
def test_figures_are_shares_and_boxes_lie_on_the_page(one: list[int], other: list[int]) -> None:
    """Whatever was drawn; and nothing but the same picture is the same."""
    seen = _stacked(one)
    comparison = compared(seen, _stacked(other))
    shares = (comparison.score, comparison.same, comparison.lost, comparison.changed, comparison.added)

    assert all(0 <= share <= 1 for share in (*shares, comparison.covered, comparison.moved))
    assert len(comparison.regions) <= MOST_REGIONS
    for box in comparison.regions:
        assert 0 <= box.x < box.x + box.w <= 320
        assert 0 <= box.y < box.y + box.h < len(seen) + 16
    assert (one == other) == (comparison.score == 1)


@given(st.integers(0, 1 << 30))
@settings(max_examples=6)
def test_what_was_put_in_is_found_wherever_it_is(seed: int) -> None:
    """Of blocks that stay in order none is lost; turned round, what was added is lost."""
    chosen = random.Random(seed)
    blocks = chosen.sample(range(5), 4)
    more = blocks.copy()
    more.insert(chosen.randrange(5), 5)
    comparison = compared(_stacked(blocks), _stacked(more))

    assert comparison.lost + comparison.changed < 0.02
    assert comparison.added > 0.1
    assert compared(_stacked(more), _stacked(blocks)).lost == pytest.approx(comparison.added, abs=0.05)
