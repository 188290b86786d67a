"""Kinds of differences between two pictures of a held-out page, and their right verdicts.

The question is: would a reader of this copy be told something else, or miss something that the page
was kept for? The labels were given by that question before anything was compared. What a label says of
a kind holds unless `tests.support.heldout.plan` gives another to a pair, since of one page the comments are an
appendix and of another its matter.
"""

from enum import StrEnum


class PairLabel(StrEnum):
    """Right verdict on a pair."""

    GOOD = "good"  # nothing that matters differs
    # Something beside the matter is missing or looks otherwise: a person may be asked to look, and good is
    # right, too. It is wrong to call it broken.
    EITHER = "either"
    BROKEN = "broken"


G, E, B = PairLabel.GOOD, PairLabel.EITHER, PairLabel.BROKEN
LABELS = {
    "identical": G,
    "banner-60": G,
    "banner-80": G,
    "banner-150": G,
    "cookies": G,
    "ad-other": G,
    "ad-gone": G,
    "ad-size": G,
    "slide": G,
    "clock": G,
    "shift-1": G,
    "wider-5": G,
    "repacked": G,
    "font-gone": E,
    "logo-gone": E,
    "icon-gone": E,
    "icons-boxed": E,
    "side-gone": E,
    "comments-gone": E,
    "dark": E,
    "narrow": E,
    "colours-gone": E,
    "wall-dim": B,
    "wall": B,
    "hero-gone": B,
    "pictures-gone": B,
    "lazy": B,
    "sheet-gone": B,
    "blank": B,
    "nearly-blank": B,
    "other-page": B,
    "other-site": B,
    "error": B,
    "language": B,
    "half": B,
    "teaser": B,
    "frame-gone": B,
    "infobox-gone": B,
    "rows-gone": B,
    "chart-gone": B,
    "garbled": B,
    "overlapped": B,
    "skeleton": B,
    "spinner": B,
}
