"""Allow-lists of elements, attributes and values, by level (A18).

Every level is a subset of the next one. svg, math, style and script are on no list of nh3's (P-01, P-02), nor
is any element with raw text, except textarea.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from playback.access.levels import Level

# Part of every ETag, cache key and score: raise it when any rule of the sanitiser changes.
SANITISER_VERSION = 9

Attributes = Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class LevelAllowlist:
    """Allow-lists of a level."""

    # elements that are kept; of others only the content, except of `DROPPED_ELEMENTS`
    tags: frozenset[str]
    attributes: Attributes  # by element, attributes that are kept; ``*`` is every element
    # by element and attribute, values that are kept
    values: Mapping[str, Mapping[str, frozenset[str]]]
    forced: Mapping[str, Mapping[str, str]]  # by element, attributes that are set to fixed values
    prefixes: frozenset[str] = frozenset()  # attributes with such a prefix are kept, too
    has_look: bool = False  # style sheets and custom elements are kept
    has_images: bool = False  # images are kept


def allowlist_of(level: Level) -> LevelAllowlist:
    """Return the lists of `level`; those of `images` for `full`, which is not sanitised."""
    return _ALLOWED.get(level, _ALLOWED[Level.IMAGES])


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# These go with all that they hold, at every level.
DROPPED_ELEMENTS = _words(
    """
    applet audio datalist embed frame frameset head iframe math noembed noframes noscript object
    param portal script source style svg template title track video xmp
    """
)
# Before and after these a line ends, also where they themselves go.
BLOCK_ELEMENTS = _words(
    """
    address article aside blockquote body br button caption center dd details dialog dir div dl dt
    fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr label legend li main
    menu nav ol optgroup option p pre search section select summary table tbody td textarea tfoot th
    thead tr ul
    """
)

# MathML Core without what leads elsewhere or holds HTML (annotation-xml, mglyph, malignmark, maction).
FORMULA_ELEMENTS = _words(
    """
    merror mfrac mi mmultiscripts mn mo mover mpadded mphantom mprescripts mroot mrow ms mspace msqrt
    mstyle msub msubsup msup mtable mtd mtext mtr munder munderover none semantics
    """
)
FORMULA_ATTRIBUTES = _words(
    """
    accent accentunder columnalign columnlines columnspacing columnspan depth dir display displaystyle
    fence form frame height largeop linethickness lspace mathbackground mathcolor mathsize mathvariant
    maxsize minsize movablelimits notation rowalign rowlines rowspacing rowspan rspace scriptlevel
    separator stretchy symmetric voffset width
    """
)

_TEXT_TAGS = _words("p br")
_LIMITED_TAGS = _words(
    """
    a b blockquote br caption code col colgroup em h1 h2 h3 h4 h5 h6 i li ol p pre strong table tbody
    td tfoot th thead tr ul
    """
)
_HTML_TAGS = _LIMITED_TAGS | _words(
    """
    abbr acronym address article aside bdi bdo big button center cite data dd del details dfn dialog
    dir div dl dt fieldset figcaption figure font footer header hgroup hr input ins kbd label legend
    main mark menu meter nav optgroup option output progress q rp rt ruby s samp search section
    select small span strike sub summary sup textarea time tt u var wbr
    """
)
_IMAGES_TAGS = _HTML_TAGS | _words("area img map picture")

_CELL = _words("colspan rowspan headers abbr nowrap")
_HTML_ATTRIBUTES: Attributes = {
    "*": _words(
        "class id title lang dir style align valign bgcolor color width height hidden role"
    ),
    "a": _words("href name"),
    # Names of controls are what style sheets find them by; nothing is ever sent under them.
    "button": _words("value name"),
    "col": _words("span"),
    "colgroup": _words("span"),
    "data": _words("value"),
    "del": _words("datetime"),
    "details": _words("open name"),
    "dialog": _words("open"),
    "fieldset": _words("name"),
    "font": _words("face size"),
    "hr": _words("size noshade"),
    "input": _words("value checked placeholder size name"),
    "ins": _words("datetime"),
    "label": _words("for"),
    "li": _words("value type"),
    "meter": _words("value min max low high optimum"),
    "ol": _words("start type reversed"),
    "optgroup": _words("label"),
    "option": _words("selected label value"),
    "progress": _words("value max"),
    "select": _words("size multiple name"),
    "table": _words("border cellpadding cellspacing rules frame summary"),
    "td": _CELL,
    "textarea": _words("rows cols placeholder name"),
    "th": _CELL | {"scope"},
    "time": _words("datetime"),
    "ul": _words("type"),
}
_WITH_IMAGES: Attributes = {
    "area": _words("href alt coords shape"),
    "img": _words("src srcset alt border hspace vspace usemap"),
    "map": _words("name"),
    "table": _words("background"),
    "td": _words("background"),
    "th": _words("background"),
    "tr": _words("background"),
}
_IMAGES_ATTRIBUTES: Attributes = {
    tag: _HTML_ATTRIBUTES.get(tag, frozenset()) | _WITH_IMAGES.get(tag, frozenset())
    for tag in _HTML_ATTRIBUTES.keys() | _WITH_IMAGES.keys()
}
# Width in the layout of a responsive image, beside which the width of its only candidate stands.
SIZE_PX = 10_000
_TARGETS = {"target": _words("_top _self")}
_HTML_VALUES = {
    "a": _TARGETS,
    "input": {
        "type": _words(
            "button checkbox color date email hidden number radio range reset search submit tel text"
            " time url"
        ),
    },
}
# Nothing can be typed, chosen or sent (P-07, P-15).
_INERT = {name: {"disabled": ""} for name in ("button", "fieldset", "input", "select", "textarea")}
_PREFIXES = frozenset({"aria-", "data-"})

_ALLOWED: Mapping[Level, LevelAllowlist] = MappingProxyType(
    {
        Level.TEXT: LevelAllowlist(_TEXT_TAGS, {}, {}, {}),
        Level.LIMITED: LevelAllowlist(
            _LIMITED_TAGS,
            {
                "*": _words("title lang dir"),
                "a": _words("href"),
                "td": _words("colspan rowspan"),
                "th": _words("colspan rowspan"),
            },
            {"a": _TARGETS},
            {},
        ),
        Level.HTML: LevelAllowlist(
            _HTML_TAGS, _HTML_ATTRIBUTES, _HTML_VALUES, _INERT, _PREFIXES, has_look=True
        ),
        Level.IMAGES: LevelAllowlist(
            _IMAGES_TAGS,
            _IMAGES_ATTRIBUTES,
            {**_HTML_VALUES, "area": _TARGETS, "img": {"sizes": _words(f"{SIZE_PX}px")}},
            _INERT,
            _PREFIXES,
            has_look=True,
            has_images=True,
        ),
    }
)
