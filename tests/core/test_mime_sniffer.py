"""First bytes give a type, headers only a hint, and citations a name (C-13, W66)."""

import gzip
import io
import struct
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

import core.media_types
import core.mime_sniffer
from core.media_types import BINARY, OLE, TEXT, ZIP
from core.mime_sniffer import SNIFF_BYTES, sniff


def archive(*names: str, mimetype: str = "") -> bytes:
    """Return a ZIP archive with these entries, after an entry `mimetype` if given."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        if mimetype:
            file.writestr("mimetype", mimetype)
        for name in names:
            file.writestr(name, "x" * 20)
    return made.getvalue()


def ole(stream: str) -> bytes:
    """Return the head of an OLE compound file whose directory follows it at once."""
    name = "Root Entry".encode("utf-16-le").ljust(128, b"\0") + stream.encode("utf-16-le")
    return b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".ljust(512, b"\0") + name.ljust(256, b"\0")


def iso(brand: bytes, *others: bytes) -> bytes:
    """Return the first box of an ISO media file, `ftyp` with these brands, and the head of the next."""
    body = b"ftyp" + brand + b"\0\0\0\0" + b"".join(others)
    return struct.pack(">I", len(body) + 4) + body + b"\0\0\0\x08free"


OPENXML = "application/vnd.openxmlformats-officedocument."
KNOWN = [
    (b"", ""),
    (b"%PDF-1.7\n", "application/pdf"),
    (b"%!PS-Adobe-3.0\n", "application/postscript"),
    (b"{\\rtf1\\ansi", "application/rtf"),
    (b"AT&TFORM\0\0\0\x10DJVUINFO", "image/vnd.djvu"),
    (b"II*\0\x08\0\0\0", "image/tiff"),
    (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
    (b"RIFF\x10\0\0\0WAVEfmt ", "audio/wav"),
    (b"RIFF\x10\0\0\0AVI LIST", "video/x-msvideo"),
    (b"fLaC\0\0\0\x22", "audio/flac"),
    (b"OggS\0\x02" + b"\0" * 22 + b"\x01vorbis", "audio/ogg"),
    (b"OggS\0\x02" + b"\0" * 22 + b"\x80theora", "video/ogg"),
    (b"OggS\0\x02" + b"\0" * 22, "application/ogg"),
    (b"ID3\x03\0", "audio/mpeg"),
    (b"\xff\xfb\x90\x64\0", "audio/mpeg"),
    (b"\xff\xf1\x50\x80\0", "audio/aac"),
    (iso(b"isom"), "video/mp4"),
    (iso(b"M4A "), "audio/mp4"),
    (iso(b"avif"), "image/avif"),
    (iso(b"mif1", b"avif"), "image/avif"),
    (iso(b"heic"), "image/heic"),
    (iso(b"qt  "), "video/quicktime"),
    (b"\x1aE\xdf\xa3\x9fB\x82\x84webm", "video/webm"),
    (b"\x1aE\xdf\xa3\x9fB\x82\x88matroska", "video/x-matroska"),
    (gzip.compress(b"x", mtime=0), "application/gzip"),
    (b"7z\xbc\xaf\x27\x1c\0\x04", "application/x-7z-compressed"),
    (b"Rar!\x1a\x07\x01\0", "application/vnd.rar"),
    (b"a".ljust(257, b"\0") + b"ustar\x0000", "application/x-tar"),
    (b"\x28\xb5\x2f\xfd\x24", "application/zstd"),
    (b"wOF2\0\x01\0\0", "font/woff2"),
    (b"\0\x01\0\0\0\x0f\0\x80", "font/ttf"),
    (b"\0asm\x01\0\0\0", "application/wasm"),
    (b"SQLite format 3\0", "application/vnd.sqlite3"),
    (b"MZ\x90\0\x03\0\0\0", "application/vnd.microsoft.portable-executable"),
    (b"CWS\x0a", "application/x-shockwave-flash"),
    (archive("a.txt"), ZIP),
    (archive("[Content_Types].xml", "word/document.xml"), OPENXML + "wordprocessingml.document"),
    (archive("[Content_Types].xml", "xl/workbook.xml"), OPENXML + "spreadsheetml.sheet"),
    (archive("_rels/.rels", "ppt/slides/a.xml"), OPENXML + "presentationml.presentation"),
    (archive("a", mimetype="application/epub+zip"), "application/epub+zip"),
    (
        archive("content.xml", mimetype="application/vnd.oasis.opendocument.text"),
        "application/vnd.oasis.opendocument.text",
    ),
    (archive("META-INF/MANIFEST.MF"), "application/java-archive"),
    (ole("WordDocument"), "application/msword"),
    (ole("Workbook"), "application/vnd.ms-excel"),
    (ole("PowerPoint Document"), "application/vnd.ms-powerpoint"),
    (ole("Something"), OLE),
    (b"\n <!DocType\thtml>", "text/html"),
    (b"<!-- a --><html >", "text/html"),
    (b"\xef\xbb\xbf<p>", "text/html"),
    (b"<a href=b>", "text/html"),
    (b"<abbr>", TEXT),
    (b"<?xml version='1.0'?><x/>", "application/xml"),
    (b"<?xml version='1.0'?>\n<!-- a -->\n<rss version='2.0'>", "application/rss+xml"),
    (b"<feed xmlns='http://www.w3.org/2005/Atom'>", "application/atom+xml"),
    (b"<?xml version='1.0'?><!DOCTYPE svg [<!ENTITY a 'b'>]><svg>", "image/svg+xml"),
    (b"<!-- a --><svg xmlns='http://www.w3.org/2000/svg'>", "image/svg+xml"),
    (b"<?xml version='1.0'?><!DOCTYPE html><html xmlns='http://www.w3.org/1999/xhtml'>", "application/xhtml+xml"),
    (b'{"version": "https://jsonfeed.org/version/1.1"}', "application/feed+json"),
    (b'{"a": 1}', "application/json"),
    (b"{a: 1}", TEXT),
    (b"body { color: red }", TEXT),
    (b"\xff\xfeh\0i\0", TEXT),
    ("gr\u00fc\u00dfe".encode(), TEXT),
    (b"\x00\x01\x02\x03\x04\x05", BINARY),
]


@pytest.mark.parametrize(("payload", "mime"), KNOWN)
def test_first_bytes_give_the_type(payload: bytes, mime: str) -> None:
    """Each format by its published marks."""
    assert sniff(payload) == mime


@given(st.binary(max_size=600), st.sampled_from([known for known, _ in KNOWN] + [b"<", b"<!--"]))
def test_whatever_the_bytes_are_nothing_is_raised(payload: bytes, start: bytes) -> None:
    """They are from the web; only the empty one has no type."""
    assert sniff(start + payload) or not start + payload


@given(st.binary(max_size=600), st.binary(max_size=600))
def test_what_comes_after_the_first_bytes_does_not_matter(head: bytes, tail: bytes) -> None:
    """The proxy hands over no more than them."""
    head = head.ljust(SNIFF_BYTES, b"a")
    assert sniff(head) == sniff(head + tail)


@given(st.sampled_from([magic for magic, mime in core.mime_sniffer._MAGIC if mime != OLE]), st.binary())
def test_a_magic_number_decides_whatever_follows_it(magic: bytes, rest: bytes) -> None:
    """A polyglot is what it begins as: never a page, when it begins as none."""
    kinds = {mime for start, mime in core.mime_sniffer._MAGIC if (magic + rest).startswith(start)}
    assert sniff(magic + rest) in {*kinds, "video/x-matroska"}
