"""HTML pages in one file: nothing is loaded, nothing runs, and what comes from the web is text."""

import base64
import io
from collections.abc import Mapping
from functools import cache
from typing import Any

import jinja2
from PIL import Image

from core.errors import PermanentError
from crawler.cli.tables import clean
from render.compare.opening import open_picture

_WIDEST_PX = 640  # three pictures stand side by side
_TALLEST_PX = 8_000
_QUALITY = 70  # of WebP


def standalone(template: str, **values: Any) -> str:
    """The page that a template beside this module makes of the values, whose texts are escaped."""
    return _templates().get_template(template).render(**values)


def embedded(picture: bytes | None) -> str:
    """The picture as a ``data:`` URL, small enough to be looked at; empty when it is none.

    What comes out is drawn anew: no byte of the picture gets into the page.
    """
    if picture is None:
        return ""
    try:
        image = Image.fromarray(open_picture(picture))
    except PermanentError:
        return ""
    if image.width > _WIDEST_PX:
        height = max(1, round(image.height * _WIDEST_PX / image.width))
        image = image.resize((_WIDEST_PX, height), Image.Resampling.BOX)
    image = image.crop((0, 0, image.width, min(image.height, _TALLEST_PX)))
    written = io.BytesIO()
    image.save(written, "WEBP", quality=_QUALITY, method=2)
    return "data:image/webp;base64," + base64.b64encode(written.getvalue()).decode("ascii")


@cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("crawler.cli.qa", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: Mapping[str, Any] = {"share": _share, "clean": clean}
    environment.filters.update(filters)
    return environment


def _share(value: float | None) -> str:
    """A share for people.

    >>> _share(0.9987), _share(1.0), _share(None)
    ('99 %', '100 %', '-')
    """
    # Rounded down: what is not the same is never 100 %.
    return "-" if value is None else f"{int(100 * value + 1e-9)} %"
