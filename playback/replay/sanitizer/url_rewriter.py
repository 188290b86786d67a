"""Rewriter of archived URLs to replay routes and reader pages (P-03); pure.

There is no other result, so a copy loads nothing from the live web.
"""

import re
from dataclasses import dataclass, replace
from urllib.parse import urldefrag, urljoin

from core.errors import BadUrlError
from core.url_keys import replay_key
from playback.access.levels import Level
from playback.url_paths import LONGEST_URL, Memento, MementoModifier, is_web_url, memento_path, page_path

# WHATWG URL, 4.4: these are dropped wherever they stand, and the others at either end.
_DROPPED = dict.fromkeys(map(ord, "\t\n\r"))
_TRIMMED = "".join(map(chr, range(0x21)))
_DATA_IMAGE = re.compile(r"data:image/(?:png|jpeg|gif|webp|avif);base64,[A-Za-z0-9+/=]+", re.IGNORECASE)
_ABSOLUTE = re.compile(r"https?://", re.IGNORECASE)
_LONGEST_DATA_URL = 2_000_000  # characters


@dataclass(frozen=True, slots=True)
class ReplayUrlRewriter:
    """Rewriting rules of one page or style sheet."""

    timestamp: str  # the moment of the page, 14 digits; its parts are looked up near it
    base: str  # base of relative URLs
    front: str  # the origin of the front
    page: str = ""  # the page's own URL; ``#part`` links to it stay within the page
    wiki: str = ""  # the reader's wiki; empty: none
    level: Level | None = None  # the level that the reader chose, which links keep; None: none
    has_images: bool = True  # images are shown, also those of style sheets
    has_fonts: bool = False  # the page's own fonts are loaded
    is_masking: bool = False  # images are used as masks, which come from another route
    withheld: tuple[str, ...] = ()  # URLs of framed documents that must not be shown

    @property
    def masking(self) -> "ReplayUrlRewriter":
        """Return the same rules for mask images."""
        return replace(self, is_masking=True)

    def based(self, base: str) -> "ReplayUrlRewriter":
        """Return the same rules for a page with the base element `base`."""
        url = self._absolute(base)
        return self if url is None else replace(self, base=url)

    def withholds(self, source: str, document_url: str | None) -> bool:
        """Return True when a framed document must not be shown, by the URL in the frame and its own.

        An artifact of an earlier version does not record the latter: then it may be any withheld one.
        """
        if not self.withheld:
            return False
        if document_url is None:
            return True
        urls = {_key(document_url), _key(self._absolute(source) or source)}
        return any(_key(each) in urls for each in self.withheld)

    def image(self, value: str) -> str | None:
        """Return the address of the image in the copy; None when it is not shown."""
        if not self.has_images:
            return None
        value = value.strip(_TRIMMED)
        if value[:5].lower() == "data:":
            value = value.translate(_DROPPED)
            fits = len(value) <= _LONGEST_DATA_URL and _DATA_IMAGE.fullmatch(value)
            return value if fits else None
        return self._part(value, MementoModifier.MASK if self.is_masking else MementoModifier.IMAGE)

    def sheet(self, value: str) -> str | None:
        """Return the address of the style sheet in the copy, or None."""
        return self._part(value, MementoModifier.STYLE if self.has_images else MementoModifier.PLAIN_STYLE)

    def font(self, value: str) -> str | None:
        """Return the address of the font in the copy, or None."""
        return self._part(value, MementoModifier.FONT) if self.has_fonts else None

    def media(self, value: str) -> str | None:
        """Return the address of sound or film in the copy, or None."""
        return self._part(value, MementoModifier.MEDIA) if self.has_images else None

    def link(self, value: str) -> str | None:
        """Return the target of a link: within the page, or on the front; None for no target."""
        fragment = self.fragment(value)
        if fragment is not None:
            return fragment
        url = self._absolute(value)
        if url is None:
            return None
        bare, _, part = url.partition("#")
        # "#!" is part of a page's name; any other fragment is a place in it.
        url = url if part[:1] == "!" else bare
        return self.front + page_path(self.timestamp, url, level=self.level, wiki=self.wiki)

    def fragment(self, value: str) -> str | None:
        """Return ``#part`` when the link stays within the page, else None."""
        value = value.strip(_TRIMMED)
        if "#" not in value:
            return None
        url, _, part = value.partition("#")
        if part[:1] == "!" or (url and self._absolute(url) != urldefrag(self.page)[0]):
            return None
        return f"#{part}"

    def _part(self, value: str, modifier: MementoModifier) -> str | None:
        url = self._absolute(value)
        if url is None:
            return None
        return memento_path(Memento(self.timestamp, modifier, urldefrag(url)[0], self.wiki))

    def _absolute(self, value: str) -> str | None:
        value = value.strip(_TRIMMED).translate(_DROPPED).replace(" ", "%20")
        if not value or len(value) > LONGEST_URL:
            return None
        try:
            # A DOM that we made holds absolute URLs, and joining is slow.
            url = value if _ABSOLUTE.match(value) else urljoin(self.base, value)
        except ValueError:  # a bracket that closes no IPv6 address
            return None
        return url if is_web_url(url) else None


def _key(url: str) -> str:
    try:
        return replay_key(url)
    except BadUrlError:
        return url
