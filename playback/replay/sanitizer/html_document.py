"""Safe HTML documents: archived markup through nh3, and documents of our own.

nh3 (ammonia, html5ever) keeps only what is on a level's lists (P-01, P-02). All URLs in the result come from
`ReplayUrlRewriter`. Paragraphs and line breaks are made from markup that nh3 wrote, so that every ``<`` begins a tag
(HTML, 13.3).
"""

import re
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import lru_cache, partial
from html import escape

import nh3

from playback.access.levels import DEFAULT_LEVEL, Level
from playback.replay.sanitizer.allowlist import BLOCK_ELEMENTS, DROPPED_ELEMENTS, LevelAllowlist, allowlist_of
from playback.replay.sanitizer.css_filter import ParserBudget, filter_declarations, filter_style, safe_media
from playback.replay.sanitizer.css_rules import STAND_IN, WAS_DISABLED, WRITTEN, WRITTEN_ATTRIBUTES
from playback.replay.sanitizer.prescan import Attributes, limit_depth, scan_document
from playback.replay.sanitizer.rasterizer import picture_address
from playback.url_paths import ReplayUrlRewriter

_TAG = re.compile(r"<(/?)([a-z][a-z0-9]*)([^<>]*)>")
_SPACE = re.compile(r"[ \t\n\r\f]+")  # white space that HTML collapses, which excludes the no-break space
_LINE = re.compile(r"\r?\n")
_CELLS = frozenset({"td", "th"})
_BREAKS = re.compile(r"^(?:<br>| )+|(?:<br>| )+$")


def write_paragraphs(markup: str) -> str:
    """Return the text as ``<p>`` elements with ``<br>``, one for each block with text."""
    paragraphs: list[str] = []
    line: list[str] = []
    pre_depth = 0  # number of open ``pre`` elements, in which line ends count

    def end() -> None:
        text = _BREAKS.sub("", _SPACE.sub(" ", "".join(line)).replace(" <br>", "<br>"))
        line.clear()
        if text:
            paragraphs.append(f"<p>{text.replace('<br> ', '<br>')}</p>")

    at = 0
    for tag in _TAG.finditer(markup):
        text = markup[at : tag.start()]
        line.append(_LINE.sub("<br>", text) if pre_depth else text)
        at = tag.end()
        name = tag[2]
        if name == "br":
            line.append("<br>")
        elif name in _CELLS:
            line.append(" ")
        else:
            end()
        if name == "pre":
            pre_depth = max(0, pre_depth + (-1 if tag[1] else 1))
    line.append(markup[at:])
    end()
    return "".join(paragraphs)


def break_lines(markup: str, tags: Collection[str]) -> str:
    """Return the markup reduced to `tags`, with line breaks at the ends of other blocks."""
    parts: list[str] = []
    at = 0
    is_fresh = True  # the line is empty
    is_due = False  # what comes next belongs on another line

    def write(text: str) -> None:
        nonlocal is_fresh, is_due
        if is_due and not is_fresh:
            parts.append("<br>")
        parts.append(text)
        is_fresh = is_due = False

    for tag in _TAG.finditer(markup):
        text = markup[at : tag.start()]
        at = tag.end()
        if _SPACE.fullmatch(text):
            parts.append(text)
        elif text:
            write(text)
        name = tag[2]
        if name in tags and name not in BLOCK_ELEMENTS:
            if is_due and not is_fresh and not tag[1]:
                write("")
            parts.append(tag[0])
        elif name in tags:
            parts.append(tag[0])
            is_fresh, is_due = True, False
        else:
            is_due = True
    rest = markup[at:]
    if rest.strip():
        write(rest)
    return "".join(parts)


