"""CSS filter: style sheets through an allow-list, with a fast path for plain rules.

tinycss2 parses as CSS Syntax Level 3 specifies for browsers; only listed constructs are written again. A ``url()``
leads to our image route, an ``@import`` to our style route. Nothing is kept that could load from elsewhere or stay
fixed over the window. The fast path gives the same results (test_css_prescan.py).
"""

import re
from collections.abc import Iterable, Iterator
from copy import copy
from functools import lru_cache
from itertools import dropwhile
from typing import Any

import tinycss2
from tinycss2.ast import AtKeywordToken, FunctionBlock, IdentToken, ParseError, URLToken
from tinycss2.bytes import decode_stylesheet_bytes

from playback.replay.sanitizer import css_rules
from playback.replay.sanitizer.allowlist import NAMES
from playback.replay.sanitizer.rasterizer import picture_address
from playback.url_paths import ReplayUrlRewriter

# A sheet with one of these is left to the parser whole: escapes, NUL, what CSS took from SGML, and
# ranges of characters.
_ODD = re.compile(r"[\\\x00\r\f]|<!--|-->|[uU]\+")
_MARK = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'|/\*.*?\*/|url\([^\"'()\s]*\)|[\"'{}()\[\];]|/\*", re.DOTALL | re.IGNORECASE)
_AT_RULE = re.compile(r"\s*@")
_CLOSERS = {")": "(", "]": "[", "}": "{"}

_NAME = r"[A-Za-z_][A-Za-z0-9_-]*"
_COMPOUND = rf"(?:\*|{_NAME})(?:(?:[.#]|::?){_NAME})*|(?:(?:[.#]|::?){_NAME})+"
_RULE = re.compile(
    rf"\s*((?:{_COMPOUND})(?:[ \n\t]*[,>+~ \n\t][ \n\t]*(?:{_COMPOUND}))*[ \n\t]*)"
    r"\{([A-Za-z0-9#%.,:;!()\"'/?&=+~_ \n\t-]*)\}\s*"
)
_NUMBER = r"-?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:px|r?em|%|v[hw]|pt|m?s|deg|fr|ch)?"
_ADDRESS = r"[A-Za-z0-9./:?&=%+~_-]+"
URL = re.compile(rf"url\((?:\"({_ADDRESS})\"|'({_ADDRESS})'|({_ADDRESS}))\)")
_COLOUR = rf"(?:rgb|hsl)a?\({_NUMBER}(?:, ?{_NUMBER}){{2,3}}\)"
_WORD = (
    rf"(?:#[0-9A-Fa-f]{{3,8}}|{_NUMBER}|-?[A-Za-z][A-Za-z-]*(?!\()|{_COLOUR}"
    rf"|var\(--[A-Za-z0-9_-]+\)|url\((?:\"{_ADDRESS}\"|'{_ADDRESS}'|{_ADDRESS})\))"
)
_DECLARATION = re.compile(
    rf"[ \n\t]*((?:--)?[A-Za-z][A-Za-z-]*)[ \n\t]*:[ \n\t]*({_WORD}(?:(?: |, ?){_WORD})*)[ \n\t]*(!important)?[ \n\t]*"
)

Declaration = tuple[str, str, bool]


def split_rules(text: str) -> Iterator[str]:
    """Yield the sheet in pieces of whole rules; in one piece when rule ends are unclear."""
    if _ODD.search(text):
        yield text
        return
    start, open_marks = 0, list[str]()
    for mark in _MARK.finditer(text):
        symbol = mark[0]
        if len(symbol) > 1 and symbol != "/*":
            continue
        if symbol in "\"'" or symbol == "/*":  # does not end
            break
        if symbol in "({[":
            open_marks.append(symbol)
            continue
        if symbol == ";":
            ends = not open_marks and _AT_RULE.match(text, start) is not None
        elif not open_marks or open_marks.pop() != _CLOSERS[symbol]:
            break
        else:
            ends = symbol == "}" and not open_marks
        if ends:
            yield text[start : mark.end()]
            start = mark.end()
    if start < len(text):
        yield text[start:]


def plain_declarations(text: str) -> list[Declaration] | None:
    """Return lower-cased name, value and importance of plain declarations; None for others."""
    declarations: list[Declaration] = []
    for piece in text.split(";"):
        if not piece or piece.isspace():
            continue
        if (one := _DECLARATION.fullmatch(piece)) is None:
            return None
        name = one[1] if one[1].startswith("--") else one[1].lower()
        declarations.append((name, one[2], one[3] is not None))
    return declarations


