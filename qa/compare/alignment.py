"""Alignment of the rows of two page pictures, strip by strip.

A row of a strip is identified by a hash of its pixels and of the rows below it. A hash that occurs exactly once in each
picture is an anchor, and votes for its offset. Noisy pictures have no equal rows; for them the peaks of a phase
correlation are used. The time is bounded by the size of the pictures.

An inserted banner or line shifts everything below it in its column. So the page is cut into strips from top to bottom,
and each strip into bands of a few rows; each band takes the best of the likely offsets, and a change of offset has a
cost (a shortest path, found by dynamic programming).
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from qa.compare.picture_tiles import TILE_PX, Floats, Grey, PictureRows, TiledPicture

MOST_OFFSETS = 12
ROWS_TOGETHER = 12  # less than a line of text: with it rows are nearly always unique
_FEW_VOTES = 6
_MOST_OF_A_STRIP = 6
_PEAKS = 4
_ANCHORED = 0.3  # share of the rows that differ; when as many vote, no peaks are looked for
_MUCH = 0.1  # share of the rows that must differ for that
_CORRELATED_COLUMNS = 16
_SEED = 9

Hashes = NDArray[np.uint64]


def find_offsets(seen: Grey, shown: Grey, bounds: list[int]) -> list[int]:
    """Return candidate offsets, 0 first: row `y` of `seen` may be row ``y + offset`` of `shown`."""
    one, other = row_hashes(seen, bounds), row_hashes(shown, bounds)
    # The rows of the first, by strips, that the second lacks at the same place.
    apart = np.ones(one.shape, np.bool_)
    both = min(len(one), len(other))
    apart[:both] = one[:both] != other[:both]
    if not apart.any():
        return [0]
    votes: dict[int, int] = {}
    anchored = 0
    for strip in np.flatnonzero(apart.any(0)).tolist():
        first, where_first = _unique(one[:, strip])
        voting = apart[where_first, strip]
        second, where_second = _unique(other[:, strip])
        _, left, right = np.intersect1d(first[voting], second, assume_unique=True, return_indices=True)
        shifts = where_second[right] - where_first[voting][left]
        offsets, counts = np.unique(shifts, return_counts=True)
        for at in np.argsort(-counts, kind="stable")[:_MOST_OF_A_STRIP].tolist():
            offset, count = int(offsets[at]), int(counts[at])
            if count >= _FEW_VOTES:
                anchored += count
                votes[offset] = votes.get(offset, 0) + count
    best = sorted(votes, key=lambda offset: (-votes[offset], abs(offset), offset))
    likely = [0, *(offset for offset in best if offset != 0)]
    if anchored < _ANCHORED * apart.sum() and apart.mean() > _MUCH:
        peaks = _peaks(seen, shown)
        likely = [*likely[: MOST_OFFSETS - len(peaks)], *peaks]
    return list(dict.fromkeys(likely))[:MOST_OFFSETS]


def row_hashes(grey: Grey, bounds: list[int]) -> Hashes:
    """Hash each row of each strip together with the rows below it."""
    words = np.ascontiguousarray(grey).view(np.uint64)
    random = np.random.default_rng(_SEED)
    factors = random.integers(1, 1 << 63, words.shape[1], dtype=np.uint64) | np.uint64(1)
    single = np.add.reduceat(words * factors, [bound // 8 for bound in bounds], axis=1)
    single ^= single >> np.uint64(29)
    mixed = np.zeros_like(single)
    for step in range(min(ROWS_TOGETHER, len(single))):
        factor = np.uint64((0x9E3779B97F4A7C15 * (2 * step + 1)) % (1 << 64))
        mixed[: len(single) - step] += single[step:] * factor
    return mixed


def _unique(hashes: Hashes) -> tuple[Hashes, NDArray[np.intp]]:
    order = np.argsort(hashes)
    sorted_ = hashes[order]
    differs = np.ones(len(sorted_) + 1, np.bool_)
    differs[1:-1] = sorted_[1:] != sorted_[:-1]
    once = differs[1:] & differs[:-1]
    return sorted_[once], order[once]


def _peaks(seen: Grey, shown: Grey) -> list[int]:
    """Return the offsets at which most of the page has the same sequence of light and dark."""
    one, other = _brightness_steps(seen), _brightness_steps(shown)
    length = 1 << (len(one) + len(other) - 1).bit_length()
    spectrum = np.conj(np.fft.rfft(one, length, axis=0)) * np.fft.rfft(other, length, axis=0)
    spectrum /= np.maximum(np.abs(spectrum), 1e-3)
    strength = np.fft.irfft(spectrum.sum(1), length)
    offsets = []
    for _ in range(_PEAKS):
        at = int(np.argmax(strength))
        offsets.append(at if at < len(other) else at - length)
        strength[max(at - 2, 0) : at + 3] = -np.inf
    return [offset for offset in offsets if -len(one) < offset < len(other)]


def _brightness_steps(grey: Grey) -> Floats:
    """Return the increase of brightness from each row to the next, in some columns."""
    width = max(8, grey.shape[1] // _CORRELATED_COLUMNS)
    cut = grey[:, : grey.shape[1] // width * width]
    means = cut.reshape(len(grey), -1, width).mean(2, dtype=np.float32)
    steps: Floats = np.diff(means, axis=0, prepend=means[:1])
    return steps


_BAND_PX = 8
_TALL_BAND_PX = 16  # of pictures that are higher than `_TALL_PX`
_TALL_PX = 2_500
_FAR = 40  # of 255: profiles that far apart are as unlike as can be
_FULL = 0.25  # share of a band's tiles that need be as unlike as can be, for all of it to be so
_CHANGE = 1.2  # cost of a change of offset, in units of bands without any match
_AWAY = 0.01  # cost of a band at another position
_FITS = 0.25  # a band that costs less is found again
_FEW_BANDS = 3  # that an offset must improve to be accepted
_MOST_REFINED = 300  # changes of offset that are refined to a row

Places = NDArray[np.int32]


def find_moves(seen: Grey, shown: Grey, likely: list[int], bounds: list[int]) -> tuple[Places, Floats]:
    """Return the offset of each row of `seen`, one of `likely`, and its misfit there, 0 to 1: strips by rows."""
    band = _BAND_PX if len(seen) <= _TALL_PX else _TALL_BAND_PX
    # Horizontal means of a tile's width in each row.
    first, second = (np.asarray(Image.fromarray(grey).reduce((TILE_PX, 1))) for grey in (seen, shown))
    profiles = first, second
    parts = [bound // TILE_PX for bound in bounds]
    costs = np.stack([_costs(*profiles, offset, parts, band) for offset in likely])
    # Which offsets fit some bands that do not fit where they were; the first always.
    mended = ((costs < _FITS) & (costs[0] > 2 * _FITS)).sum((1, 2))
    helps: NDArray[np.bool_] = mended >= _FEW_BANDS
    helps[0] = True
    offsets = np.array(likely, np.int32)[helps]
    chosen = _cheapest(costs[helps])
    fits = np.take_along_axis(costs[helps], chosen[None], 0)[0]
    moves = np.repeat(offsets[chosen], band, axis=0)[: len(seen)]
    if len(offsets) > 1:
        _refine(moves, profiles, parts, band)
    return moves.T, np.repeat(fits, band, axis=0)[: len(seen)].T


def _costs(seen: Grey, shown: Grey, offset: int, parts: list[int], band: int) -> Floats:
    """Return the misfit of each band of each strip at an offset, 0 to 1."""
    bands = -(-len(seen) // band)
    apart = np.full((bands * band, seen.shape[1]), np.uint8(_FAR))
    apart[len(seen) :] = 0
    top, end = max(0, -offset), min(len(seen), len(shown) - offset)
    if end > top:
        apart[top:end] = _apart(seen[top:end], shown[top + offset : end + offset])
    by_band = apart.reshape(bands, band, -1).sum(1, dtype=np.uint16).astype(np.float32)
    misfits = np.add.reduceat(by_band, parts, axis=1)
    columns = np.diff([*parts, seen.shape[1]])
    # A strip is mostly ground: what fits badly fits badly where something is drawn.
    misfits /= (columns * (band * _FAR * _FULL)).astype(np.float32)
    costs: Floats = np.minimum(misfits, 1, out=misfits) + np.float32(_AWAY if offset else 0)
    return costs


def _apart(one: Grey, other: Grey) -> Grey:
    apart: Grey = np.minimum(np.maximum(one, other) - np.minimum(one, other), np.uint8(_FAR))
    return apart


def _cheapest(costs: Floats) -> NDArray[np.intp]:
    """Return the index of the offset on the cheapest path, for each band and strip."""
    count, bands, strips = costs.shape
    chosen = np.zeros((bands, strips), np.intp)
    if count == 1:
        return chosen
    own, each = np.arange(count)[:, None], np.arange(strips)
    total = costs[:, 0]
    came = np.empty((bands, count, strips), np.int8)
    for band in range(1, bands):
        best = total.argmin(0)
        changed = total[best, each] + np.float32(_CHANGE)
        came[band] = np.where(total <= changed, own, best)
        total = np.minimum(total, changed) + costs[:, band]
    chosen[-1] = total.argmin(0)
    for band in range(bands - 1, 0, -1):
        chosen[band - 1] = came[band, chosen[band], each]
    return chosen


def _refine(moves: Places, profiles: tuple[Grey, Grey], parts: list[int], band: int) -> None:
    """Move each change of offset to the best row within the two adjacent bands."""
    rows, strips = np.nonzero(moves[1:] != moves[:-1])
    seen, shown = profiles
    edges = [*parts, seen.shape[1]]
    for last, strip in zip(rows[:_MOST_REFINED].tolist(), strips[:_MOST_REFINED].tolist(), strict=True):
        first, end = max(last + 1 - band, 0), min(last + 1 + band, len(moves))
        columns = slice(edges[strip], edges[strip + 1])
        before, after = int(moves[last, strip]), int(moves[last + 1, strip])
        here = np.arange(first, end)
        worst = _FAR * (columns.stop - columns.start)
        apart = []
        for offset in (before, after):
            shown_rows = here + offset
            known = (shown_rows >= 0) & (shown_rows < len(shown))
            differ = _apart(seen[here, columns], shown[np.clip(shown_rows, 0, len(shown) - 1), columns])
            apart.append(np.where(known, differ.sum(1, dtype=np.int64), worst))
        # Before a split at k the rows cost what they do at the one offset, from it on at the other.
        splits = np.concatenate(([0], np.cumsum(apart[0] - apart[1])))
        split = first + int(splits.argmin())
        moves[first:split, strip] = before
        moves[split:end, strip] = after


STRIP_TILES = 10
_MOST_PARTS = 500  # rows of a strip that are aligned; longer strips are not


@dataclass(frozen=True, slots=True)
class RowAlignment:
    """Assignment of rows between two pictures."""

    rows: Places  # for each strip and row of the seen picture its row in the shown one; -1: none
    free: NDArray[np.bool_]  # for each strip and row of the shown picture, True when no row of the seen one claims it
    bounds: tuple[int, ...]  # left edges of the strips in pixels, and the right edge of the last
    moved: float  # share of the rows with another position


def align_rows(seen: TiledPicture, shown: TiledPicture) -> RowAlignment:
    """Align the rows of `seen` and `shown`, which must be equally wide."""
    width = seen.rows.grey.shape[1]
    edges = [*range(0, width, STRIP_TILES * TILE_PX), width]
    one, other = seen.rows.grey[: seen.height], shown.rows.grey[: shown.height]
    likely = find_offsets(one, other, edges[:-1])
    if len(likely) == 1:
        rows = np.tile(np.arange(seen.height, dtype=np.int32), (len(edges) - 1, 1))
        rows[:, shown.height :] = -1
    else:
        moves = find_moves(one, other, likely, edges[:-1])
        rows = np.stack([_claim_rows(*strip, shown.height) for strip in zip(*moves, strict=True)])
    return _fill_gaps(rows, shown.height, tuple(edges))


def _claim_rows(moves: Places, fits: Floats, height: int) -> Places:
    """Assign the rows of a strip by their offsets; a row claimed twice goes to the better match."""
    own = np.arange(len(moves), dtype=np.int32)
    rows = own + moves
    rows[(rows < 0) | (rows >= height)] = -1
    order = np.argsort(-fits, kind="stable").astype(np.int32)
    order = order[rows[order] >= 0]
    owner = np.full(height, -1, np.int32)
    owner[rows[order]] = order
    rows[(rows >= 0) & (owner[rows] != own)] = -1
    # The rows without those that would change the order: as many remain as can.
    # Runs of rows consecutive in both pictures: (first, end, first shown row).
    none = rows < 0
    parted = ((np.diff(rows) != 1) | none[:-1]) & ~(none[:-1] & none[1:])
    breaks = [0, *(np.flatnonzero(parted) + 1).tolist(), len(rows)]
    parts = [(first, end, int(rows[first])) for first, end in pairwise(breaks) if first < end and rows[first] >= 0]
    if len(parts) > _MOST_PARTS:
        return rows
    sources = np.array([source for _, _, source in parts])
    lengths = np.array([end - first for first, end, _ in parts])
    most = lengths.copy()
    before = np.full(len(parts), -1)
    for at in range(1, len(parts)):
        fits = np.where(sources[:at] + lengths[:at] <= sources[at], most[:at], 0)
        best = int(fits.argmax())
        if fits[best]:
            most[at], before[at] = most[at] + fits[best], best
    ordered = np.full_like(rows, -1)
    at = int(most.argmax()) if parts else -1
    while at >= 0:
        first, end, _ = parts[at]
        ordered[first:end] = rows[first:end]
        at = int(before[at])
    return ordered


def _fill_gaps(rows: Places, height: int, edges: tuple[int, ...]) -> RowAlignment:
    """Assign unmatched rows to the free rows between their neighbours, as drawn in their place."""
    free = np.ones((len(rows), height), np.bool_)
    for strip, own in enumerate(rows):
        free[strip, own[own >= 0]] = False
        none = np.concatenate(([False], own < 0, [False]))
        edges_of_gaps = np.flatnonzero(none[1:] != none[:-1]).tolist()
        for first, end in zip(edges_of_gaps[::2], edges_of_gaps[1::2], strict=True):
            start = int(own[first - 1]) + 1 if first else 0
            room = free[strip, start : start + end - first]
            count = len(room) if room.all() else int(room.argmin())
            own[first : first + count] = np.arange(start, start + count)
            free[strip, start : start + count] = False
    elsewhere = rows != np.arange(rows.shape[1], dtype=np.int32)
    return RowAlignment(rows, free, edges, float((elsewhere & (rows >= 0)).mean()))


def take_aligned(shown: TiledPicture, alignment: RowAlignment, first: int, end: int) -> PictureRows:
    """Return the shown rows for a range of seen rows; background where there are none."""
    grey = take_aligned_grey(shown, alignment, first, end)
    return PictureRows(grey, _taken(shown.rows.pixels, shown.ground, alignment, first, end))


def take_aligned_grey(shown: TiledPicture, alignment: RowAlignment, first: int, end: int) -> Grey:
    """Return the brightness of the shown rows for a range of seen rows."""
    return _taken(shown.rows.grey, shown.bright, alignment, first, end)


def _taken(
    plane: NDArray[np.uint8], ground: int | tuple[int, int, int], alignment: RowAlignment, first: int, end: int
) -> NDArray[np.uint8]:
    places = alignment.rows[:, first:end]
    count = places.shape[1]
    start = int(places[0, 0]) if places.size else -1
    if start >= 0 and count == end - first and (places == np.arange(start, start + count)).all():
        return plane[start : start + count]
    aligned = np.empty((end - first, *plane.shape[1:]), np.uint8)
    aligned[count:] = ground
    for strip, rows in enumerate(places):
        part = aligned[:count, alignment.bounds[strip] : alignment.bounds[strip + 1]]
        part[...] = plane[rows, alignment.bounds[strip] : alignment.bounds[strip + 1]]
        none = rows < 0
        if none.any():
            part[none] = ground
    return aligned
