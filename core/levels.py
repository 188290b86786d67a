"""The level at which copies are shown, unless it is decided otherwise (`playback.decisions.levels`)."""

DEFAULT_LEVEL = "images"