# Whose values lead somewhere, or may.
_CHECKED_ATTRIBUTES = frozenset({"style", "href", "src", "srcset", "background", "poster"})
_PLAYERS = frozenset({"audio", "video"})
# The one candidate that the scan of the document writes.
_CANDIDATE = re.compile(r"(\S{1,8000}) (\d{1,6}w)")
_MOST_READINGS = 6
# Scroll position of a box at capture, as marked in the DOM artifact.
_BEGINNING = "data-weboid-beginning"
_MODAL, _POPOVER = "data-weboid-modal", "data-weboid-popover"
_BARE_MARKS = frozenset({WAS_DISABLED, _BEGINNING, _MODAL})
_MARK_VALUES = {_POPOVER: ("open", "closed"), STAND_IN: ("canvas", "svg")}
_SCRIPT_URL = re.compile(r"\s*javascript\s*:.*", re.IGNORECASE | re.DOTALL)
_WRITTEN = frozenset(WRITTEN + name for name in WRITTEN_ATTRIBUTES)
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
_ROOT_ATTRIBUTES = (
    *("id", "class", "lang", "dir", "style", "bgcolor", "text", "background"),
    *("link", "vlink", "alink", "topmargin", "leftmargin", "marginwidth", "marginheight"),
)
# For content without its own design.
_PLAIN_STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:1.0625rem/1.6 system-ui,sans-serif;max-width:44rem;margin:2rem auto;padding:0 1rem;"
    "overflow-wrap:break-word}"
    "h1,h2,h3,h4,h5,h6{line-height:1.25}pre{white-space:pre-wrap}"
    "table{border-collapse:collapse;display:block;overflow-x:auto}"
    "td,th{border:1px solid #8888;padding:.2em .5em;text-align:start;vertical-align:top}"
)
# Where images are not shown, neither images nor fonts are requested, whatever the sanitiser passed: policies add up.
NO_IMAGES = (
    "<meta http-equiv=\"Content-Security-Policy\" content=\"img-src 'none'; font-src 'none'; media-src 'none'\">"
)
# In a layer, so that any rule of the page wins: disabled controls keep their colours. Boxes begin where
# they were scrolled to, but not the page itself, where a box of it is none for this reader's window.
_BASE_STYLE = (
    f"@layer weboid{{:disabled:not([{WAS_DISABLED}]){{color:fieldtext;opacity:1}}"
    f"button:disabled:not([{WAS_DISABLED}]){{color:buttontext}}"
    f":is(input,textarea):disabled:not([{WAS_DISABLED}]){{background-color:field}}img{{overflow:clip}}"
    # The attributes of a canvas are the size of its picture, not of its box.
    f"img[{STAND_IN}=canvas]{{width:auto;height:auto}}"
    "::file-selector-button{color:buttontext}weboid-form{display:block}"
    # Browsers show controls where no script runs (HTML, 4.8.11.13); the page showed none.
    "video:not([controls],:focus)::-webkit-media-controls{opacity:0}"
    # Browsers' style of dialogs and popovers (HTML, 15.3.3 and 15.5.18), except for fixed positions.
    f"[{_POPOVER}],dialog[{_MODAL}]{{position:absolute;inset:0;width:fit-content;height:fit-content;"
    "margin:auto;overflow:auto;z-index:2147483647}"
    f"[{_POPOVER}]{{padding:.25em;border:solid;color:canvastext;background:canvas}}"
    f":root:has([{_BEGINNING}]),[{_BEGINNING}]{{scroll-initial-target:nearest}}}}"
)

# HTML, 15.3, of quirks mode; a document in srcdoc is never in it (HTML, 13.2.6.4.1).
_MARGINED = "blockquote,center,dir,dl,h1,h2,h3,h4,h5,h6,menu,ol,p,pre,ul"
_QUIRKS_STYLE = (
    "@layer weboid{:where(table){font-weight:initial;font-style:initial;font-variant:initial;font-size:initial;"
    "line-height:initial;white-space:initial;text-align:initial}"
    f":where(body,td,th)>:where({_MARGINED}):first-child{{margin-block-start:0}}"
    f":where(td,th)>:where({_MARGINED}):last-child{{margin-block-end:0}}"
    ":where(form){margin-block-end:1em}"
    ":where(input:not([type=image],[type=checkbox],[type=radio])){box-sizing:border-box}}"
)


