"""The texts and pictures that the rule pages are made of."""

import base64
import io
from functools import cache

from PIL import Image

from tests.support.sites import hosts
from tests.support.sites.encodings import incompressible

TEXT = (
    "A link is a promise that somebody else keeps. When the page behind it moves, the promise is "
    "broken quietly, and nobody tells the reader. An archive keeps a copy for that day. "
)

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)

PDF = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
    b"2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 200]/Contents 4 0 R"
    b"/Resources<</Font<</F1<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>>>endobj\n"
    b"4 0 obj<</Length 44>>stream\nBT /F1 18 Tf 20 100 Td (A cited document) Tj ET\nendstream endobj\n"
    b"trailer<</Root 1 0 R/Size 5>>\n%%EOF\n"
)


def page(title: str, body: str, *, head: str = "") -> str:
    """Return a small, well-formed HTML page."""
    return (
        f"<!doctype html>\n<html lang=en><head><meta charset=utf-8><title>{title}</title>{head}</head>\n"
        f"<body>\n<h1>{title}</h1>\n{body}\n</body></html>\n"
    )


@cache
def picture(number: int) -> bytes:
    """Return a JPEG of about 4 KB; a comment segment gives each number bytes of its own."""
    grey = io.BytesIO()
    Image.new("L", (16, 16), 96 + number % 128).save(grey, "JPEG")
    whole = grey.getvalue()
    mark = b"".join(incompressible(4_000, f"picture-{number}"))
    segment = b"\xff\xfe" + (len(mark) + 2).to_bytes(2, "big") + mark
    return whole[:2] + segment + whole[2:]


def _tall(attributes: str, first: int) -> str:
    return "".join(
        f'<p style="height: 700px"><img {attributes.format(n=n)} width=64 height=64 alt="Picture {n}"></p>\n'
        for n in range(first, first + 12)
    )


LAZY = page(
    "Lazy pictures",
    "<p>The first dozen by the attribute, the second by a script that watches the viewport.</p>\n"
    + _tall('loading="lazy" src="/picture/{n}.jpg"', 100)
    + _tall('class="later" data-src="/picture/{n}.jpg"', 200)
    + "<script>\n"
    "const watcher = new IntersectionObserver((entries) => {\n"
    "  for (const entry of entries) {\n"
    "    if (entry.isIntersecting) entry.target.src = entry.target.dataset.src;\n"
    "  }\n"
    "});\n"
    "document.querySelectorAll('img.later').forEach((image) => watcher.observe(image));\n"
    "</script>",
)

FRAMES = page(
    "Frames",
    f'<iframe src="/page/inner" width=300 height=120></iframe>\n'
    f'<iframe src="//{hosts.OTHER}/page/elsewhere" width=300 height=120></iframe>\n'
    f'<iframe src="//{hosts.OTHER}/with/picture/7.jpg" width=300 height=120></iframe>\n'
    "<iframe srcdoc=\"<p>Said in place.</p><img src='/picture/8.jpg' alt=''>\"></iframe>",
)

SCRIPT_BUILT = page(
    "Built by a script",
    "<ul id=list></ul>\n<script>\n"
    "fetch('/data.json').then((answer) => answer.json()).then((data) => {\n"
    "  for (const name of data.items) {\n"
    "    const item = document.createElement('li');\n"
    "    item.textContent = name;\n"
    "    document.getElementById('list').append(item);\n"
    "  }\n"
    "  document.title = 'Built: ' + data.items.length;\n"
    "});\n</script>",
)


def typeface_page() -> str:
    """Return a page whose text is set in a web font of its own."""
    head = (
        "<style>@font-face { font-family: Brought; src: url(/font.ttf) } body { font-family: Brought, serif }</style>"
    )
    return page("Set in a font of its own", f"<p>{TEXT}</p>", head=head)
