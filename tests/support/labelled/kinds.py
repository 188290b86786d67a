"""Kinds of differences between a page as it was seen and as it is shown, and which are broken.

The one question: would somebody who opens the copy, to read what is cited there, be shown what the
visitor saw? What a site changes from one visit to the next by itself is no fault of the copy; what
carries the page's matter and is gone, hidden or another is.
"""

from dataclasses import dataclass
from enum import StrEnum


class LabelledKind(StrEnum):
    """Kind of difference."""

    IDENTICAL = "identical"
    BANNER = "banner"
    STRIP = "strip"
    LINE = "line"
    NUDGED = "nudged"
    WIDER = "wider"
    ADS = "ads"
    ADS_GONE = "ads-gone"
    CAROUSEL = "carousel"
    DATES = "dates"
    RECOMMENDED = "recommended"
    REENCODED = "reencoded"
    FRAME = "frame"
    RASTERISED = "rasterised"
    ICON = "icon"
    GLYPHS = "glyphs"
    LONGER = "longer"
    HOVERED = "hovered"
    AVATAR = "avatar"
    HERO = "hero"
    HERO_GONE = "hero-gone"
    IMAGES = "images"
    IMAGES_GONE = "images-gone"
    HALF_GALLERY = "half-gallery"
    UNSTYLED = "unstyled"
    LAYOUT = "layout"
    BLANK = "blank"
    SENTENCE = "sentence"
    SHELL = "shell"
    CHALLENGE = "challenge"
    OTHER_PAGE = "other-page"
    OTHER_SITE = "other-site"
    NOT_FOUND = "not-found"
    LANGUAGE = "language"
    CONSENT = "consent"
    CONSENT_PAGE = "consent-page"
    LETTER = "letter"
    LOGIN = "login"
    PAYWALL = "paywall"
    CUT = "cut"
    MOJIBAKE = "mojibake"
    UNSEEN_TEXT = "unseen-text"
    CANVAS = "canvas"


@dataclass(frozen=True, slots=True)
class KindRule:
    """Right verdict on a kind: broken or not, and the reason, as a sentence."""

    broken: bool
    why: str


_GOOD = {
    LabelledKind.IDENTICAL: "Nothing differs.",
    LabelledKind.BANNER: "A banner of 40 to 120 px stands above the page; all of the page is below it.",
    LabelledKind.STRIP: "A strip of less than a sixth of the window lies at its lower edge.",
    LabelledKind.LINE: "A line of text more, and what follows stands lower.",
    LabelledKind.NUDGED: "All is there, a few pixels lower or further right.",
    LabelledKind.WIDER: "The page is some pixels narrower, as by a scroll bar; lines may break elsewhere.",
    LabelledKind.ADS: "Other advertisements in the same places.",
    LabelledKind.ADS_GONE: "No advertisement comes; their places are empty.",
    LabelledKind.CAROUSEL: "The carousel shows another of its slides.",
    LabelledKind.DATES: "Dates and counters have gone on.",
    LabelledKind.RECOMMENDED: "Other pages are recommended at the side.",
    LabelledKind.REENCODED: "Pictures were packed again, with the loss that comes of it.",
    LabelledKind.FRAME: "A film or an animation is at another moment.",
    LabelledKind.RASTERISED: "Letters are drawn with other edges, at the same places.",
    LabelledKind.ICON: "A sign of some 24 px does not come.",
    LabelledKind.GLYPHS: "Signs that a font would have brought are empty boxes.",
    LabelledKind.LONGER: "More of the same follows at the end.",
    LabelledKind.HOVERED: "The pointer or the caret is elsewhere: a link is underlined, a field framed.",
    LabelledKind.AVATAR: "Portraits of those who write are missing; what they wrote is there.",
}
_BROKEN = {
    LabelledKind.HERO: "The picture that the page is about does not come; its place is empty.",
    LabelledKind.HERO_GONE: "The same, and its place has closed.",
    LabelledKind.IMAGES: "No photograph of the page comes; their places are empty.",
    LabelledKind.IMAGES_GONE: "The same, and their places have closed.",
    LabelledKind.HALF_GALLERY: "Every second picture of a gallery is missing.",
    LabelledKind.UNSTYLED: "No style sheet comes.",
    LabelledKind.LAYOUT: "The style sheet that places things is missing; colours are there.",
    LabelledKind.BLANK: "Nothing but the ground.",
    LabelledKind.SENTENCE: "An error's sentence or two on a ground of one colour.",
    LabelledKind.SHELL: "Head and foot of the site are there; what the page is there for never came.",
    LabelledKind.CHALLENGE: "A check for robots stands where the page was.",
    LabelledKind.OTHER_PAGE: "Another page of the same site, in the same design.",
    LabelledKind.OTHER_SITE: "A page of another site.",
    LabelledKind.NOT_FOUND: "The site's own page for what it has not.",
    LabelledKind.LANGUAGE: "The same page in another language.",
    LabelledKind.CONSENT: "A question for consent lies over the dimmed page.",
    LabelledKind.CONSENT_PAGE: "A question for consent stands instead of the page.",
    LabelledKind.LETTER: "An invitation to a newsletter lies over the middle of the page.",
    LabelledKind.LOGIN: "A form to log in stands where the page's matter was.",
    LabelledKind.PAYWALL: "After the first lines a box asks for money.",
    LabelledKind.CUT: "The second half of the page is missing.",
    LabelledKind.MOJIBAKE: "Letters that are not of the Latin alphabet are others: it was decoded wrongly.",
    LabelledKind.UNSEEN_TEXT: "Text is not drawn, as while a font never comes.",
    LabelledKind.CANVAS: "What was drawn on the canvas is not there: the map, the document.",
}
RULES = {kind: KindRule(broken=False, why=why) for kind, why in _GOOD.items()} | {
    kind: KindRule(broken=True, why=why) for kind, why in _BROKEN.items()
}
