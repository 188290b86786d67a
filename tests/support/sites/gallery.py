"""The gallery: pages of 91 small subresources, each page with URLs and payloads of its own.

The worst case for whatever stands between a browser and the web: many small responses, nothing
that a cache or a digest could save. Payloads are a function of the page's number and the item's
number, so two runs serve the same bytes.
"""

import io
import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from PIL import Image

from tests.support.sites.http1 import Answer, SiteReply, SiteRequest, response

STYLES = 6
SCRIPTS = 6
JPEGS = 60
PNGS = 19
SUBRESOURCES = STYLES + SCRIPTS + JPEGS + PNGS  # 91
VARIANTS = 8  # pictures made once; every item is one of them with a mark of its own

_SIZES = ((64, 48), (96, 72), (112, 84), (128, 96), (144, 108), (160, 120), (176, 132), (192, 144))
_KINDS = (("css", STYLES), ("js", SCRIPTS), ("jpg", JPEGS), ("png", PNGS))
_TYPES = {"css": "text/css", "js": "text/javascript", "jpg": "image/jpeg", "png": "image/png"}


@dataclass(frozen=True, slots=True)
class _ResourceKind:
    """Kind of subresource: bytes before and after its mark."""

    before: bytes
    after: bytes
    mark: Callable[[bytes], bytes]

    def payload(self, name: str) -> bytes:
        return self.before + self.mark(name.encode()) + self.after


def gallery(request: SiteRequest) -> Answer:
    """Answer ``/gallery/<n>`` and its items ``/gallery/<n>/<k>.<ext>``."""
    parts = request.path.split("/")
    if len(parts) == 3 and parts[1] == "gallery" and parts[2].isdigit():
        return response(body=_page(int(parts[2])))
    if len(parts) == 4 and parts[1] == "gallery" and parts[2].isdigit():
        return _item(parts[2], parts[3])
    if request.path == "/favicon.ico":
        return response(404, "No icon.")
    return response(404, "<h1>No such gallery</h1>")


def subresources(number: int) -> list[str]:
    """Return the paths of the 91 subresources of gallery `number`, in the page's order."""
    return [f"/gallery/{number}/{index}.{extension}" for extension, count in _KINDS for index in range(count)]


def _page(number: int) -> str:
    paths = subresources(number)
    styles = "".join(f'<link rel="stylesheet" href="{p}">\n' for p in paths if p.endswith("css"))
    scripts = "".join(f'<script src="{p}"></script>\n' for p in paths if p.endswith("js"))
    images = "".join(
        f'<figure><img src="{p}" alt="Picture {p}"></figure>\n' for p in paths if p.endswith(("jpg", "png"))
    )
    return (
        f"<!doctype html>\n<html lang=en>\n<head><meta charset=utf-8><title>Gallery {number}</title>\n"
        f"{styles}</head>\n<body>\n<h1>Gallery {number}</h1>\n<main>\n{images}</main>\n{scripts}"
        f'<p><a href="/gallery/{number + 1}">The next gallery</a></p>\n</body>\n</html>\n'
    )


def _item(number: str, name: str) -> SiteReply:
    index, _, extension = name.partition(".")
    if extension not in _TYPES or not index.isdigit():
        return response(404, "No such item.")
    item = _items(extension)[int(index) % VARIANTS]
    body = item.payload(f"{number}/{name}")
    head = (
        b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nCache-Control: max-age=3600\r\n"
        b'ETag: "%b-%b"\r\nContent-Length: %d\r\n'
        % (_TYPES[extension].encode(), number.encode(), index.encode(), len(body))
    )
    return SiteReply(head, body)


@cache
def _items(extension: str) -> tuple[_ResourceKind, ...]:
    make = {"css": _style, "js": _script, "jpg": _jpeg, "png": _png}[extension]
    return tuple(make(variant) for variant in range(VARIANTS))


def _noise(variant: int, size: tuple[int, int]) -> Image.Image:
    """Return a picture of soft colours under grain, the same for the same variant."""
    grain = random.Random(variant)
    width, height = size
    pixels = bytearray()
    for y in range(height):
        for x in range(width):
            jitter = grain.randrange(48)
            pixels += bytes(
                ((x * 160 // width + jitter) % 256, (y * 160 // height + jitter) % 256, (variant * 24 + jitter) % 256)
            )
    return Image.frombytes("RGB", size, bytes(pixels))


def _jpeg(variant: int) -> _ResourceKind:
    data = io.BytesIO()
    _noise(variant, _SIZES[variant]).save(data, "JPEG", quality=75)
    whole = data.getvalue()

    def comment(mark: bytes) -> bytes:
        # A COM segment (ITU T.81, B.2.4.5) right after the start of the image.
        return b"\xff\xfe" + (len(mark) + 2).to_bytes(2, "big") + mark

    return _ResourceKind(whole[:2], whole[2:], comment)


def _png(variant: int) -> _ResourceKind:
    data = io.BytesIO()
    size = (_SIZES[variant][0] // 2, _SIZES[variant][1] // 2)
    _noise(variant, size).save(data, "PNG")
    whole = data.getvalue()
    header_end = 8 + 25  # the signature and the IHDR chunk

    def text(mark: bytes) -> bytes:
        body = b"tEXtComment\0" + mark
        return (len(body) - 4).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")

    return _ResourceKind(whole[:header_end], whole[header_end:], text)


def _style(variant: int) -> _ResourceKind:
    grain = random.Random(variant)
    rules = "".join(
        f".c{variant}-{index} {{ margin: {grain.randrange(99)}px; color: #{grain.randrange(1 << 24):06x} }}\n"
        for index in range(60 + 30 * variant)
    )
    common = "figure { display: inline-block; margin: 2px } img { height: 72px }\n"
    return _ResourceKind(b"/* ", f" */\n{common}{rules}".encode(), bytes)


def _script(variant: int) -> _ResourceKind:
    grain = random.Random(variant)
    table = ",".join(str(grain.randrange(10**9)) for _ in range(180 + 120 * variant))
    text = f'";\n  window["t" + {variant}] = [{table}];\n  return mark;\n}})();\n'
    return _ResourceKind(b'(function () {\n  const mark = "', text.encode(), bytes)
