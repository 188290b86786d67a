"""What lets readers speak about links: `playback.front.saying` has the pages."""

from dataclasses import dataclass, field

from core.layout import Layout
from links.limits import Limits, limits_of
from links.replacements import Archives


@dataclass(frozen=True, slots=True)
class Voice:
    """What lets readers speak.

    Attributes:
        layout: the collection, which keeps the key of digests.
        limits: how often that may be.
        archives: takes addresses of archives; None: nobody does.
    """

    layout: Layout
    limits: Limits = field(default_factory=limits_of)
    archives: Archives | None = None
