"""What an upgrade changed, as one HTML page: before, after, and where they differ."""

from collections.abc import Sequence

from crawler.cli.qa.standalone import embedded, standalone
from crawler.quality.baselines import AFTER, BEFORE, Baseline, Header
from crawler.quality.regressing import Course, Regression, counted, regression

_MOST_PICTURED = 40  # so the page stays small enough to be opened
_MOST_LISTED = 500


def report_of(baseline: Baseline, header: Header, engine: str, found: Sequence[Regression]) -> str:
    """The page.

    Args:
        baseline: whose.
        header: what it is of.
        engine: who plays back now.
        found: of each page, the worst first.
    """
    differing = [each for each in found if each.course is not Course.UNCHANGED]
    return standalone(
        "baseline.html",
        header=header,
        engine=engine,
        counts={str(course): count for course, count in counted(found).items()},
        pictured=[_pictured(baseline, each) for each in differing[:_MOST_PICTURED]],
        listed=differing[_MOST_PICTURED:_MOST_LISTED],
        left=max(0, len(differing) - _MOST_LISTED),
    )


def _pictured(baseline: Baseline, found: Regression) -> tuple[Regression, list[tuple[str, str]]]:
    before, after = baseline.shown(BEFORE, found.before), baseline.shown(AFTER, found.after)
    drawn = regression(before, after, heat=True).picture
    pictures = (
        ("Before", before.picture),
        ("After", after.picture),
        ("Where they differ", None if drawn is None else drawn.heat),
    )
    return found, [(name, embedded(data)) for name, data in pictures]
