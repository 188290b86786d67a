"""Stored levels: how much of a page is recorded, from `[visit] store`; shown ones are in `playback.access.levels`."""

from enum import StrEnum


class StoredLevel(StrEnum):
    """Stored level, from the least to the most; the proxy applies it to each request of a visit."""

    TEXT = "text"  # documents, style sheets, scripts and data; no images, fonts, audio or video
    NO_MEDIA = "no-media"  # everything but audio and video
    EVERYTHING = "everything"

    @property
    def rank(self) -> int:
        """Return the level's rank; 0 for the least."""
        return _RANKS[self]

    @property
    def keeps_images(self) -> bool:
        """Return True when images, fonts and screenshots are recorded."""
        return self is not StoredLevel.TEXT

    @property
    def keeps_media(self) -> bool:
        """Return True when audio and video are recorded."""
        return self is StoredLevel.EVERYTHING

    def excludes_destination(self, destination: str) -> bool:
        """Return True when nothing is recorded for that ``Sec-Fetch-Dest`` (Fetch, 3.2.7)."""
        return (destination in _MEDIA_DESTINATIONS and not self.keeps_media) or (
            destination in _IMAGE_DESTINATIONS and not self.keeps_images
        )

    def excludes_type(self, mime: str) -> bool:
        """Return True when nothing of that bare media type is recorded.

        >>> StoredLevel.NO_MEDIA.excludes_type("video/mp4"), StoredLevel.NO_MEDIA.excludes_type("image/png")
        (True, False)
        """
        mime = mime.lower()
        is_media = mime.startswith(("audio/", "video/")) or mime in _MEDIA_TYPES
        is_image = mime.startswith(("image/", "font/")) or mime in _FONT_TYPES
        return (is_media and not self.keeps_media) or (is_image and not self.keeps_images)


DEFAULT_STORED_LEVEL = StoredLevel.EVERYTHING
_RANKS = {level: rank for rank, level in enumerate(StoredLevel)}
_MEDIA_DESTINATIONS = frozenset({"audio", "video", "track"})
_IMAGE_DESTINATIONS = frozenset({"image", "font"})
_MEDIA_TYPES = frozenset({
    "application/dash+xml", "application/mp4", "application/ogg", "application/vnd.apple.mpegurl",
    "application/vnd.ms-sstr+xml", "application/vnd.rn-realmedia", "application/vnd.yt-ump",
    "application/x-mpegurl", "application/x-shockwave-flash",
})  # fmt: skip
_FONT_TYPES = frozenset({
    "application/font-sfnt", "application/font-woff", "application/font-woff2",
    "application/vnd.ms-fontobject", "application/vnd.ms-opentype", "application/x-font-opentype",
    "application/x-font-otf", "application/x-font-ttf", "application/x-font-truetype",
    "application/x-font-woff",
})  # fmt: skip
