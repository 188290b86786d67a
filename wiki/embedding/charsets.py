"""Which bytes a page is written in: told by its server, by itself, or found out.

Only where a link's address holds bytes beyond ASCII does it matter which of them; but a page whose
bytes do not contain ASCII cannot be read here, and is left alone.
"""

import re

_ASCII_WITHIN = re.compile(
    r"utf-?8|windows-(?:125\d|874|949|31j)|cp(?:125\d|866)|iso-?8859-?\d{1,2}|latin\d|l\d|us-ascii|ascii"
    r"|koi8-[ru]|macintosh|gbk|gb2312|gb18030|big5(?:-hkscs)?|euc-(?:jp|kr)|shift[-_]jis|sjis"
    r"|ks_c_5601-1987|tis-620|ibm866"
)
# The names that the WHATWG Encoding Standard gives to a larger encoding.
_LARGER = {
    "ascii": "windows-1252", "us-ascii": "windows-1252", "iso-8859-1": "windows-1252",
    "iso8859-1": "windows-1252", "latin1": "windows-1252", "l1": "windows-1252",
    "iso-8859-9": "windows-1254", "latin5": "windows-1254", "iso-8859-11": "windows-874",
    "tis-620": "windows-874", "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932",
    "shift-jis": "cp932", "sjis": "cp932", "windows-31j": "cp932", "euc-kr": "cp949",
    "ks_c_5601-1987": "cp949", "windows-949": "cp949", "windows-874": "cp874",
    "macintosh": "mac-roman", "big5": "big5hkscs",
}  # fmt: skip
_WITHOUT_ASCII = re.compile(r"utf-?(?:16|32|7)|ucs-|iso-2022-|hz-gb|csiso2022|unicode", re.ASCII)
_META = re.compile(
    rb"<meta\b[^>]{0,500}?charset\s{0,9}=\s{0,9}[\"']?([\w:.-]{1,40})", re.IGNORECASE
)
_HEAD = 1_024  # how far a browser looks for it (WHATWG HTML, 13.2.3.2)


def charset_of(data: bytes, declared: str = "") -> str | None:
    r"""The codec of a page's bytes; None when they do not contain ASCII, or cannot be read.

    Args:
        data: the page, or its beginning.
        declared: what its server said; empty when it said nothing.

    >>> charset_of(b"<meta charset=latin1>"), charset_of(b"\xff\xfe<\0")
    ('cp1252', None)
    """
    if data.startswith(b"\xef\xbb\xbf"):
        return "utf-8"
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return None
    for known in (_known(declared), _said(data)):
        if known != "":
            return known
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def _said(data: bytes) -> str | None:
    """What the page itself says; empty when it says nothing."""
    meta = _META.search(data, 0, _HEAD)
    label = "" if meta is None else meta[1].decode("ascii", "replace").lower()
    # It was read as ASCII, so that is not true (WHATWG HTML, 13.2.3.2).
    return "utf-8" if label.startswith("utf-16") else _known(label)


def _known(label: str) -> str | None:
    """The codec that a label names; None for one without ASCII, empty for one that names none."""
    label = label.strip("\t\n\f\r \"'").lower()
    if _WITHOUT_ASCII.match(label):
        return None
    if not _ASCII_WITHIN.fullmatch(label):
        return ""
    codec = _LARGER.get(label, label)
    codec = codec.replace("windows-", "cp") if codec.startswith("windows-12") else codec
    try:
        "a".encode(codec)
    except LookupError:
        return ""
    return codec