MOST_PARSED = 2_000_000  # characters that the parser reads for one document
_DEEPEST = 24  # nested blocks; style sheets of people reach five

_PROPERTIES: frozenset[str] = NAMES["css"]["properties"]
_FUNCTIONS: frozenset[str] = NAMES["css"]["functions"]
_GROUP_RULES: frozenset[str] = NAMES["css"]["group_rules"]
_PROPERTY_FAMILIES = re.compile(
    r"(?:-(?:webkit|moz|ms|o)-)?(?:border|column|columns|counter|font-variant|grid|inset|list-style"
    r"|margin|padding|scroll-margin|scroll-padding|text|transition|animation|mask|overscroll"
    r"|box|container|corner|line-clamp|offset|row-rule|rule|font-smoothing"
    r"|osx-font-smoothing|text-size-adjust)(?:-[a-z]+)*"
)
_VENDOR = re.compile(r"^-(?:webkit|moz|ms|o)-")
_OF_LAYERS = {"ident", "literal", "whitespace", "comment"}  # names, full stops, commas
_IMAGE_SET = {"image-set", "-webkit-image-set"}
_DESCRIPTORS: dict[str, frozenset[str]] = NAMES["css_descriptors"]
_POSITIONS: frozenset[str] = NAMES["css"]["positions"]
_MEDIA = re.compile(r"[A-Za-z0-9 ,:()./<>=-]{1,500}")


def filter_sheet(data: bytes, charset: str | None, rewriter: ReplayUrlRewriter) -> str:
    """Return the filtered style sheet, from its stored bytes and their HTTP charset."""
    text, _ = decode_stylesheet_bytes(data, protocol_encoding=charset)
    return filter_style(text, rewriter)


class ParserBudget:
    """Characters of CSS that the parser may still read for one document; plain rules need no parser.

    It takes one to two seconds for a million characters (P-21). What exceeds the budget is left out.
    """

    def __init__(self, most: int = MOST_PARSED) -> None:
        self._left = most

    def take(self, text: str) -> bool:
        """Return True when the text may be parsed, and count it."""
        if len(text) > self._left:
            return False
        self._left -= len(text)
        return True


def filter_style(text: str, rewriter: ReplayUrlRewriter, budget: ParserBudget | None = None) -> str:
    """Return the filtered text of a style element; it cannot end the element."""
    budget = budget or ParserBudget()
    written: list[str] = []
    pending: list[str] = []  # for the parser, for which one large chunk is cheaper than many small ones

    def parse() -> None:
        if pending:
            rules = "".join(pending)
            written.append(filter_parsed(rules, rewriter) if budget.take(rules) else "")
            pending.clear()

    for piece in split_rules(text):
        rule = _RULE.fullmatch(piece)
        plain = None if rule is None or _ODD.search(rule[1]) else plain_declarations(rule[2])
        if rule is None or plain is None:
            pending.append(piece)
        else:
            parse()
            block = _write_plain(plain, rewriter, budget)
            selector = css_rules.replace_elements(css_rules.rewrite_states(rule[1]))
            written.append(f"{selector}{{{block}}}" if block else "")
    parse()
    return "\n".join(rules for rules in written if rules)


def filter_parsed(text: str, rewriter: ReplayUrlRewriter) -> str:
    """Return the result of `filter_style` without the fast path."""
    rules = tinycss2.parse_stylesheet(text, skip_comments=True, skip_whitespace=True)
    written = (_write_rule(rule, rewriter, 0) for rule in rules)
    return "\n".join(text for text in written if text)


def filter_declarations(text: str, rewriter: ReplayUrlRewriter, budget: ParserBudget | None = None) -> str:
    """Return the filtered value of a style attribute; may be empty."""
    budget = budget or ParserBudget()
    if (plain := plain_declarations(text)) is not None:
        return _write_plain(plain, rewriter, budget)
    return filter_parsed_declarations(text, rewriter) if budget.take(text) else ""


def filter_parsed_declarations(text: str, rewriter: ReplayUrlRewriter) -> str:
    """Return the result of `filter_declarations` without the fast path."""
    nodes = tinycss2.parse_blocks_contents(text, skip_comments=True, skip_whitespace=True)
    return "".join(_write_declaration(node, rewriter) for node in nodes if node.type == "declaration")


