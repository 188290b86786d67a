"""Pictures of the documentation, which tests make with ``WEBOID_PICTURES=docs/pictures``."""

import io
from collections.abc import Awaitable, Callable
from pathlib import Path

from PIL import Image

from tests.support.browser_screen import BrowserScreen

LOOKS = tuple((size, dark) for size in ((1280, 900), (390, 844)) for dark in (False, True))


def save_picture(picture: Image.Image, path: Path) -> None:
    """Write a small PNG: 256 colours, of which those of large areas stay as they are."""
    colours = picture.convert("RGB").quantize(256, kmeans=1, dither=Image.Dither.NONE)
    colours.save(path, optimize=True)


async def save_sheet(
    path: Path, screen: BrowserScreen, show: Callable[[tuple[int, int], bool], Awaitable[object]]
) -> None:
    """Write a picture of the page that `show` opens in a size and theme: both themes and sizes side by side."""
    shots = []
    for size, dark in LOOKS:
        await show(size, dark)
        height = min(await screen.value("document.documentElement.scrollHeight"), 1_500)
        metrics = {"width": size[0], "height": height, "deviceScaleFactor": 1, "mobile": False}
        await screen.send("Emulation.setDeviceMetricsOverride", **metrics)
        shots.append(Image.open(io.BytesIO(await screen.picture())).convert("RGB").reduce(2))
    width = sum(each.width + 12 for each in shots) - 12
    sheet, place = Image.new("RGB", (width, max(each.height for each in shots)), "grey"), 0
    for shot in shots:
        sheet.paste(shot, (place, 0))
        place += shot.width + 12
    save_picture(sheet, path)
