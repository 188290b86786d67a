"""Plan of the pairs of each held-out page, and the labels that differ from their kind's."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.support.heldout import reading, tools
from tests.support.heldout.kinds import LABELS, PairLabel
from tests.support.heldout.saying import SeededText

# The languages of a page: its own, and the one that `language` shows in its stead.
_PLAN = """
courier     en de  identical banner-80 wall-dim hero-gone ad-other clock lazy language
gazette     en fr  wall teaser half comments-gone frame-gone=either hero-gone
handbook    en de  banner-60 side-gone sheet-gone error shift-1 overlapped
nocturne    de en  banner-150 other-page font-gone icon-gone garbled=either colours-gone
permit      en fr  identical cookies language blank wider-5 other-page
kitchen     en de  ad-gone hero-gone comments-gone repacked icons-boxed teaser
lexicon     fr en  identical infobox-gone language sheet-gone side-gone banner-80
report      en de  other-page half blank shift-1 spinner
diwan       ar en  identical garbled hero-gone ad-other half banner-60
agora       el en  garbled lazy language clock repacked
chronicle   en de  banner-80 half other-page wall-dim
bare        en de  identical blank banner-60 other-page shift-1
shot        en en  hero-gone repacked other-page banner-60
pocket      en de  ad-other half hero-gone cookies wall
plan        en de  frame-gone cookies other-page wider-5 banner-80
bazaar      en fr  slide lazy icons-boxed skeleton wall-dim other-page narrow
gauges      en de  chart-gone rows-gone clock=either dark skeleton side-gone
board       en de  comments-gone=broken ad-size ad-gone other-page wall
thumbs      en en  identical lazy pictures-gone repacked other-page banner-150
launch      en de  hero-gone icon-gone cookies font-gone spinner wall sheet-gone
theatre     en de  slide other-page banner-60 language
code        en de  rows-gone icons-boxed clock other-page narrow
screen      en fr  frame-gone comments-gone clock skeleton dark pictures-gone=either
talk        en fr  identical half other-page blank dark
entry       en de  sheet-gone language other-site error cookies logo-gone
results     en fr  other-page ad-gone clock error nearly-blank
departures  en de  identical rows-gone other-page banner-60 half
weather     en fr  chart-gone clock=either icons-boxed spinner shift-1
"""


@dataclass(frozen=True, slots=True)
class PlannedPair:
    """A pair that is to be made.

    Attributes:
        site: the page's design.
        kind: what is done to the page.
        label: what is right to say of it.
        language: the page's own.
        other: another one.
    """

    site: str
    kind: str
    label: PairLabel
    language: str
    other: str


def planned() -> Iterator[PlannedPair]:
    """Yield all planned pairs, in order."""
    for line in _PLAN.strip().splitlines():
        site, language, other, *kinds = line.split()
        for each in kinds:
            kind, _, label = each.partition("=")
            yield PlannedPair(site, kind, PairLabel(label) if label else LABELS[kind], language, other)


def body(site: str, seed: int, language: str) -> str:
    """Return the markup of a page of a design; another seed is another page of the same site."""
    design: Callable[[SeededText], str] = getattr(tools if hasattr(tools, site) else reading, site)
    return design(SeededText(f"{site} {seed}", language))