def safe_media(text: str) -> str:
    """Return a plain media query list unchanged, others as ``not all``; empty stays empty."""
    text = " ".join(text.split())
    return text if not text or _MEDIA.fullmatch(text) else "not all"


def _write_rule(rule: Any, rewriter: ReplayUrlRewriter, depth: int) -> str:
    if rule.type not in {"qualified-rule", "at-rule"}:
        return ""
    keyword = rule.lower_at_keyword if rule.type == "at-rule" else ""
    if keyword == "import":
        return _write_import(rule, rewriter) if depth == 0 else ""
    if _is_unfit(rule.prelude, 0):
        return ""
    if rule.content is None or keyword == "font-face" or keyword in _DESCRIPTORS:
        return _write_plain_rule(rule, keyword, rewriter)
    if (keyword and _VENDOR.sub("", keyword) not in _GROUP_RULES) or depth >= _DEEPEST:
        return ""
    block = "".join(
        _write_declaration(node, rewriter) if node.type == "declaration" else _write_rule(node, rewriter, depth + 1)
        for node in tinycss2.parse_blocks_contents(rule.content, skip_comments=True, skip_whitespace=True)
    )
    if keyword in {"", "scope"}:
        prelude = css_rules.rewrite_states(css_rules.serialise(css_rules.selector_tokens(rule.prelude)))
    else:
        prelude = css_rules.serialise(rule.prelude)
    before = f"@{keyword}{prelude}" if keyword else prelude
    return f"{before}{{{block}}}" if block else ""


def _is_unfit(tokens: Iterable[Any], depth: int) -> bool:
    """Return True when the prelude of a block has invalid tokens."""
    return depth > _DEEPEST or any(
        isinstance(token, ParseError | AtKeywordToken | URLToken)
        or css_rules.is_url_function(token)
        or _is_unfit(getattr(token, "arguments", getattr(token, "content", ())), depth + 1)
        for token in tokens
    )


def _write_plain_rule(rule: Any, keyword: str, rewriter: ReplayUrlRewriter) -> str:
    """Return a rule without nested rules: names of layers, or descriptors."""
    if keyword == "font-face":
        return css_rules.write_font_face(rule, rewriter) if rewriter.has_fonts else ""
    if rule.content is not None:
        # A registered custom property or a style of counters; left out when it names a URL.
        nodes = tinycss2.parse_blocks_contents(rule.content, skip_comments=True, skip_whitespace=True)
        known = _DESCRIPTORS[keyword]
        descriptors = [each for each in nodes if each.type == "declaration" and each.lower_name in known]
        if any(_is_unfit(each.value, 0) for each in descriptors):
            return ""
        block = "".join(f"{each.lower_name}:{css_rules.serialise(each.value).strip()};" for each in descriptors)
        return f"@{keyword}{css_rules.serialise(rule.prelude)}{{{block}}}"
    if keyword != "layer" or any(token.type not in _OF_LAYERS for token in rule.prelude):
        return ""
    return f"@layer{css_rules.serialise(rule.prelude)};"


def _write_import(rule: Any, rewriter: ReplayUrlRewriter) -> str:
    tokens = [token for token in rule.prelude if token.type != "comment"]
    tokens = [*dropwhile(lambda token: token.type == "whitespace", tokens)]
    if not tokens or rule.content is not None:
        return ""
    target = rewriter.sheet(css_rules.url_of(tokens[0]) or "")
    if target is None or css_rules.UNQUOTABLE.search(target):
        return ""
    condition = safe_media(tinycss2.serialize(tokens[1:]))
    return f'@import url("{target}") {condition};'


def _write_plain(declarations: Iterable[Declaration], rewriter: ReplayUrlRewriter, budget: ParserBudget) -> str:
    parts = []

    def shown(url: re.Match[str]) -> str:
        return str(css_rules.url_token(picture_address(url[1] or url[2] or url[3], rewriter)).representation)

    for name, value, is_important in declarations:
        if not _is_allowed(name):
            continue
        is_variable = name.startswith("--") and "url(" in value
        if css_rules.is_masking(name) or css_rules.is_mask_twin(name) or is_variable:
            important = " !important" if is_important else ""
            if budget.take(value):
                parts.append(filter_parsed_declarations(f"{name}:{value}{important}", rewriter))
            continue
        text = value
        if "(" in value:
            try:
                text = URL.sub(shown, value)
            except css_rules.TokenNotAllowedError:
                continue
        parts.append(_as_written(name, name, text, is_important=is_important))
    return "".join(parts)


