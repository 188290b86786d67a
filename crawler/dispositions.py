"""The name that a response gives its file: Content-Disposition (RFC 6266), leniently read (pure)."""

import re
from urllib.parse import unquote_to_bytes

NAME_LIMIT_CHARS = 255
_VALUE_LIMIT_CHARS = 4_000
# A parameter: its value a token, or quoted (RFC 6266, 4.1); nothing here is matched twice.
_PARAMETER = re.compile(
    r';[ \t]*+(filename\*?)[ \t]*+=[ \t]*+("(?:[^"\\]|\\.)*+"?|[^;]*+)', re.IGNORECASE
)
_QUOTED_PAIR = re.compile(r"\\(.)")
_EXTENDED = re.compile(r"(utf-8|iso-8859-1)'[^']*'(.*)", re.IGNORECASE)  # RFC 8187, 3.2
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def attachment_name(value: str) -> str:
    """The file's name, without a path; empty when the header gives none.

    >>> attachment_name('attachment; filename="a b.pdf"')
    'a b.pdf'
    >>> attachment_name("attachment; filename=x.txt; filename*=UTF-8''%e2%82%ac.txt")
    '€.txt'
    """
    found: dict[str, str] = {}
    for name, given in _PARAMETER.findall(";" + value[:_VALUE_LIMIT_CHARS].partition("\n")[0]):
        found.setdefault(name.lower(), given.strip())
    # The extended one goes first (RFC 6266, 4.3).
    text = _decoded(found.get("filename*", "")) or _plain(found.get("filename", ""))
    last = _UNSEEN.sub("", text).replace("\\", "/").rpartition("/")[2]
    return last.strip()[:NAME_LIMIT_CHARS]


def _decoded(value: str) -> str:
    extended = _EXTENDED.fullmatch(value.strip('"'))
    if extended is None:
        return ""
    return unquote_to_bytes(extended[2]).decode(extended[1], "replace")


def _plain(value: str) -> str:
    if value.startswith('"'):
        value = _QUOTED_PAIR.sub(r"\1", value[1:].removesuffix('"'))
    try:
        # Headers are read as Latin-1; most servers send UTF-8.
        return value.encode("latin-1").decode("utf-8")
    except (UnicodeEncodeError, UnicodeDecodeError):
        return value
