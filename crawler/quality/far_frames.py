"""Frames below the view, put into the picture of a whole page.

The browser draws a frame of another origin only while it is in sight, and what stands in frames of copies
is always of another origin: in a picture of the whole page those far down are empty. So each is brought
into sight, pictured, and pasted where it belongs.
"""

import asyncio
import binascii
import io
from typing import Any

from PIL import Image

from render.dressing import dressed
from render.page import Page

MOST_FRAMES = 20
_FAR = """(most) => {
  const frames = [...Document.prototype.querySelectorAll.call(document, "iframe")];
  const boxes = frames.map((frame) => Element.prototype.getBoundingClientRect.call(frame));
  const isFar = (box) => box.bottom > innerHeight && box.width >= 1 && box.height >= 1;
  return [...boxes.keys()].filter((number) => isFar(boxes[number])).slice(0, most);
}"""
# Where on the page the part of it is that can be seen then: [x, y, width, height], in CSS pixels.
_SHOW = """async (number) => {
  const frame = Document.prototype.querySelectorAll.call(document, "iframe")[number];
  if (!frame) return null;
  Element.prototype.scrollIntoView.call(frame, { block: "center", behavior: "instant" });
  await new Promise((drawn) => {
    setTimeout(drawn, 500);
    requestAnimationFrame(() => requestAnimationFrame(drawn));
  });
  const box = Element.prototype.getBoundingClientRect.call(frame);
  const [left, top] = [Math.max(box.left, 0), Math.max(box.top, 0)];
  const [right, bottom] = [Math.min(box.right, innerWidth), Math.min(box.bottom, innerHeight)];
  if (right - left < 1 || bottom - top < 1) return null;
  return [left + scrollX, top + scrollY, right - left, bottom - top];
}"""
_TOP = "() => scrollTo({ left: 0, top: 0, behavior: 'instant' })"

_Piece = tuple[float, float, bytes]


async def draw_far_frames(page: Page, picture: bytes, scale: float) -> bytes:
    """The picture with the page's frames in it that are not in sight, as a PNG; else as it is.

    Args:
        page: at rest, at its top.
        picture: of the whole page.
        scale: pixels of the picture that a CSS pixel takes.

    Raises:
        CommandError, PageGoneError, BrowserUnavailableError: as `Page.send`.
    """
    numbers = await page.run("far frames", _FAR, MOST_FRAMES)
    if not numbers:
        return picture
    pieces: list[_Piece] = []
    async with dressed(page):
        for number in numbers:
            box = await page.run("frame", _SHOW, number)
            if box is not None:
                pieces.append((box[0], box[1], await _clip(page, box)))
    await page.run("top", _TOP)
    return await asyncio.to_thread(_pasted, picture, pieces, scale)


async def _clip(page: Page, box: list[float]) -> bytes:
    x, y, width, height = box
    clip = {"x": x, "y": y, "width": width, "height": height, "scale": 1}
    answer: dict[str, Any] = await page.send(
        "Page.captureScreenshot", {"format": "png", "optimizeForSpeed": True, "clip": clip}
    )
    return binascii.a2b_base64(answer["data"])


def _pasted(picture: bytes, pieces: list[_Piece], scale: float) -> bytes:
    with Image.open(io.BytesIO(picture)) as opened:
        whole = opened.convert("RGB")
    for x, y, data in pieces:
        with Image.open(io.BytesIO(data)) as piece:
            whole.paste(piece.convert("RGB"), (round(x * scale), round(y * scale)))
    out = io.BytesIO()
    whole.save(out, "PNG", compress_level=1)
    return out.getvalue()