@lru_cache(maxsize=1024)
def _is_allowed(name: str) -> bool:
    return (
        name.startswith("--") or _VENDOR.sub("", name) in _PROPERTIES or _PROPERTY_FAMILIES.fullmatch(name) is not None
    )


def _write_declaration(node: Any, rewriter: ReplayUrlRewriter) -> str:
    name = node.lower_name
    if not _is_allowed(name) or css_rules.is_mask_twin(node.name):
        return ""
    tokens, twin_text = node.value, ""
    try:
        if css_rules.is_masking(name):
            tokens, rewriter = css_rules.masking_tokens(name, tokens), rewriter.masking
        elif name.startswith("--"):
            twin_text = css_rules.serialise(_rewritten(tokens, rewriter.masking, 0, allow_attr=False)).strip()
        value = _rewritten(tokens, rewriter, 0, allow_attr=name == "content")
    except css_rules.TokenNotAllowedError:
        return ""
    # tinycss2 keeps a custom property's name as written, and its case counts.
    written, text = node.lower_name, css_rules.serialise(value).strip()
    if name.startswith("--"):
        written = css_rules.escape_end(tinycss2.serialize([node]).partition(":")[0])
    shown = _as_written(name, written, text, is_important=node.important)
    if twin_text and twin_text != text:
        shown += _as_written(name, css_rules.mask_twin(written), twin_text, is_important=node.important)
    return shown


def _as_written(name: str, written: str, text: str, *, is_important: bool) -> str:
    plain = _VENDOR.sub("", name) if name.startswith("-") else name
    if plain == "position":
        # P-09: if fixed, it would cover whatever its reader scrolls to.
        text = "absolute" if text.lower() == "fixed" else text
        if text.lower() not in _POSITIONS:
            return ""
    if plain == "content-visibility" and text.lower() == "auto":
        text = "visible"  # otherwise browsers omit content that was out of view at the screenshot
    if plain == "cursor" and "url(" in text:
        return ""  # a pointer that points elsewhere
    return f"{written}:{text}{' !important' if is_important else ''};"


def _rewritten(
    tokens: list[Any],
    rewriter: ReplayUrlRewriter,
    depth: int,
    allow_attr: bool,  # noqa: FBT001 private and recursive
) -> list[Any]:
    """Return the tokens with URLs rewritten to our routes; TokenNotAllowedError for others."""
    if depth > _DEEPEST:
        raise css_rules.TokenNotAllowedError
    return [_rewritten_token(token, rewriter, depth, allow_attr) for token in tokens]


def _rewritten_token(token: Any, rewriter: ReplayUrlRewriter, depth: int, allow_attr: bool) -> Any:  # noqa: FBT001 private and recursive
    if isinstance(token, ParseError | AtKeywordToken):
        raise css_rules.TokenNotAllowedError
    if isinstance(token, URLToken) or css_rules.is_url_function(token):
        return css_rules.url_token(picture_address(css_rules.url_of(token) or "", rewriter))
    if isinstance(token, FunctionBlock) and token.lower_name in _IMAGE_SET:
        # One picture of the set is enough, and its first is the one for every screen.
        inside = css_rules.without_blanks(token.arguments)
        return css_rules.url_token(picture_address((css_rules.url_of(inside[0]) if inside else None) or "", rewriter))
    if isinstance(token, FunctionBlock):
        if token.lower_name not in _FUNCTIONS and not (allow_attr and token.lower_name == "attr"):
            raise css_rules.TokenNotAllowedError
        if token.lower_name == "attr":  # attr(name) is text; a typed one could become an address
            inside = css_rules.without_blanks(token.arguments)
            if len(inside) != 1 or inside[0].type != "ident":
                raise css_rules.TokenNotAllowedError
            if inside[0].lower_value in css_rules.WRITTEN_ATTRIBUTES:
                inside = [IdentToken(0, 0, css_rules.WRITTEN + inside[0].lower_value)]
            return FunctionBlock(0, 0, "attr", inside)
        token = copy(token)
        token.arguments = _rewritten(token.arguments, rewriter, depth + 1, allow_attr=False)
    elif hasattr(token, "content"):  # a block in parentheses, brackets or braces
        token = copy(token)
        token.content = _rewritten(token.content, rewriter, depth + 1, allow_attr)
    return token
