"""Archived documents as safe ones: the level "HTML with images".

nh3 (ammonia, html5ever) keeps what is on the lists below and nothing else; svg, math, style and
script are on none (research 1.5, P-01, P-02). Every URL that stays is one that `Rewriter` made.
The document around the body is ours, and nothing archived stands in it unescaped.
"""

import re
from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache
from html import escape

import nh3

from playback.replay.css import filter_declarations, filter_style, safe_media
from playback.replay.rewriting import Rewriter
from playback.replay.scan import Attributes, Frame, Scan, Sheet, scan_document

# Part of every ETag and cache key: raise it when any rule of the sanitiser changes.
SANITISER_VERSION = 2

_TAGS = frozenset(
    """
    a abbr acronym address area article aside b bdi bdo big blockquote br button caption center cite
    code col colgroup data dd del details dfn dialog dir div dl dt em fieldset figcaption figure
    font footer h1 h2 h3 h4 h5 h6 header hgroup hr i img input ins kbd label legend li main map mark
    menu meter nav ol optgroup option output p picture pre progress q rp rt ruby s samp search
    section select small span strike strong sub summary sup table tbody td textarea tfoot th thead
    time tr tt u ul var wbr
    """.split()  # noqa: SIM905 a table in rows can be read and compared
)
# These go with all that they hold; of any other unknown element what it holds stays.
_GONE = frozenset(
    """
    applet audio datalist embed frame frameset head iframe math noembed noframes noscript object
    param portal script source style svg template title track video xmp
    """.split()  # noqa: SIM905 a table in rows can be read and compared
)
_CELL = {"colspan", "rowspan", "headers", "abbr", "nowrap", "background"}
_ATTRIBUTES: dict[str, set[str]] = {
    "*": {"class", "id", "title", "lang", "dir", "style", "align", "valign", "bgcolor", "color"}
    | {"width", "height", "hidden", "role"},
    "a": {"href", "name"},
    "area": {"href", "alt", "coords", "shape"},
    "button": {"value"},
    "col": {"span"},
    "colgroup": {"span"},
    "data": {"value"},
    "del": {"datetime"},
    "details": {"open", "name"},
    "dialog": {"open"},
    "font": {"face", "size"},
    "hr": {"size", "noshade"},
    "img": {"src", "alt", "border", "hspace", "vspace", "usemap"},
    "input": {"value", "checked", "placeholder", "size"},
    "ins": {"datetime"},
    "label": {"for"},
    "li": {"value", "type"},
    "map": {"name"},
    "meter": {"value", "min", "max", "low", "high", "optimum"},
    "ol": {"start", "type", "reversed"},
    "optgroup": {"label"},
    "option": {"selected", "label"},
    "progress": {"value", "max"},
    "select": {"size", "multiple"},
    "table": {"border", "cellpadding", "cellspacing", "rules", "frame", "summary", "background"},
    "td": _CELL,
    "textarea": {"rows", "cols", "placeholder"},
    "th": _CELL | {"scope"},
    "time": {"datetime"},
    "tr": {"background"},
    "ul": {"type"},
}
_VALUES: dict[str, dict[str, set[str]]] = {
    "a": {"target": {"_top", "_self"}},
    "area": {"target": {"_top", "_self"}},
    "input": {
        "type": {"button", "checkbox", "color", "date", "email", "number", "radio", "range"}
        | {"hidden", "reset", "search", "submit", "tel", "text", "time", "url"},
    },
}
# Nothing can be typed, chosen or sent (P-07, P-15).
_INERT = {name: {"disabled": ""} for name in ("button", "fieldset", "input", "select", "textarea")}
_IMAGES = {"src", "background"}
# Custom elements (HTML, 4.13.3) are inert without scripts, and style sheets select them by name. The
# first of the group are names of SVG and MathML.
_CUSTOM = re.compile(
    r"<(?!annotation-xml|color-profile|font-face|missing-glyph)([a-z][a-z0-9]{0,40}(?:-[a-z0-9]{1,40}){1,6})"
    r"(?=[\s/>])"
)
_MOST_CUSTOM = 200
# What is framed may do as little as what frames it: a link leads its reader to the front.
_SANDBOX = "allow-top-navigation-by-user-activation"
_FRAME_ATTRIBUTES = ("id", "class", "style", "width", "height", "align", "hidden", "frameborder")
_DEEPEST_FRAME = 5
_ROOT_ATTRIBUTES = ("id", "class", "lang", "dir", "style", "bgcolor", "text", "background")
# In a layer, so that any rule of the page wins: disabled controls keep their colours.
_BASE_STYLE = "@layer weboid{:disabled{color:fieldtext}img{overflow:hidden}}"


