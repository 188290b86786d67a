"""By how many rows parts of a page may have moved: offsets that rows found again vote for.

A row of a strip is known by a hash of its pixels and of the rows below it. What occurs exactly once in
each picture is an anchor, and votes for its offset. Pictures that are noisy have no equal rows; there
the peaks of a phase correlation stand in. All of it is sorting, counting and transforming: no picture
takes longer than its size.
"""

import numpy as np
from numpy.typing import NDArray

from render.compare.sheets import Flags, Floats, Grey

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


def offsets(seen: Grey, shown: Grey, bounds: list[int]) -> list[int]:
    """Offsets worth trying, 0 first: a row `y` of `seen` may be row ``y + offset`` of `shown`.

    `bounds` are the left edges of the strips in pixels.
    """
    one, other = row_hashes(seen, bounds), row_hashes(shown, bounds)
    apart = _in_place(one, other)
    if not apart.any():
        return [0]
    votes: dict[int, int] = {}
    anchored = 0
    for strip in np.flatnonzero(apart.any(0)).tolist():
        found = _votes(one[:, strip], other[:, strip], apart[:, strip])
        anchored += sum(found.values())
        for offset, count in found.items():
            votes[offset] = votes.get(offset, 0) + count
    best = sorted(votes, key=lambda offset: (-votes[offset], abs(offset), offset))
    likely = [0, *(offset for offset in best if offset != 0)]
    if anchored < _ANCHORED * apart.sum() and apart.mean() > _MUCH:
        peaks = _peaks(seen, shown)
        likely = [*likely[: MOST_OFFSETS - len(peaks)], *peaks]
    return list(dict.fromkeys(likely))[:MOST_OFFSETS]


def row_hashes(grey: Grey, bounds: list[int]) -> Hashes:
    """A number for each row of each strip, from the row and those below it."""
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


def _in_place(one: Hashes, other: Hashes) -> Flags:
    """Which rows of the first are not in the second at their place, by strips."""
    apart = np.ones(one.shape, np.bool_)
    both = min(len(one), len(other))
    apart[:both] = one[:both] != other[:both]
    return apart


def _votes(one: Hashes, other: Hashes, voting: Flags) -> dict[int, int]:
    first, where_first = _unique(one)
    first, where_first = first[voting[where_first]], where_first[voting[where_first]]
    second, where_second = _unique(other)
    _, left, right = np.intersect1d(first, second, assume_unique=True, return_indices=True)
    found, counts = np.unique(where_second[right] - where_first[left], return_counts=True)
    order = np.argsort(-counts, kind="stable")[:_MOST_OF_A_STRIP]
    return {int(found[at]): int(counts[at]) for at in order if counts[at] >= _FEW_VOTES}


def _unique(hashes: Hashes) -> tuple[Hashes, NDArray[np.intp]]:
    """What occurs once, and where."""
    order = np.argsort(hashes)
    sorted_ = hashes[order]
    differs = np.ones(len(sorted_) + 1, np.bool_)
    differs[1:-1] = sorted_[1:] != sorted_[:-1]
    once = differs[1:] & differs[:-1]
    return sorted_[once], order[once]


def _peaks(seen: Grey, shown: Grey) -> list[int]:
    """The offsets at which most of the page stands in the same order of light and dark."""
    one, other = _profile(seen), _profile(shown)
    length = 1 << (len(one) + len(other) - 1).bit_length()
    spectrum = np.conj(np.fft.rfft(one, length, axis=0)) * np.fft.rfft(other, length, axis=0)
    spectrum /= np.maximum(np.abs(spectrum), 1e-3)
    strength = np.fft.irfft(spectrum.sum(1), length)
    found = []
    for _ in range(_PEAKS):
        at = int(np.argmax(strength))
        found.append(at if at < len(other) else at - length)
        strength[max(at - 2, 0) : at + 3] = -np.inf
    return [offset for offset in found if -len(one) < offset < len(other)]


def _profile(grey: Grey) -> Floats:
    """How much brighter each row is than that above, in some columns."""
    width = max(8, grey.shape[1] // _CORRELATED_COLUMNS)
    cut = grey[:, : grey.shape[1] // width * width]
    means = cut.reshape(len(grey), -1, width).mean(2, dtype=np.float32)
    found: Floats = np.diff(means, axis=0, prepend=means[:1])
    return found
