"""Media types: declared against sniffed, and short format names for citations.

Many formats have several registered names, and some are containers of another (an office document is
a ZIP archive). Where the bytes agree with the declared type, the declared name is better; where they do
not, the sniffed type counts (C-13).
"""

import re

from core.mime_sniffer import BINARY, OLE, TEXT, XML, ZIP

_TEXTUAL = re.compile(
    r"text/.*|application/(?:(?:x-)?(?:java|ecma)script|json|(?:x-)?yaml|xml|xml-dtd|x-sh|x-tex|sql"
    r"|x-www-form-urlencoded|x-subrip|vnd\.apple\.mpegurl|x-mpegurl|csv|graphql|manifest|toml|x-bibtex"
    r"|x-research-info-systems|x-httpd-php|javascript-module|importmap|speculationrules|n-triples"
    r"|(?:x-)?latex|pgp-.*|pem-.*|x-pem-file|x-perl|x-python|mbox)|audio/(?:x-)?mpegurl"
    r"|message/.*|multipart/.*|model/.*|.*\+(?:json|xml|yaml|json-seq)|image/svg\+xml|image/x-xpixmap"
)
_XML_LIKE = re.compile(r"text/xml|application/xml|.*\+xml|text/html|text/x-opml|text/vnd\.wap\.wml")
_JSON_LIKE = re.compile(
    r"text/(?:x-)?json|application/(?:x-)?json|.*\+json(?:-seq)?|text/javascript|.*/(?:x-)?javascript"
)
_ZIP_LIKE = re.compile(
    r".*\+zip|application/(?:vnd\..*|x-zip|x-zip-compressed|java-archive|x-java-archive|x-xpinstall"
    r"|x-chrome-extension|x-cbz|x-mobipocket-ebook|zip)|model/.*"
)
_OLE_LIKE = re.compile(
    r"application/(?:vnd\.(?:ms|microsoft|msword|msexcel|visio).*|x?-?ms.*|x-msi|x-hwp.*)|text/ms-?word"
)
# What may be declared of something that looks like the key.
_MADE_OF = {
    ZIP: _ZIP_LIKE,
    OLE: _OLE_LIKE,
    XML: _XML_LIKE,
    "application/json": _JSON_LIKE,
    "application/feed+json": _JSON_LIKE,
    # A piece of a page begins as a page does.
    "text/html": re.compile(r"text/(?:x-component|template|x-handlebars.*)|multipart/related"),
}


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Names of one format, or of the family that a container's first bytes tell no more of.
_SAME = tuple(
    _names(names)
    for names in (
        "video/mp4 audio/mp4 application/mp4 video/x-m4v audio/x-m4a audio/m4a audio/aac"
        " audio/mpeg4-generic application/mpg4 video/quicktime video/3gpp video/3gpp2 audio/3gpp"
        " video/iso.segment video/mpeg4",
        "application/ogg audio/ogg video/ogg audio/opus audio/vorbis audio/x-ogg audio/speex",
        "video/webm audio/webm video/x-matroska audio/x-matroska video/matroska audio/matroska",
        "audio/mpeg audio/mp3 audio/x-mp3 audio/x-mpeg audio/mpeg3 audio/mpg audio/x-mpeg-3 audio/mpa",
        "audio/wav audio/x-wav audio/wave audio/vnd.wave audio/x-pn-wav",
        "audio/aac audio/aacp audio/x-aac",
        "audio/flac audio/x-flac",
        "audio/aiff audio/x-aiff",
        "audio/midi audio/mid audio/x-midi",
        "video/x-msvideo video/avi video/msvideo",
        "video/mp2t video/vnd.dlna.mpeg-tts",
        "video/mpeg video/mpg video/x-mpeg",
        "video/x-ms-asf video/x-ms-wmv audio/x-ms-wma application/vnd.ms-asf",
        "image/jpeg image/jpg image/pjpeg image/x-citrix-jpeg",
        "image/png image/apng image/x-png image/vnd.mozilla.apng",
        "image/x-icon image/vnd.microsoft.icon image/ico",
        "image/bmp image/x-ms-bmp image/x-bmp",
        "image/tiff image/tiff-fx image/tif image/x-tiff image/x-adobe-dng image/x-nikon-nef"
        " image/x-canon-cr2",
        "image/heic image/heif image/heic-sequence image/heif-sequence",
        "image/vnd.djvu image/vnd-djvu image/x-djvu image/x.djvu",
        "image/jp2 image/jpx image/jpm image/j2k image/jpeg2000",
        "image/vnd.adobe.photoshop image/psd image/x-psd application/x-photoshop",
        "application/pdf application/x-pdf application/xpdf application/acrobat"
        " application/vnd.adobe.pdf application/vnd.pdf text/pdf application/illustrator",
        "application/postscript application/eps application/x-eps image/eps image/x-eps"
        " application/illustrator",
        "application/rtf text/rtf application/x-rtf text/richtext",
        "application/gzip application/x-gzip application/x-tgz application/x-gtar"
        " application/x-compressed application/x-compressed-tar application/tar+gzip"
        " application/x-gunzip image/svg+xml-compressed application/warc",
        "application/x-bzip2 application/x-bzip application/bzip2 application/x-bzip-compressed-tar",
        "application/x-xz application/xz application/x-xz-compressed-tar",
        "application/zstd application/x-zstd",
        "application/vnd.rar application/x-rar application/x-rar-compressed application/rar",
        "application/x-tar application/tar",
        "application/x-7z-compressed application/7z",
        "application/x-shockwave-flash application/vnd.adobe.flash-movie application/flash"
        " application/x-flash video/flash video/x-flash application/vnd.adobe.flash.movie",
        "application/vnd.debian.binary-package application/x-debian-package application/x-deb",
        "application/vnd.microsoft.portable-executable application/x-msdownload"
        " application/x-dosexec application/x-msdos-program application/exe application/x-exe",
        "application/vnd.sqlite3 application/x-sqlite3 application/vnd.sqlite",
        "font/woff application/font-woff application/x-font-woff",
        "font/woff2 application/font-woff2 application/x-font-woff2",
        "font/ttf font/otf font/sfnt application/x-font-ttf application/x-font-otf"
        " application/font-sfnt application/x-font-truetype application/x-font-opentype"
        " application/font-otf application/font-ttf",
        "text/html application/xhtml+xml application/vnd.wap.xhtml+xml",
        "application/rss+xml application/atom+xml application/rdf+xml text/xml application/xml",
    )
)