def sanitise_document(text: str, rewriter: Rewriter, *, was_scripted: bool) -> str:
    """The archived document as a whole safe one, ``<!DOCTYPE html>`` to ``</html>``.

    Documents that our DOM artifact holds within it are made safe in the same way, and stand in
    sandboxed frames whose policy is the page's own (HTML, 7.1.7: srcdoc inherits it).
    """
    return _sanitise(text, rewriter, was_scripted=was_scripted, depth=0)


def _sanitise(text: str, rewriter: Rewriter, *, was_scripted: bool, depth: int) -> str:
    scan = scan_document(text, rewriter, was_scripted=was_scripted)
    if scan.base:
        base = rewriter.based(scan.base)
        scan = scan_document(text, base, was_scripted=was_scripted)
        rewriter = base
    body = sanitise_body(scan.body, rewriter, mark=scan.mark)

    def show(found: re.Match[str]) -> str:
        number = int(found[1])
        if number >= len(scan.frames) or depth >= _DEEPEST_FRAME:
            return ""
        return _write_frame(scan.frames[number], rewriter, depth)

    body = re.sub(rf'<img src="{scan.mark}(\d{{1,4}})">', show, body)
    return _document(scan, body, rewriter)


def _write_frame(frame: Frame, rewriter: Rewriter, depth: int) -> str:
    inner = rewriter.based(frame.attributes.get("src", ""))
    inner = replace(inner, page=inner.base)
    document = _sanitise(frame.text, inner, was_scripted=True, depth=depth + 1)
    attributes = _safe_attributes(frame.attributes, rewriter, _FRAME_ATTRIBUTES)
    return f'<iframe{attributes} sandbox="{_SANDBOX}" srcdoc="{escape(document)}"></iframe>'


def sanitise_body(text: str, rewriter: Rewriter, *, mark: str = "") -> str:
    """The markup with only what is allowed in it; sanitised again it says nothing more.

    That holds for a rewriter that leaves its own addresses alone. An image source that begins with
    `mark` stays as it is, for its maker to find.
    """
    styles = lru_cache(maxsize=4096)(lambda value: filter_declarations(value, rewriter))

    def keep(_tag: str, name: str, value: str) -> str | None:
        if name == "style":
            return styles(value) or None
        if name in _IMAGES:
            return value if mark and value.startswith(mark) else rewriter.image(value)
        if name == "href":
            return rewriter.link(value)
        if name == "data-weboid-host":  # by which rules of a shadow tree find it
            return value if value.isdecimal() else None
        return None if name.startswith("data-weboid-") else value

    cleaned: str = nh3.clean(
        text,
        tags={*_TAGS, *_custom_elements(text)},
        clean_content_tags=set(_GONE),
        attributes=_ATTRIBUTES,
        generic_attribute_prefixes={"aria-", "data-"},
        tag_attribute_values=_VALUES,
        set_tag_attribute_values=_INERT,
        attribute_filter=keep,
        link_rel="noreferrer nofollow",
        url_schemes={"http", "https", "data"},
    )
    return cleaned


def _custom_elements(text: str) -> Collection[str]:
    found: set[str] = set()
    for match in _CUSTOM.finditer(text):
        found.add(match[1])
        if len(found) >= _MOST_CUSTOM:
            break
    return found