def sanitise_document(
    text: str, rewriter: ReplayUrlRewriter, *, was_scripted: bool, level: Level = DEFAULT_LEVEL
) -> str:
    """Return the archived document as a complete safe one, ``<!DOCTYPE html>`` to ``</html>``.

    Framed documents within our DOM artifact become, at levels with a look, sandboxed frames under the page's own policy
    (HTML, 7.1.7: srcdoc inherits it); at others, text. `was_scripted`: the text is the DOM after scripts ran.
    """
    shows = allowlist_of(level)
    has_fonts = rewriter.has_fonts and shows.has_images
    rewriter = replace(rewriter, has_images=shows.has_images, has_fonts=has_fonts)
    return _sanitise(text, rewriter, ParserBudget(), was_scripted=was_scripted, level=level, depth=0)


def _sanitise(
    text: str, rewriter: ReplayUrlRewriter, budget: ParserBudget, *, was_scripted: bool, level: Level, depth: int
) -> str:
    shows = allowlist_of(level)
    scan = scan_document(text, rewriter, was_scripted=was_scripted, has_frames=shows.has_look)
    if scan.base:
        base = rewriter.based(scan.base)
        scan = scan_document(text, base, was_scripted=was_scripted, has_frames=shows.has_look)
        rewriter = base
    # The DOM artifact's own serialiser bounds its depth; what a site sent is bounded here.
    markup = scan.body if was_scripted else limit_depth(scan.body)
    body = sanitise_body(markup, rewriter, level=level, budget=budget)

    def show(match: re.Match[str]) -> str:
        number = int(match[1])
        if number >= len(scan.frames) or depth >= _DEEPEST_FRAME:
            return ""
        frame = scan.frames[number]
        inner = rewriter.based(frame.attributes.get("src", ""))
        inner = replace(inner, page=inner.base)
        document = _sanitise(frame.text, inner, budget, was_scripted=True, level=level, depth=depth + 1)
        attributes = _safe_attributes(frame.attributes, rewriter, _FRAME_ATTRIBUTES)
        return f'<iframe{attributes} sandbox="{_SANDBOX}" srcdoc="{escape(document)}"></iframe>'

    body = re.sub(rf'<wbr id="{scan.mark}(\d{{1,4}})">', show, body)
    body = re.sub(rf'<wbr id="{scan.mark}f(\d{{1,4}})">', lambda match: scan.formulas[int(match[1])], body)
    if not shows.has_look:
        language = {key: scan.html_attributes.get(key, "") for key in ("lang", "dir")}
        return document_frame(
            scan.title,
            f"{NO_IMAGES}<style>{_PLAIN_STYLE}</style>",
            body,
            has_viewport=True,
            html="".join(f' {key}="{escape(value)}"' for key, value in language.items() if value),
        )
    head = [] if rewriter.has_images else [NO_IMAGES]
    base_style = f"{_BASE_STYLE}{'body{margin:0}' if scan.has_frameset else ''}"
    if depth and not scan.doctype:
        base_style += _QUIRKS_STYLE
    head.append(f"<style>{base_style}</style>")
    for sheet in scan.sheets:
        media = safe_media(sheet.media)
        condition = f' media="{escape(media)}"' if media else ""
        if not sheet.href:
            style = filter_style(sheet.text, rewriter, budget)
            head.append(f"<style{condition}>{style}</style>" if style else "")
        elif (address := rewriter.sheet(sheet.href)) is not None:
            head.append(f'<link rel="stylesheet" href="{escape(address)}"{condition}>')
    return document_frame(
        scan.title,
        "".join(head),
        body,
        doctype=scan.doctype,
        has_viewport=scan.has_viewport,
        html=_safe_attributes(scan.html_attributes, rewriter),
        body_attributes=_safe_attributes(scan.body_attributes, rewriter),
    )


