"""Fonts, re-encoded by the OpenType Sanitizer that browsers use themselves (P-16)."""

import tempfile

import pyots

FONT_TYPE = "font/sfnt"  # RFC 8081, 4.4.1: outlines of TrueType or of OpenType
# OpenType, WOFF and WOFF2; no collections, no EOT, no fonts in SVG.
_MAGICS = {b"\0\1\0\0", b"true", b"OTTO", b"wOFF", b"wOF2"}


def sanitise_font(data: bytes) -> bytes:
    """Return the font as OpenType with checked tables only; empty when it is damaged or no font.

    Glyphs in SVG, metadata, private data and unknown tables are left out. The parser is C++: call it in
    a maker only.
    """
    if data[:4] not in _MAGICS:
        return b""
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as target:
        source.write(data)
        source.flush()
        result = pyots.sanitize(f"/dev/fd/{source.fileno()}", f"/dev/fd/{target.fileno()}", quiet=True)
        return target.read() if result.sanitized else b""
