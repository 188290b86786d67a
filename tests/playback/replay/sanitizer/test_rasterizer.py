"""Pictures: what their headers must say, and what SVG may ask for when it is drawn (P-02, P-16, P-21)."""

import base64
import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.support.playback_fixtures import NOW, ReplayedCollection, png

pytestmark = pytest.mark.playback

Call = Callable[[str, list[object]], Any]
SVG = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" {}>{}</svg>'
GREEN = '<rect width="100" height="100" fill="#0f0"/>'


def drawn(in_replay: Call, text: str | bytes, **options: object) -> Image.Image | None:
    """Return the SVG as replay draws it; None when it is not drawn."""
    data = text.encode() if isinstance(text, str) else text
    made = in_replay("raster_svg", [base64.b64encode(data).decode(), options])
    if not made:
        return None
    with Image.open(io.BytesIO(base64.b64decode(made))) as image:
        return image.convert("RGBA")


@pytest.mark.parametrize(
    ("attributes", "size"),
    [
        ('width="24" height="12"', (24, 12)),
        ('width="24px" height="12px" viewBox="0 0 240 120"', (24, 12)),
        ('viewBox="0 0 100 50"', (100, 50)),
        ('width="100%" height="100%" viewBox="0,0,40,20"', (40, 20)),
        ('width="50" viewBox="0 0 100 60"', (50, 30)),
        ('width="1in"', (96, 150)),
        ("", (300, 150)),
    ],
)
def test_a_drawing_has_its_own_size(in_replay: Call, attributes: str, size: tuple[int, int]) -> None:
    """As a browser lays it out: its lengths, else its view box, else 300 by 150."""
    image = drawn(in_replay, SVG.format(attributes, GREEN))

    assert image is not None
    assert image.size == size


def test_a_drawing_can_be_sharper_and_coloured(in_replay: Call) -> None:
    """Two pixels for each of its own, and the colour of the text around it."""
    text = SVG.format('width="10" height="10"', '<rect width="9" height="9" fill="currentColor"/>')
    image = drawn(in_replay, text, scale=2.0, colour="rgb(0, 0, 255)")

    assert image is not None
    assert image.size == (20, 20)
    assert image.getpixel((4, 4)) == (0, 0, 255, 255)


@pytest.mark.parametrize("family", ["sans-serif", "serif", "monospace", "Nobody Has This", "Arial,sans-serif"])
def test_the_words_of_a_drawing_are_written(in_replay: Call, family: str) -> None:
    """In a typeface of this machine, when the one that it names does not exist."""
    words = f'<text y="15" font-family="{family}" font-weight="700">mW</text>'
    image = drawn(in_replay, SVG.format('width="40" height="20"', words))

    assert image is not None
    assert len(image.getcolors(900) or []) > 3


@pytest.mark.parametrize(
    "inside",
    [
        '<image href="{file}" width="9" height="9"/>',
        '<image xlink:href="file://{file}" width="9" height="9"/>',
        '<image xlink:href="{file}" width="9" height="9"/>',
        '<g><a xlink:href="{file}"><image href="../../../../../../..{file}" width="9" height="9"/></a></g>',
        '<filter id="f"><feImage href="{file}"/></filter><rect width="9" height="9" filter="url(#f)"/>',
        '<use href="{file}#x"/><image width="9" height="9" xml:base="/tmp/" xlink:href="{file}"/>',
        '<image width="9" height="9" href="data:image/svg+xml;base64,{nested}"/>',
    ],
    ids=range(7),
)
def test_a_drawing_opens_no_file(in_replay: Call, tmp_path: Path, inside: str) -> None:
    """Files that a drawing refers to are not drawn; resvg itself would open them (P-02)."""
    file = tmp_path / "secret.png"
    file.write_bytes(png("red", (9, 9)))
    nested = SVG.format("", f'<image href="{file}" width="9" height="9"/>').encode()
    text = inside.format(file=file, nested=base64.b64encode(nested).decode())

    image = drawn(in_replay, SVG.format('width="9" height="9"', text))

    assert image is not None
    assert {colour[0] for _, colour in image.getcolors(99) or [] if isinstance(colour, tuple)} == {0}