def sanitise_body(
    text: str, rewriter: ReplayUrlRewriter, *, level: Level = DEFAULT_LEVEL, budget: ParserBudget | None = None
) -> str:
    """Return the markup reduced to what `level` shows; sanitising it again changes nothing."""
    shows = allowlist_of(level)
    keep = _AttributeFilter(rewriter, budget or ParserBudget())
    if shows.has_look:
        return _settled(
            text, lambda markup: _clean(markup, shows, keep), keep, lambda text: _clean(text, shows, None) == text
        )
    return _settled(text, lambda markup: _plain(markup, shows, keep, level), keep, lambda _: False)


class _AttributeFilter:
    """Filter and rewriter of attribute values; when `is_settling`, it keeps only what it has written."""

    def __init__(self, rewriter: ReplayUrlRewriter, budget: ParserBudget) -> None:
        self._image = partial(picture_address, rewriter=rewriter)
        self._link = rewriter.link
        self._media = rewriter.media
        self._style = lru_cache(maxsize=4096)(lambda value: filter_declarations(value, rewriter, budget))
        self._made: set[str] = set()
        self.is_settling = False

    def __call__(self, tag: str, name: str, value: str) -> str | None:
        if name in _CHECKED_ATTRIBUTES:
            if self.is_settling:
                return value if value in self._made else None
            if name == "style":
                filtered = self._style(value)
            elif name == "srcset":
                candidate = _CANDIDATE.fullmatch(value)
                address = self._image(candidate[1]) if candidate else None
                filtered = f"{address} {candidate[2]}" if candidate and address else ""
            elif name == "href":
                filtered = self._link(value) or ""
            else:
                is_media = name == "src" and tag in _PLAYERS
                filtered = (self._media(value) if is_media else self._image(value)) or ""
            if filtered:
                self._made.add(filtered)
            return filtered or None
        if name == "data-weboid-host":  # by which rules of a shadow tree find it
            return value if value.isdecimal() else None
        if name in _BARE_MARKS:
            return ""
        if name in _MARK_VALUES:
            return value if value in _MARK_VALUES[name] else None
        if name in _WRITTEN:  # style sheets select by it; of a script only that it is one
            return _SCRIPT_URL.sub("javascript:", value)
        return None if name.startswith("data-weboid-") else value


def _settled(text: str, clean: Callable[[str], str], keep: _AttributeFilter, is_settled: Callable[[str], bool]) -> str:
    """Apply `clean` until the text no longer changes; text that does not settle is shown as plain text.

    HTML's rules (13.2.6) move misplaced elements, which may move again at the next parsing; browsers must parse what
    was checked (P-02).
    """
    text = clean(text)
    keep.is_settling = True
    if is_settled(text):
        return text
    for _ in range(_MOST_READINGS):
        again = clean(text)
        if again == text:
            return text
        text = again
    return _plain(text, allowlist_of(Level.TEXT), keep, Level.TEXT)


def _plain(markup: str, shows: LevelAllowlist, keep: _AttributeFilter, level: Level) -> str:
    """Return the markup for a level without a look: lines end where blocks did."""
    marked = _clean(markup, replace(shows, tags=shows.tags | BLOCK_ELEMENTS), keep)
    return write_paragraphs(marked) if level is Level.TEXT else break_lines(marked, shows.tags)


def _clean(text: str, shows: LevelAllowlist, keep: _AttributeFilter | None) -> str:
    custom: set[str] = set()
    for match in _CUSTOM.finditer(text) if shows.has_look else ():
        custom.add(match[1])
        if len(custom) >= _MOST_CUSTOM:
            break
    cleaned: str = nh3.clean(
        text,
        tags={*shows.tags, *custom},
        clean_content_tags=set(DROPPED_ELEMENTS - shows.tags),
        attributes={tag: set(names) for tag, names in shows.attributes.items()},
        generic_attribute_prefixes=set(shows.prefixes),
        tag_attribute_values={
            tag: {name: set(values) for name, values in names.items()} for tag, names in shows.values.items()
        },
        set_tag_attribute_values={tag: dict(names) for tag, names in shows.forced.items()},
        attribute_filter=keep,
        link_rel="noreferrer nofollow",
        url_schemes={"http", "https", "data"},
    )
    return _INPUT.sub(_inert, cleaned) if shows.has_look else cleaned


