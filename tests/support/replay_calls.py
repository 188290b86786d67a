"""Process that calls functions of the sanitiser: one JSON line in, one out, until stdin ends."""

import base64
import json
import re
import sys
from dataclasses import replace
from typing import Any

import brotlicffi

from core.errors import PermanentError
from playback.access.levels import Level
from playback.replay.sanitizer import css_filter, html_document, rasterizer
from playback.url_paths import ReplayUrlRewriter

_RULES = ReplayUrlRewriter(
    "20260301120000", "https://page.example/dir/", "http://front.test", "https://page.example/dir/"
)


class _UnchangedUrls(ReplayUrlRewriter):
    """Leaves addresses of ours alone, so that sanitising twice can be compared."""

    def image(self, value: str) -> str | None:
        if value.startswith("/c/"):
            return value.replace("im_/", "mk_/", 1) if self.is_masking else value
        return super().image(value)

    def sheet(self, value: str) -> str | None:
        return value if value.startswith("/c/") else super().sheet(value)

    def font(self, value: str) -> str | None:
        return value if value.startswith("/c/") else super().font(value)

    def media(self, value: str) -> str | None:
        return value if value.startswith("/c/") else super().media(value)

    def link(self, value: str) -> str | None:
        return value if value.startswith("http://front.test/page/") else super().link(value)


def body(text: str, level: str = "images") -> str:
    return html_document.sanitise_body(text, _RULES, level=Level(level))


def body_twice(text: str, level: str = "images") -> list[str]:
    standing = _UnchangedUrls(_RULES.timestamp, _RULES.base, _RULES.front, _RULES.page)
    once = html_document.sanitise_body(text, standing, level=Level(level))
    return [once, html_document.sanitise_body(once, standing, level=Level(level))]


def document(text: str, was_scripted: bool = True, level: str = "images") -> str:
    return html_document.sanitise_document(text, replace(_RULES), was_scripted=was_scripted, level=Level(level))


def fragment(text: str, level: str = "images") -> str:
    """Return the sanitised body of a whole document, as its page would contain it."""
    whole = html_document.sanitise_document(text, replace(_RULES), was_scripted=True, level=Level(level))
    return re.sub(r".*?</head><body[^>]*>|</body></html>\n$", "", whole, flags=re.DOTALL)


def style(text: str) -> str:
    return css_filter.filter_style(text, _RULES)


def style_twice(text: str) -> list[str]:
    standing = _UnchangedUrls(_RULES.timestamp, _RULES.base, _RULES.front, _RULES.page)
    once = css_filter.filter_style(text, standing)
    return [once, css_filter.filter_style(once, standing)]


def font_style_twice(text: str) -> list[str]:
    standing = _UnchangedUrls(_RULES.timestamp, _RULES.base, _RULES.front, _RULES.page, has_fonts=True)
    once = css_filter.filter_style(text, standing)
    return [once, css_filter.filter_style(once, standing)]


def compressed(data: str) -> str:
    return base64.b64encode(brotlicffi.compress(base64.b64decode(data), quality=1)).decode()


def declarations(text: str) -> str:
    return css_filter.filter_declarations(text, _RULES)


def style_both(text: str) -> list[str]:
    return [css_filter.filter_style(text, _RULES), css_filter.filter_parsed(text, _RULES)]


def declarations_both(text: str) -> list[str]:
    return [css_filter.filter_declarations(text, _RULES), css_filter.filter_parsed_declarations(text, _RULES)]


def raster_svg(data: str, options: dict[str, Any]) -> str:
    try:
        drawn = rasterizer.raster_svg(base64.b64decode(data), **options)
    except PermanentError:
        return ""
    return base64.b64encode(drawn).decode()


def main() -> None:
    calls = {
        each.__name__: each
        for each in (
            body,
            body_twice,
            document,
            fragment,
            style,
            style_twice,
            font_style_twice,
            compressed,
            declarations,
            style_both,
            declarations_both,
            raster_svg,
        )
    }
    for line in sys.stdin:
        name, arguments = json.loads(line)
        try:
            answer = {"result": calls[name](*arguments)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