def test_a_raster_image_within_a_drawing_is_drawn(in_replay: Call) -> None:
    """It lies in the document itself, and is what it says it is."""
    inner = base64.b64encode(png("red", (9, 9))).decode()
    text = f'<image width="9" height="9" href="data:image/png;base64,{inner}"/>'
    image = drawn(in_replay, SVG.format('width="9" height="9"', text))

    assert image is not None
    assert image.getpixel((4, 4)) == (255, 0, 0, 255)


_LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 9))
_USES = "".join(
    f'<g id="g{n}">{f"<use href=#g{n - 1} />" * 10}</g>'.replace("=#g" + str(n - 1), f'="#g{n - 1}"')
    for n in range(1, 9)
)


@pytest.mark.parametrize(
    "text",
    [
        f'<!DOCTYPE svg [<!ENTITY l0 "ha">{_LAUGHS}]>' + SVG.format("", "<text>&l8;</text>"),
        '<!DOCTYPE svg [<!ENTITY x SYSTEM "file:///etc/passwd">]>' + SVG.format("", "<text>&x;</text>"),
        '<!DOCTYPE svg [<!ENTITY % x "a">%x;]>' + SVG.format("", GREEN),
        "<!DOCTYPE svg>" + SVG.format("", GREEN) + "<!DOCTYPE a>",
        f'<!DOCTYPE svg [<!ENTITY a "{"x" * 300}">]>' + SVG.format("", "&a;" * 60_000),
        SVG.format("", '<rect id="g0"/>' + _USES + '<use href="#g8"/>'),
        SVG.format("", '<g id="a"><use href="#b"/></g><g id="b"><use href="#a"/></g>'),
        SVG.format("", "<g>" * 5_000 + "</g>" * 5_000),
        SVG.format('width="100000" height="100000"', GREEN),
        SVG.format('width="1" height="1e9" viewBox="0 0 1 900000000"', GREEN),
        SVG.format("", "<g/>" * 200_000),
        SVG.format("", "<g>"),
        "<html xmlns='http://www.w3.org/1999/xhtml'/>",
        "",
    ],
    ids=range(14),
)
def test_a_drawing_that_asks_for_too_much_is_not_drawn(in_replay: Call, text: str) -> None:
    """Entities, copies of copies, loops, depth, size; or no drawing at all (P-21)."""
    assert drawn(in_replay, text) is None


def test_old_drawing_programs_name_their_namespaces_by_entities(in_replay: Call) -> None:
    """Plain values are put in their place."""
    text = (
        '<?xml version="1.0" encoding="utf-8"?><!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://x/'
        'svg11.dtd" [<!ENTITY ns_svg "http://www.w3.org/2000/svg"><!ENTITY w "9">]>'
        f'<svg xmlns="&ns_svg;" width="&w;" height="9">{GREEN}<script>1</script></svg>'
    )
    image = drawn(in_replay, text)

    assert image is not None
    assert image.getpixel((4, 4)) == (0, 255, 0, 255)


@pytest.mark.parametrize("packed", [False, True])
def test_an_svg_of_a_page_is_served_as_png(archived: ReplayedCollection, site: str, packed: bool) -> None:
    """Whatever type it was sent with; drawn by a maker, and never sent as itself (P-16)."""
    body = SVG.format('width="9" height="9" onload="alert(1)"', GREEN).encode()
    archived.builder.response(f"{site}/x.svg", gzip.compress(body) if packed else body, mime="image/svg+xml")

    reply = archived.replay.get(f"/c/{NOW:%Y%m%d%H%M%S}im_/{site}/x.svg")

    assert reply["Content-Type"] == "image/png"
    with Image.open(io.BytesIO(reply.body)) as image:
        assert image.convert("RGB").getpixel((4, 4)) == (0, 255, 0)