# As nh3 writes it: every value in quotes, and no quote within one.
_INPUT = re.compile(r'<input(?: [^\s=">]+="[^"]*")*>')
_WITHOUT_TEXT = re.compile(r' type="(?:checkbox|radio|range)"')


def _inert(match: re.Match[str]) -> str:
    """Return a control without text and without its greying attribute; it cannot be used either way."""
    text = match[0]
    if WAS_DISABLED in text or not _WITHOUT_TEXT.search(text):
        return text
    return text.replace(' disabled=""', ' inert=""')


def image_document(address: str, title: str) -> str:
    """Return a document that shows one generated image."""
    style = "html{background:#222}body{margin:0}img{display:block;max-width:100%;margin:auto}"
    body = f'<img src="{escape(address)}" alt="{escape(title)}">'
    return document_frame(title, f"<style>{style}</style>", body)


def text_document(text: str, title: str) -> str:
    """Return a document that shows plain text."""
    style = "body{margin:1rem}pre{white-space:pre-wrap;overflow-wrap:anywhere}"
    return document_frame(title, f"<style>{style}</style>", f"<pre>\n{escape(text)}</pre>")


def reading_document(text: str, title: str) -> str:
    """Return a document that shows the visible text of a page; empty lines separate paragraphs."""
    paragraphs = re.split(r"\n[ \t]*\n\s*", re.sub(r"\r\n?", "\n", text).strip())
    body = "".join(f"<p>{escape(each.strip()).replace(chr(10), '<br>')}</p>" for each in paragraphs if each)
    return document_frame(title, f"{NO_IMAGES}<style>{_PLAIN_STYLE}</style>", body, has_viewport=True)


def notice_document(title: str, text: str, *, link: tuple[str, str] | None = None) -> str:
    """Return a notice document; `link` is an address and its text."""
    style = (
        ":root{color-scheme:light dark}body{font:1rem/1.5 system-ui,sans-serif;max-width:34rem;"
        "margin:15vh auto;padding:0 1rem;text-align:center;overflow-wrap:anywhere}h1{font-size:1.25rem}"
    )
    body = f"<h1>{escape(title)}</h1><p>{escape(text)}</p>"
    if link is not None:
        address, words = link
        body += f'<p><a href="{escape(address)}" target="_top">{escape(words)}</a></p>'
    return document_frame(title, f"<style>{style}</style>", body, has_viewport=True)


def document_frame(  # noqa: PLR0913 the parts of one template
    title: str,
    head: str,
    body: str,
    *,
    doctype: str = "<!DOCTYPE html>",
    has_viewport: bool = False,
    html: str = "",
    body_attributes: str = "",
) -> str:
    """Return the complete document; the doctype keeps the layout mode of the original."""
    return "".join(
        (
            doctype,
            f'<html{html}><head><meta charset="utf-8"><title>{escape(title)}</title>',
            '<meta name="viewport" content="width=device-width,initial-scale=1">' if has_viewport else "",
            f"{head}</head><body{body_attributes}>{body}</body></html>\n",
        )
    )


def _safe_attributes(
    attributes: Attributes, rewriter: ReplayUrlRewriter, names: Collection[str] = _ROOT_ATTRIBUTES
) -> str:
    """Return the attributes that affect the look, with a leading space."""
    shown: Attributes = {name: attributes[name] for name in names if name in attributes}
    shown |= {
        name: value
        for name, value in attributes.items()
        if (name.startswith("data-") and name.replace("-", "").isascii() and name.replace("-", "").isalnum())
    }
    if "style" in shown:
        shown["style"] = filter_declarations(shown["style"], rewriter)
    if "background" in shown:
        shown["background"] = picture_address(shown["background"], rewriter) or ""
    return "".join(f' {name}="{escape(value)}"' for name, value in shown.items() if value or name == "hidden")
