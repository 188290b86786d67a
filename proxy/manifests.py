"""Reading a page's manifest back from the WARC that holds it, open or closed."""

import io

from warcio.archiveiterator import ArchiveIterator
from warcio.exceptions import ArchiveLoadFailed

from core.errors import InputError
from core.layout import Layout
from core.pages import PageInfo, parse_pageinfo
from proxy.index.protocol import CaptureIndex

MANIFEST_LIMIT_BYTES = 64 << 20  # compressed; ten thousand links and resources take a few MB


def read_manifest(layout: Layout, index: CaptureIndex, page_id: str) -> PageInfo | None:
    """The page's manifest; None when the index does not know it, or its record cannot be read."""
    place = index.manifest_place(page_id)
    return None if place is None else read_manifest_at(layout, *place)


def read_manifest_at(layout: Layout, filename: str, offset: int, length: int) -> PageInfo | None:
    """Return the manifest that lies there; None when its record cannot be read."""
    if length > MANIFEST_LIMIT_BYTES:
        return None
    data = _slice(layout, filename, offset, length)
    try:
        for record in ArchiveIterator(io.BytesIO(data)):
            return parse_pageinfo(record.content_stream().read())
    except (ArchiveLoadFailed, InputError, OSError, EOFError):
        return None
    return None


def _slice(layout: Layout, filename: str, offset: int, length: int) -> bytes:
    """These bytes of the WARC; empty when it is not here."""
    for path in layout.warc(filename):
        try:
            with path.open("rb") as file:
                file.seek(offset)
                return file.read(length)
        except OSError:
            continue
    return b""
