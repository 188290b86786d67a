"""Comparison of two pictures of a page: share of the drawn content that is still there (docs/explanation/comparing.md).

Tiles are counted by their drawn content instead of pixels: a page is mostly background. Rows are aligned first, so that
an inserted banner costs no more than its own area.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from core.errors import PictureError
from core.playback_check import PlaybackFault, QaVerdict
from qa.compare import picture_tiles, tile_damage
from qa.compare.alignment import align_rows, take_aligned, take_aligned_grey
from qa.compare.damage_regions import DamageRegion, draw_heat_map, find_regions
from qa.compare.verdict_rules import judge_copy

_FULL_INK = 40  # of 255: the spread of a tile's brightness where it is full of text
_BLANK_INK = 6  # tiles full of text: less is not a page
_SOME_INK = 0.2  # of the ink that was seen: with more no page is blank
_NEAR_BLANK = 0.04  # of the ink that was seen


@dataclass(frozen=True, slots=True)
class PictureComparison:
    """Comparison of two pictures of a page; shares range from 0 to 1."""

    score: float = 1.0  # share of the drawn content that is unchanged; added content counts a quarter
    structure: float = 1.0  # mean structural similarity of content drawn in either; below 0 for inverted pictures
    same: float = 1.0  # share of the seen pixels that match after alignment
    lost: float = 0.0  # share of the content of `seen` that is not drawn in `shown`
    changed: float = 0.0  # share of the content of `seen` in whose place `shown` has other content
    added: float = 0.0  # share of the content of `shown` that is not drawn in `seen`
    covered: float = 0.0  # share of the content of `seen` covered by an overlay; part of the two above
    recoloured: float = 0.0  # share of the content of `seen` with the same lines in other colours; part of `changed`
    rewritten: float = 0.0  # share of the text in `seen` that has other text in its place
    moved: float = 0.0  # share of the rows with another position
    largest: float = 0.0  # size of the largest connected damaged region as a share of the page
    blank: bool = False  # True when `shown` has no content, or next to none of that of `seen`
    seen_blank: bool = False  # True when `seen` has no content
    size_seen: tuple[int, int] = (1280, 800)  # width and height in pixels
    size_shown: tuple[int, int] = (1280, 800)
    regions: tuple[DamageRegion, ...] = ()  # differing regions, the worst first; at most 50
    faults: tuple[PlaybackFault, ...] = ()  # faults that a picture alone shows
    verdict: QaVerdict = QaVerdict.UNCHECKED  # verdict by the picture alone
    heat: bytes | None = field(default=None, repr=False)  # the differences in colour, as PNG, where requested


def compare_pictures(
    seen: bytes, shown: bytes, *, heat: bool | Callable[[PictureComparison], bool] = False
) -> PictureComparison:
    """Compare two pictures; `heat` draws a heat map, or decides by the result whether to. Raises PictureError."""
    pixels = picture_tiles.decode_picture(seen), picture_tiles.decode_picture(shown)
    one, other = picture_tiles.fit_widths(*pixels)
    alignment = align_rows(one, other)
    greys = partial(take_aligned_grey, other, alignment)
    tiles = picture_tiles.measure_tiles(one.rows, partial(take_aligned, other, alignment))
    damage = tile_damage.classify_tiles(tiles, one, other)
    beside = tile_damage.find_shifted(one.rows.grey, greys, damage)
    damage = tile_damage.classify_tiles(tiles, one, other, beside)
    regions, largest, covered = find_regions(damage, tiles)
    put_in = tile_damage.added_weight(other, alignment)
    blank, seen_blank = _blanks(tiles, other)
    weight_seen = float(damage.weight_seen.sum())
    whole = float(damage.weight.sum()) + tile_damage.ADDED_WEIGHT * put_in
    shown_whole = float(damage.weight_shown.sum()) + put_in
    added = damage.weight_shown * (1 - damage.alike) * (damage.kinds == tile_damage.ADDED)
    drawn = (damage.weight_seen == 1) | (damage.weight_shown == 1)
    best = np.maximum(np.maximum(tiles.alike, beside), damage.alike)
    found_so_far = PictureComparison(
        score=round(float((damage.weight * damage.alike).sum()) / whole, 4),
        structure=round(float(best[drawn].mean()) if drawn.any() else 1.0, 4),
        same=round(1 - float(np.maximum(tiles.missed, tiles.hued).mean()), 4),
        lost=round(damage.share(tile_damage.LOST), 4),
        changed=round(damage.share(tile_damage.CHANGED, tile_damage.DIMMED), 4),
        added=round((float(added.sum()) + put_in) / shown_whole if shown_whole else 0.0, 4),
        covered=round(float(damage.weight_seen[covered].sum()) / max(weight_seen, 1.0), 4),
        recoloured=round(damage.within(tile_damage.find_recoloured(tiles, damage)), 4),
        rewritten=round(tile_damage.rewritten_share(one.rows.grey, tiles, damage), 4),
        moved=round(alignment.moved, 4),
        largest=round(largest, 4),
        blank=blank,
        seen_blank=seen_blank,
        size_seen=(pixels[0].shape[1], pixels[0].shape[0]),
        size_shown=(pixels[1].shape[1], pixels[1].shape[0]),
        regions=regions,
    )
    judgement = judge_copy(found_so_far)
    comparison = replace(found_so_far, verdict=judgement.verdict, faults=judgement.faults)
    if not (heat(comparison) if callable(heat) else heat):
        return comparison
    return replace(comparison, heat=draw_heat_map(one, greys, damage, regions, alignment))


def compare_if_readable(seen: bytes | None, shown: bytes | None, *, heat: bool = False) -> PictureComparison | None:
    """Compare two pictures; None when one is missing or unreadable."""
    if seen is None or shown is None:
        return None
    try:
        return compare_pictures(seen, shown, heat=heat)
    except PictureError:
        return None


def _blanks(tiles: picture_tiles.TileMetrics, shown: picture_tiles.TiledPicture) -> tuple[bool, bool]:
    """Return whether only the shown picture is blank, and whether the seen one is."""
    ink_seen = _ink(tiles.spread_seen, tiles.range_seen)
    if ink_seen < _BLANK_INK:
        return False, True
    little = max(_BLANK_INK, _NEAR_BLANK * ink_seen)
    if _ink(tiles.spread_shown, tiles.range_shown) >= max(little, _SOME_INK * ink_seen):
        return False, False
    # Inserted rows are in no tile, and tiles may cut a line: count it separately.
    own = picture_tiles.measure_tiles(shown.rows, shown.rows.part)
    return _ink(own.spread_shown, own.range_shown) < little, False


def _ink(spread: picture_tiles.Floats, span: picture_tiles.Floats) -> float:
    """Return the amount of content in full text tiles; a single line across or down counts 0."""
    drawn = span >= tile_damage.DRAWN
    if not drawn.any(axis=0).any() or min(drawn.any(axis=1).sum(), drawn.any(axis=0).sum()) <= 1:
        return 0.0
    return float(np.minimum(spread[drawn] / _FULL_INK, 1).sum())


_MUCH = 0.3
_SOME = 0.005


def describe_differences(comparison: PictureComparison) -> str:
    """Describe the differences, the worst first."""
    if comparison.seen_blank and comparison.score > 1 - _SOME:
        return "Both pictures are blank."
    if comparison.seen_blank:
        return "The first picture is blank, but the second is not."
    if comparison.blank:
        return "The second picture is blank."
    parts = []
    if comparison.covered > _SOME:
        parts.append((2.0, f"an overlay covers {comparison.covered:.0%} of the content"))
    other = "was replaced" if comparison.changed > _MUCH else "changed"
    for weight, share, words in (
        (1.0, comparison.lost, "{} of the content is missing"),
        (1.0, comparison.changed, f"{{}} of the content {other}"),
        (0.5, comparison.added, "{} of the second picture was added"),
        (0.01, comparison.moved, "{} of the rows moved"),
    ):
        if share > _SOME:
            percentage = f"{share:.0%}" if share >= 0.01 else f"{share:.1%}"
            parts.append((weight * share, words.format(percentage)))
    if not parts:
        return "No differences." if comparison.score == 1 else "Only minor differences."
    description = "; ".join(text for _, text in sorted(parts, key=lambda each: -each[0]))
    return f"{description[0].upper()}{description[1:]}."
