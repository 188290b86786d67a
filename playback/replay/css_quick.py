"""Plain style rules, read without a parser: most of every style sheet (P-21, and a page in 50 ms).

What is read here is what the parser would read, token for token; whatever could be read otherwise is
left to it. `tests/playback/test_css_quick.py` holds both to the same answers.
"""

import re
from collections.abc import Iterator

# A sheet with one of these is left to the parser whole: escapes, NUL, what CSS took from SGML, and
# ranges of characters.
_ODD = re.compile(r"[\\\x00\r\f]|<!--|-->|[uU]\+")
_MARK = re.compile(
    r"\"[^\"\n]*\"|'[^'\n]*'|/\*.*?\*/|url\([^\"'()\s]*\)|[\"'{}()\[\];]|/\*",
    re.DOTALL | re.IGNORECASE,
)
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
    """The sheet in pieces, each of whole rules; in one, when where a rule ends is not plain."""
    if _ODD.search(text):
        yield text
        return
    start, open_marks = 0, list[str]()
    for mark in _MARK.finditer(text):
        what = mark[0]
        if len(what) > 1 and what != "/*":
            continue
        if what in "\"'" or what == "/*":  # does not end
            break
        if what in "({[":
            open_marks.append(what)
            continue
        if what == ";":
            ends = not open_marks and _AT_RULE.match(text, start) is not None
        elif not open_marks or open_marks.pop() != _CLOSERS[what]:
            break
        else:
            ends = what == "}" and not open_marks
        if ends:
            yield text[start : mark.end()]
            start = mark.end()
    if start < len(text):
        yield text[start:]


def plain_rule(text: str) -> tuple[str, list[Declaration]] | None:
    """The selector and declarations of a plain rule; None for whatever is not one."""
    rule = _RULE.fullmatch(text)
    if rule is None or _ODD.search(rule[1]):
        return None
    declarations = plain_declarations(rule[2])
    return None if declarations is None else (rule[1], declarations)


def plain_declarations(text: str) -> list[Declaration] | None:
    """Name, in small letters but for custom properties, value, and whether it is important, of plain declarations."""
    found: list[Declaration] = []
    for piece in text.split(";"):
        if not piece or piece.isspace():
            continue
        one = _DECLARATION.fullmatch(piece)
        if one is None:
            return None
        name = one[1] if one[1].startswith("--") else one[1].lower()
        found.append((name, one[2], one[3] is not None))
    return found