def image_document(address: str, title: str) -> str:
    """A document that shows one image of ours."""
    style = "html{background:#222}body{margin:0}img{display:block;max-width:100%;margin:auto}"
    body = f'<img src="{escape(address)}" alt="{escape(title)}">'
    return _skeleton(title, f"<style>{style}</style>", body)


def text_document(text: str, title: str) -> str:
    """A document that shows plain text."""
    style = "body{margin:1rem}pre{white-space:pre-wrap;overflow-wrap:anywhere}"
    return _skeleton(title, f"<style>{style}</style>", f"<pre>\n{escape(text)}</pre>")


def notice_document(title: str, text: str) -> str:
    """A document in our own words, for when there is nothing to show."""
    style = (
        ":root{color-scheme:light dark}body{font:1rem/1.5 system-ui,sans-serif;max-width:34rem;"
        "margin:15vh auto;padding:0 1rem;text-align:center}h1{font-size:1.25rem}"
    )
    body = f"<h1>{escape(title)}</h1><p>{escape(text)}</p>"
    return _skeleton(title, f"<style>{style}</style>", body, has_viewport=True)


def _document(scan: Scan, body: str, rewriter: Rewriter) -> str:
    head = [f"<style>{_BASE_STYLE}</style>"]
    head += [_write_sheet(sheet, rewriter) for sheet in scan.sheets]
    return _skeleton(
        scan.title,
        "".join(head),
        body,
        has_doctype=scan.has_doctype,
        has_viewport=scan.has_viewport,
        html=_root_attributes(scan.html_attributes, rewriter),
        body_attributes=_root_attributes(scan.body_attributes, rewriter),
    )


def _skeleton(  # noqa: PLR0913 the parts of one template
    title: str,
    head: str,
    body: str,
    *,
    has_doctype: bool = True,
    has_viewport: bool = False,
    html: str = "",
    body_attributes: str = "",
) -> str:
    """The document; without a doctype it is laid out in quirks mode, as its original was."""
    return "".join(
        (
            "<!DOCTYPE html>" if has_doctype else "",
            f'<html{html}><head><meta charset="utf-8"><title>{escape(title)}</title>',
            '<meta name="viewport" content="width=device-width,initial-scale=1">'
            if has_viewport
            else "",
            f"{head}</head><body{body_attributes}>{body}</body></html>\n",
        )
    )


def _write_sheet(sheet: Sheet, rewriter: Rewriter) -> str:
    media = safe_media(sheet.media)
    condition = f' media="{escape(media)}"' if media else ""
    if not sheet.href:
        text = filter_style(sheet.text, rewriter)
        return f"<style{condition}>{text}</style>" if text else ""
    address = rewriter.sheet(sheet.href)
    if address is None:
        return ""
    return f'<link rel="stylesheet" href="{escape(address)}"{condition}>'


def _root_attributes(attributes: Attributes, rewriter: Rewriter) -> str:
    """The attributes of ``html`` or ``body`` that bear on the look, as text with a leading blank."""
    return _safe_attributes(attributes, rewriter, _ROOT_ATTRIBUTES)


def _safe_attributes(attributes: Attributes, rewriter: Rewriter, names: Collection[str]) -> str:
    kept: Attributes = {name: attributes[name] for name in names if name in attributes}
    kept |= {name: value for name, value in attributes.items() if _is_data_name(name)}
    if "style" in kept:
        kept["style"] = filter_declarations(kept["style"], rewriter)
    if "background" in kept:
        kept["background"] = rewriter.image(kept["background"]) or ""
    return "".join(
        f' {name}="{escape(value)}"' for name, value in kept.items() if value or name == "hidden"
    )


def _is_data_name(name: str) -> bool:
    """True for ``data-theme`` and the like, which style sheets select by."""
    return (
        name.startswith("data-")
        and name.replace("-", "").isascii()
        and name.replace("-", "").isalnum()
    )
