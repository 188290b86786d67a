"""Makes the labelled pairs again: ``python -m scripts.labelled [SITE]... [--look FOLDER] [--made]``.

Pages of made and of real sites are changed and pictured in the browser and stored in
``tests/support/labelled/stored``. With ``--look``, pictures for the eye, seen beside shown, go to a folder.
"""

import argparse
import asyncio
import io
from contextlib import ExitStack
from pathlib import Path

from PIL import Image

from tests.support.labelled.making import made, make, real, served
from tests.support.labelled.pairs import FOLDER, LabelledPair, read_pairs, write_pairs
from tests.support.sites.web import TestWeb

_THUMB = (360, 560)


def main() -> None:
    """Make them, and say how large they are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sites", nargs="*", help="only these")
    parser.add_argument("--look", type=Path, help="pictures for the eye go here")
    parser.add_argument("--made", action="store_true", help="no real sites")
    parser.add_argument("--stored", action="store_true", help="make nothing: only look")
    arguments = parser.parse_args()
    if not arguments.stored:
        asyncio.run(_make(set(arguments.sites), real_too=not arguments.made))
    if arguments.look:
        arguments.look.mkdir(parents=True, exist_ok=True)
        for site in arguments.sites or sorted({each.site for each in read_pairs()}):
            _look(list(read_pairs([site])), arguments.look / f"{site}.png")


async def _make(chosen: set[str], *, real_too: bool) -> None:
    with ExitStack() as stack:
        origin = stack.enter_context(served())
        web = stack.enter_context(TestWeb.start()) if real_too else None
        materials = made(origin) + (real(web) if web is not None else [])
        async for name, pairs in make(materials, chosen, web):
            size = await asyncio.to_thread(write_pairs, name, pairs)
            print(f"{name}: {len(pairs)} pairs, {size:,} bytes", flush=True)
    total = sum(path.stat().st_size for path in FOLDER.glob("*.tar.xz"))
    print(f"all together {total:,} bytes")


def _look(pairs: list[LabelledPair], path: Path) -> None:
    """Write all pairs of a site to one image: seen and shown side by side, in the order of kinds."""
    width, height = _THUMB
    columns = 4
    rows = -(-len(pairs) // columns)
    sheet = Image.new("RGB", (columns * (2 * width + 24), rows * (height + 16)), (255, 0, 255))
    for place, pair in enumerate(pairs):
        x, y = place % columns * (2 * width + 24), place // columns * (height + 16)
        for part, data in enumerate((pair.seen, pair.shown)):
            with Image.open(io.BytesIO(data)) as image:
                small = image.convert("RGB")
            scale = width / small.width
            small = small.resize((width, max(1, round(small.height * scale))))
            sheet.paste(small.crop((0, 0, width, height)), (x + part * (width + 4), y))
    sheet.save(path)
    print(path, *(f"{place}:{pair.kind}" for place, pair in enumerate(pairs)))


if __name__ == "__main__":
    main()