def is_textual(mime: str) -> bool:
    """Return True for a type of text."""
    return _TEXTUAL.fullmatch(mime) is not None


def types_agree(sniffed: str, declared: str) -> bool:
    """Return True when a payload sniffed as `sniffed` may be of the declared type."""
    if not sniffed or not declared:
        return False
    if sniffed == declared or any(sniffed in names and declared in names for names in _SAME):
        return True
    if sniffed == TEXT:
        return is_textual(declared)
    if sniffed == BINARY:
        return not is_textual(declared)
    made_of = _MADE_OF.get(sniffed)
    return made_of is not None and made_of.fullmatch(declared) is not None


def effective_type(sniffed: str, declared: str) -> str:
    """Return the media type to use.

    >>> effective_type("application/pdf", "text/html"), effective_type("text/plain", "text/css")
    ('application/pdf', 'text/css')
    >>> effective_type("application/zip", "application/octet-stream")
    'application/zip'
    """
    if not sniffed:
        return declared
    return declared if types_agree(sniffed, declared) else sniffed


def identified_type(sniffed: str, declared: str) -> str:
    """Return the value of WARC-Identified-Payload-Type (WARC/1.1); empty: no header.

    It is the sniffed type, never the declared one. Text and unknown types give no header, unless another
    type was declared.
    """
    if sniffed in (TEXT, BINARY) and types_agree(sniffed, declared):
        return ""
    return sniffed


# What every browser shows, or what pages are made of: citations say nothing of it.
_USUAL = _names(
    "text/html application/xhtml+xml text/plain text/xml application/xml image/svg+xml image/png"
    " image/apng image/gif image/jpeg image/jpg image/pjpeg image/webp image/avif image/x-icon"
    " image/vnd.microsoft.icon image/bmp text/javascript application/javascript"
    " application/x-javascript application/json application/rss+xml application/atom+xml"
    " application/feed+json"
)
_NAMES = {
    name: format_
    for format_, names in (
        ("mpeg", "audio/mpeg audio/mp3 video/mpeg"),
        ("ogg", "audio/ogg application/ogg video/ogg"),
        ("mpeg4", "audio/mpeg4-generic application/mp4 application/mpg4 video/mp4 audio/mp4"),
        ("rtf", "application/rtf text/rtf"),
        ("tiff", "image/tiff"),
        ("djvu", "image/vnd-djvu image/vnd.djvu"),
        ("css", "text/css"),
        ("csv", "text/csv"),
        ("zip", "application/zip application/x-zip application/x-zip-compressed"),
        ("gzip", "application/gzip application/x-gzip"),
        (
            "flash",
            "application/vnd.adobe.flash-movie application/flash application/x-flash"
            " application/x-shockwave-flash video/flash video/x-flash",
        ),
        (
            "pdf",
            "application/pdf application/x-pdf application/xpdf application/acrobat"
            " application/vnd.adobe.pdf",
        ),
        ("postscript", "application/postscript"),
        (
            "msexcel",
            "application/vnd.microsoft.excel application/vnd.msexcel application/vnd.ms-excel"
            " application/x-msexcel application/msexcel application/ms-excel",
        ),
        (
            "mspowerpoint",
            "application/vnd.microsoft.mspowerpoint application/vnd.microsoft.powerpoint"
            " application/vnd.ms-powerpoint application/mspowerpoint application/ms-powerpoint",
        ),
        (
            "msword",
            "application/vnd.microsoft.msword application/vnd.microsoft.word"
            " application/vnd.msword application/vnd.ms-word application/msword"
            " application/ms-word text/msword text/ms-word",
        ),
    )
    for name in _names(names)
}


def format_name(mime: str) -> str:
    """Return a citation's short format name for a type that is not a page (W66).

    Returns:
        Empty for what every browser shows; ``binary`` for what has no name of its own.

    >>> format_name("application/PDF"), format_name("text/html"), format_name("font/ttf")
    ('pdf', '', 'binary')
    """
    bare = mime.partition(";")[0].strip().lower()
    if bare in _USUAL:
        return ""
    return _NAMES.get(bare, "binary")
