"""Media type of a payload by its first `SNIFF_BYTES`, in linear time; never raises.

Sources: each format's own specification (by PRONOM and IANA); for pages, feeds and text MIME Sniffing, 7.1 and 5.3.
"""

import re
from itertools import islice

from core.media_types import BINARY, OLE, TEXT, XML, ZIP

SNIFF_BYTES = 4096
HEADER_BYTES = 1445  # all that MIME Sniffing, 5.2, looks at

# Magic numbers at the beginning, by type.
_OF_TYPE: dict[str, tuple[bytes, ...]] = {
    "application/pdf": (b"%PDF-",),
    "application/postscript": (b"%!PS", b"\xc5\xd0\xd3\xc6", b"\x04%!PS"),  # the second with a preview: Adobe TN 5002
    "application/rtf": (b"{\\rtf",),
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/tiff": (b"II*\x00", b"MM\x00*", b"II+\x00", b"MM\x00+"),  # the latter BigTIFF
    "image/vnd.adobe.photoshop": (b"8BPS\x00",),
    "image/x-icon": (b"\x00\x00\x01\x00", b"\x00\x00\x02\x00"),
    "image/jp2": (b"\x00\x00\x00\x0cjP  \r\n\x87\n", b"\xff\x4f\xff\x51"),
    "image/jxl": (b"\x00\x00\x00\x0cJXL \r\n\x87\n", b"\xff\x0a"),
    "image/x-qoi": (b"qoif",),
    "image/vnd.djvu": (b"AT&TFORM",),
    "image/x-xcf": (b"gimp xcf",),
    "application/gzip": (b"\x1f\x8b\x08",),
    "application/x-bzip2": (b"BZh",),
    "application/x-xz": (b"\xfd7zXZ\x00",),
    "application/zstd": (b"\x28\xb5\x2f\xfd",),  # RFC 8878
    "application/x-lz4": (b"\x04\x22\x4d\x18",),
    "application/lzip": (b"LZIP",),
    "application/x-compress": (b"\x1f\x9d",),
    "application/x-7z-compressed": (b"7z\xbc\xaf\x27\x1c",),
    "application/vnd.rar": (b"Rar!\x1a\x07",),
    "application/vnd.ms-cab-compressed": (b"MSCF\x00\x00\x00\x00",),
    "application/x-xar": (b"xar!",),
    "application/vnd.debian.binary-package": (b"!<arch>\ndebian",),
    "application/x-archive": (b"!<arch>\n",),
    "application/x-rpm": (b"\xed\xab\xee\xdb",),
    ZIP: (b"PK\x05\x06", b"PK\x07\x08"),  # an empty one, and a part of a split one
    OLE: (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",),
    "audio/flac": (b"fLaC",),
    "audio/mpeg": (b"ID3",),
    "audio/midi": (b"MThd",),
    "audio/AMR": (b"#!AMR",),
    "audio/basic": (b".snd\x00",),
    "video/webm": (b"\x1aE\xdf\xa3",),
    "video/x-flv": (b"FLV\x01",),
    "application/x-shockwave-flash": (b"FWS", b"CWS", b"ZWS"),
    "video/mpeg": (b"\x00\x00\x01\xba", b"\x00\x00\x01\xb3"),
    "video/x-ms-asf": (b"0&\xb2u\x8ef\xcf\x11\xa6\xd9\x00\xaa\x00b\xcel",),
    "application/vnd.rn-realmedia": (b".RMF\x00",),
    "font/woff": (b"wOFF",),
    "font/woff2": (b"wOF2",),
    "font/otf": (b"OTTO",),
    "font/collection": (b"ttcf",),
    "font/ttf": (b"true\x00", b"\x00\x01\x00\x00\x00"),
    "application/wasm": (b"\x00asm",),
    "application/vnd.sqlite3": (b"SQLite format 3\x00",),
    "application/x-hdf5": (b"\x89HDF\r\n\x1a\n",),
    "application/netcdf": (b"CDF\x01", b"CDF\x02"),
    "application/vnd.apache.parquet": (b"PAR1",),
    "application/x-elf": (b"\x7fELF",),
    "application/java-vm": (b"\xca\xfe\xba\xbe",),
    "application/x-mach-binary": (b"\xcf\xfa\xed\xfe",),
    "application/vnd.ms-htmlhelp": (b"ITSF\x03",),
    "model/gltf-binary": (b"glTF\x02",),
    "application/x-bittorrent": (b"d8:announce",),
    "application/warc": (b"WARC/1.",),
    "text/vcard": (b"BEGIN:VCARD",),
    "text/calendar": (b"BEGIN:VCALENDAR",),
    "text/vtt": (b"WEBVTT",),
}
_MAGIC = [(magic, mime) for mime, magics in _OF_TYPE.items() for magic in magics]
_MAGIC.sort(key=lambda each: -len(each[0]))  # of one first byte, by which they are looked up, the longer ones first
_BY_FIRST = {
    first: tuple(each for each in _MAGIC if each[0][0] == first) for first in {magic[0] for magic, _ in _MAGIC}
}
# Two letters may begin a text: the following bytes must rule that out.
_RIFF = {b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo", b"WEBP": "image/webp"}
_FORM = {b"AIFF": "audio/aiff", b"AIFC": "audio/aiff"}
# ISO/IEC 14496-12, 4.3: the major brand; all others are video.
_BRANDS = {
    b"avif": "image/avif",
    b"avis": "image/avif",
    b"heic": "image/heic",
    b"heix": "image/heic",
    b"hevc": "image/heic-sequence",
    b"mif1": "image/heif",
    b"msf1": "image/heif-sequence",
    b"crx ": "image/x-canon-cr3",
    b"qt  ": "video/quicktime",
    b"M4A ": "audio/mp4",
    b"M4B ": "audio/mp4",
    b"M4P ": "audio/mp4",
    b"F4V ": "video/mp4",
}
_BOXES = (b"moov", b"mdat", b"wide", b"free", b"skip")
_OGG = ((b"\x80theora", "video/ogg"), (b"\x01video", "video/ogg"), (b"\x01vorbis", "audio/ogg"),
        (b"OpusHead", "audio/ogg"), (b"\x7fFLAC", "audio/ogg"), (b"Speex   ", "audio/ogg"))  # fmt: skip

# PKWARE APPNOTE 4.3.7: the local header's name begins 30 bytes after its signature.
_ZIP_ENTRY = re.compile(rb"PK\x03\x04.{22}(..)..", re.DOTALL)
_ZIP_ENTRIES_LIMIT = 64
_ZIP_TYPE = re.compile(rb"[a-z]+/[a-z0-9.+-]+")
_OPENXML = "application/vnd.openxmlformats-officedocument."
_ZIP_FOLDERS = (
    (b"word/", _OPENXML + "wordprocessingml.document"),
    (b"xl/", _OPENXML + "spreadsheetml.sheet"),
    (b"ppt/", _OPENXML + "presentationml.presentation"),
    (b"visio/", "application/vnd.ms-visio.drawing.main+xml"),
    (b"AndroidManifest.xml", "application/vnd.android.package-archive"),
    (b"META-INF/MANIFEST.MF", "application/java-archive"),
    (b"doc.kml", "application/vnd.google-earth.kmz"),
)
# MS-CFB 2.6.1: names of streams are UTF-16LE; MS-DOC, MS-XLS, MS-PPT and MS-OXMSG say which.
_OLE_STREAMS = tuple(
    (name.encode("utf-16-le"), mime)
    for name, mime in (
        ("WordDocument", "application/msword"),
        ("Workbook", "application/vnd.ms-excel"),
        ("PowerPoint Document", "application/vnd.ms-powerpoint"),
        ("VisioDocument", "application/vnd.visio"),
        ("__nameid_version1.0", "application/vnd.ms-outlook"),
    )
)
_SECTOR = re.compile(rb"R\x00o\x00o\x00t\x00 \x00E\x00n\x00t\x00r\x00y\x00")

_BLANKS = b"\t\n\x0c\r "
# MIME Sniffing 7.1: one of these, then a blank or ">".
_HTML = re.compile(
    rb"<(?:!DOCTYPE[\t\n\x0c\r ]+HTML|HTML|HEAD|SCRIPT|IFRAME|H1|DIV|FONT|TABLE|A|STYLE|TITLE|B|BODY"
    rb"|BR|P|META|LINK|NOSCRIPT)[\t\n\x0c\r />]",
    re.IGNORECASE,
)
_ELEMENT = re.compile(rb"<([A-Za-z_][\w.:-]{0,60})([^<>]{0,2000})")
_PROLOG_LIMIT = 32  # comments and instructions before the document element
_ROOTS = {
    b"svg": "image/svg+xml",
    b"rss": "application/rss+xml",
    b"feed": "application/atom+xml",
    b"html": "application/xhtml+xml",
    b"kml": "application/vnd.google-earth.kml+xml",
    b"math": "application/mathml+xml",
    b"urlset": XML,
    b"sitemapindex": XML,
}
_NEEDS_NAMESPACE = {b"feed": b"http://www.w3.org/2005/Atom", b"html": b"http://www.w3.org/1999/xhtml"}
_RDF_FEED = b"http://purl.org/rss/1.0/"
_JSON = re.compile(rb'[\t\n\r ]*\{[\t\n\r ]*"[^"\\\x00-\x1f]{0,200}"[\t\n\r ]*:')
_JSON_FEED = re.compile(rb'"version"[\t\n\r ]*:[\t\n\r ]*"https?:(?://|\\/\\/)jsonfeed\.org(?:/|\\/)version')
# MIME Sniffing 3: the binary data bytes, which do not occur in text.
_BINARY_BYTES = bytes((*range(0x09), 0x0B, *range(0x0E, 0x1B), *range(0x1C, 0x20)))
_UTF_8_MARK = b"\xef\xbb\xbf"
_UTF_16_MARKS = (b"\xfe\xff", b"\xff\xfe")
_MP3_BITRATES = 0xF0


def sniff(beginning: bytes) -> str:
    """Return the bare media type of bytes without coding; `TEXT` or `BINARY` if unknown, empty for no bytes."""
    head = beginning[:SNIFF_BYTES]
    if mime := next(filter(None, (probe(head) for probe in _PROBES)), ""):
        return mime
    if head[:3] == _UTF_8_MARK:
        return _written(head[3:]) or TEXT
    if head[:2] in _UTF_16_MARKS:
        return TEXT
    mime = _written(head)
    if mime or not head:
        return mime
    header = head[:HEADER_BYTES]
    return TEXT if len(header.translate(None, _BINARY_BYTES)) == len(header) else BINARY


def _magic(head: bytes) -> str:
    for magic, mime in _BY_FIRST.get(head[0], ()) if head else ():
        if not head.startswith(magic):
            continue
        if mime == OLE:  # its stream names tell the format, if its directory is within the bytes
            directory = _SECTOR.search(head)
            start = len(head) if directory is None else directory.start()
            return next((each for name, each in _OLE_STREAMS if head.find(name, start) >= 0), OLE)
        if mime == "video/webm" and b"matroska" in head[:64]:
            return "video/x-matroska"
        return mime
    return ""


def _chunked(head: bytes) -> str:
    """Detect IFF and RIFF formats by the four-letter form after the length."""
    return {b"RIFF": _RIFF, b"FORM": _FORM}.get(head[:4], {}).get(head[8:12], "")


def _ogg(head: bytes) -> str:
    if not head.startswith(b"OggS"):
        return ""
    return next((mime for mark, mime in _OGG if mark in head[:512]), "application/ogg")


def _iso_media(head: bytes) -> str:
    if head[4:8] == b"ftyp":
        brand = _BRANDS.get(head[8:12])
        if brand is not None:
            # HEIF's own brand is the major one of many an AVIF; its other brands say so.
            listed = head[16 : min(int.from_bytes(head[:4], "big"), 128)]
            return "image/avif" if brand == "image/heif" and b"avif" in listed else brand
        return "video/3gpp" if head[8:11] in (b"3gp", b"3g2") else "video/mp4"
    return "video/quicktime" if head[4:8] in _BOXES and head[0] == 0 else ""


def _by_offset(head: bytes) -> str:
    """Detect formats whose magic number is not at the beginning, or too short alone."""
    if head[257:262] == b"ustar":
        return "application/x-tar"
    if head[:2] == b"BM" and head[6:10] == b"\0\0\0\0" and head[15:18] == b"\0\0\0":
        return "image/bmp"
    if head[:2] == b"MZ" and b"\0" in head[:64]:
        return "application/vnd.microsoft.portable-executable"
    if head[34:36] == b"LP" and head[8:11] in (b"\0\0\1", b"\1\0\2", b"\2\0\2"):
        return "application/vnd.ms-fontobject"
    synced = head[:1] == head[188:189] == head[376:377] == b"\x47"
    return "video/mp2t" if synced and b"\0" in head[:376] else ""


def _mpeg_audio(head: bytes) -> str:
    """Detect a frame of MPEG audio, or of AAC (ISO/IEC 11172-3, 2.4.1.3; 13818-7, 6.2)."""
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE0 != 0xE0 or head[:2] in _UTF_16_MARKS:
        return ""
    if head[1] & 0xF6 == 0xF0:
        return "audio/aac"
    layer, version = head[1] & 0x06, head[1] & 0x18
    valid = layer and version != 0x08 and head[2] & _MP3_BITRATES != _MP3_BITRATES
    return "audio/mpeg" if valid and head[2] & 0x0C != 0x0C else ""


def _inside_zip(head: bytes) -> str:
    """Detect a ZIP archive's format by its first entries (OPC; ODF 1.3 part 2, 3.3; EPUB OCF, 4.3)."""
    if not head.startswith(b"PK\x03\x04"):
        return ""
    matches = islice(_ZIP_ENTRY.finditer(head), _ZIP_ENTRIES_LIMIT)
    entries = [(at.end(), int.from_bytes(at.group(1), "little")) for at in matches]
    names = [head[begin : begin + min(size, 200)] for begin, size in entries]
    if names and names[0] == b"mimetype":
        stored = _ZIP_TYPE.match(head, entries[0][0] + len(b"mimetype"))
        if stored is not None:
            # Stored uncompressed, so the next entry's signature follows directly.
            return stored.group().decode("ascii")
    for folder, mime in _ZIP_FOLDERS:
        if any(name.startswith(folder) for name in names):
            return mime
    return ZIP


def _written(head: bytes) -> str:
    """Detect HTML, XML vocabularies, or JSON; empty for none."""
    text = head.lstrip(_BLANKS)
    if text[:1] == b"<":
        is_xml = text.startswith(b"<?xml") and text[5:6] in _BLANKS
        at = 0 if not is_xml else _after(text, 0, b"?>")
        commented = False
        for _ in range(_PROLOG_LIMIT):
            at += len(text) - at - len(text[at:].lstrip(_BLANKS))
            if text.startswith(b"<!--", at):
                at, commented = _after(text, at + 4, b"-->"), True
            elif is_xml and text.startswith(b"<?", at):
                at = _after(text, at, b"?>")
            elif not is_xml and _HTML.match(text, at) is not None:
                return "text/html"
            elif text.startswith(b"<!DOCTYPE", at):
                closed, subset = text.find(b">", at), text.find(b"[", at)
                after_subset = _after(text, subset, b"]") if 0 <= subset < closed else at
                at = _after(text, after_subset, b">")
            else:
                break
        return _root_type(text, at) or (XML if is_xml else "text/html" if commented else "")
    if text[:1] != b"{" or _JSON.match(text) is None:
        return ""
    return "application/feed+json" if _JSON_FEED.search(text) else "application/json"


def _after(text: bytes, start: int, end: bytes) -> int:
    """Return the position after `end`; the end of the text when it is not found."""
    offset = text.find(end, start)
    return len(text) if offset < 0 else offset + len(end)


def _root_type(text: bytes, at: int) -> str:
    """Return the type of an XML document by its document element; empty when unknown."""
    root = _ELEMENT.match(text, at)
    if root is None:
        return ""
    name, attributes = root.group(1).rpartition(b":")[2], root.group(2)
    if name == b"RDF" and _RDF_FEED in attributes:
        return "application/rss+xml"
    needed = _NEEDS_NAMESPACE.get(name)
    if needed is not None and needed not in attributes:
        return ""
    return _ROOTS.get(name, "")


_PROBES = (_magic, _inside_zip, _chunked, _ogg, _iso_media, _by_offset, _mpeg_audio)
