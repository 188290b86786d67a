"""Masks: of a small picture its shape, for a browser that fetches with CORS, and nothing else of it."""

import io

import pytest
from PIL import Image

from core.timestamps import timestamp14
from playback.access.levels import Level
from tests.playback.access.test_level_targets import decide, host_of
from tests.support.playback_fixtures import NOW, ReplayedCollection, png

pytestmark = pytest.mark.playback

MASK = f"/c/{timestamp14(NOW)}mk_"
SVG = b"<svg xmlns='http://www.w3.org/2000/svg' width='8' height='8'><script/><rect width='4' height='8' fill='red'/></svg>"
ASKED = {"Sec-Fetch-Dest": "image", "Sec-Fetch-Mode": "cors", "Origin": "null"}


def saved(image: Image.Image, kind: str) -> bytes:
    with io.BytesIO() as buffer:
        image.save(buffer, kind)
        return buffer.getvalue()


@pytest.mark.parametrize("kind", ["svg", "png", "webp", "gif"])
def test_a_mask_is_the_shape_of_a_picture_and_no_colour(archived: ReplayedCollection, site: str, kind: str) -> None:
    """Re-encoded as black: who may not read the picture reads only where it is (P-02, P-16)."""
    half = Image.new("RGBA", (8, 8))
    half.paste((255, 0, 0, 255), (0, 0, 4, 8))
    body = SVG if kind == "svg" else saved(half, kind.upper())
    archived.builder.response(f"{site}/x", body, headers=(("Set-Cookie", "a=b"),))

    reply = archived.replay.get(f"{MASK}/{site}/x", headers=ASKED)

    assert (reply.status, reply["Content-Type"]) == (200, "image/png; role=mask")
    assert reply["Access-Control-Allow-Origin"] == "*"
    with Image.open(io.BytesIO(reply.body)) as image:
        shape = image.convert("RGBA")
    assert shape.size == (8, 8)
    assert (shape.getpixel((1, 1)), shape.getpixel((6, 6))) == ((0, 0, 0, 255), (0, 0, 0, 0))
    known = archived.replay.get(f"{MASK}/{site}/x", headers={**ASKED, "If-None-Match": reply["ETag"]})
    assert (known.status, known["Access-Control-Allow-Origin"]) == (304, "*")


@pytest.mark.parametrize(
    "body",
    [
        png(size=(1_000, 300)), b"<html><script>1</script>", b"\x89PNG\r\n\x1a\n", png()[:40], b"",
        b"<svg xmlns='http://www.w3.org/2000/svg' width='999' height='999'/>",
        png() + b"\0" * 200_001,
    ],
    ids=["large", "html", "empty", "cut", "nothing", "large-svg", "long"],
)  # fmt: skip
def test_what_is_no_small_picture_is_no_mask(archived: ReplayedCollection, site: str, body: bytes) -> None:
    """Absent, and readable by nobody."""
    archived.builder.response(f"{site}/x", body, mime="image/png")

    reply = archived.replay.get(f"{MASK}/{site}/x", headers=ASKED)

    assert reply.status == 404
    assert "Access-Control-Allow-Origin" not in dict(reply.headers)


def test_masks_are_for_pages_where_pictures_are(archived: ReplayedCollection, site: str) -> None:
    """Nobody opens one, no screenshot is one, and the picture itself stays unreadable."""
    archived.builder.page(f"{site}/", "<p>x", shot=png())
    archived.builder.response(f"{site}/x", png(), mime="image/png")
    mask = f"{MASK}/{site}/x"

    for destination in ("document", "iframe", "style", "empty"):
        assert archived.replay.get(mask, headers={"Sec-Fetch-Dest": destination}).status == 404
    assert archived.replay.get(f"{MASK}/urn:view:{site}/", headers=ASKED).status == 404
    picture = archived.replay.get(mask.replace("mk_", "im_"), headers=ASKED)
    assert (picture.status, "Access-Control-Allow-Origin" in dict(picture.headers)) == (200, False)
    assert archived.replay.get(mask).status == 200
    decide(archived.builder, Level.HTML, domain=host_of(site))
    assert archived.replay.get(mask).status == 404
