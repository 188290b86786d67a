"""Self-contained HTML pages without scripts, among them the baseline report."""

import base64
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import jinja2

from qa.baseline import AFTER, BEFORE, BaselineFolder, BaselineHeader
from qa.compare.picture_decoder import shrink_picture
from qa.page_changes import PlaybackRegression, RegressionKind, compare_playback, count_by_kind
from weboid.app.text_table import clean

_WIDEST_PX = 640  # three pictures stand side by side
_TALLEST_PX = 8_000
_QUALITY = 70  # of WebP


def render_standalone(template: str, **values: Any) -> str:
    """Render a template of this package with the values, which are escaped."""
    return _templates().get_template(template).render(**values)


def picture_data_url(picture: bytes | None) -> str:
    """Return the picture, scaled down and re-encoded, as a ``data:`` URL; empty when it is not a picture."""
    data = picture or b""
    small = shrink_picture(data, widest=_WIDEST_PX, tallest=_TALLEST_PX, quality=_QUALITY)
    return "" if small is None else f"data:image/webp;base64,{base64.b64encode(small).decode()}"


@cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("weboid.app", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: Mapping[str, Any] = {"share": _share, "clean": clean}
    environment.filters.update(filters)
    return environment


def _share(value: float | None) -> str:
    """Format a share as a percentage.

    >>> _share(0.9987), _share(1.0), _share(None)
    ('99 %', '100 %', '-')
    """
    # Rounded down: what is not the same is never 100 %.
    return "-" if value is None else f"{int(100 * value + 1e-9)} %"


_MOST_PICTURED = 40  # so the page stays small enough to be opened
_MOST_LISTED = 500


def baseline_report_page(
    baseline: BaselineFolder,
    header: BaselineHeader,
    engine: str,
    regressions: Sequence[PlaybackRegression],
) -> str:
    """Render the baseline report; `regressions` has the result of each page, worst first."""
    differing = [each for each in regressions if each.course is not RegressionKind.UNCHANGED]
    return render_standalone(
        "baseline.html",
        header=header,
        engine=engine,
        counts={str(course): count for course, count in count_by_kind(regressions).items()},
        pictured=[_pictured(baseline, each) for each in differing[:_MOST_PICTURED]],
        listed=differing[_MOST_PICTURED:_MOST_LISTED],
        left=max(0, len(differing) - _MOST_LISTED),
    )


def _pictured(
    baseline: BaselineFolder, regression: PlaybackRegression
) -> tuple[PlaybackRegression, list[tuple[str, str]]]:
    before, after = (
        baseline.shown(BEFORE, regression.before),
        baseline.shown(AFTER, regression.after),
    )
    drawn = compare_playback(before, after, heat=True).picture
    pictures = (
        ("Before", before.picture),
        ("After", after.picture),
        ("Where they differ", None if drawn is None else drawn.heat),
    )
    return regression, [(name, picture_data_url(data)) for name, data in pictures]
