"""Makes the held-out pairs again: ``python -m scripts.heldout [SITE]... [--look FOLDER] [--stored]``.

Made pages are changed and pictured in the browser and stored in ``tests/support/heldout/stored``. With ``--look``,
pictures for the eye, seen beside shown, go to a folder.
"""

import argparse
import asyncio
import io
from itertools import groupby
from pathlib import Path

from PIL import Image

from tests.support.heldout.making import HeldOutHandler, make_pairs
from tests.support.heldout.pairs import FOLDER, HeldOut, read_held_out, sites, write_held_out
from tests.support.heldout.plan import planned
from tests.support.labelled.making import launched, served

_WIDTH, _HEIGHT = 340, 420
_COLUMNS = 4


def main() -> None:
    """Make them, and say how large they are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sites", nargs="*", help="only these")
    parser.add_argument("--look", type=Path, help="pictures for the eye go here")
    parser.add_argument("--stored", action="store_true", help="make nothing: only look")
    arguments = parser.parse_args()
    if not arguments.stored:
        asyncio.run(_make(arguments.sites))
    if arguments.look:
        arguments.look.mkdir(parents=True, exist_ok=True)
        for site in arguments.sites or sites():
            _look(list(read_held_out([site])), arguments.look / f"{site}.png")


async def _make(chosen: list[str]) -> None:
    with served(HeldOutHandler) as origin:
        async with launched(None) as browser:
            for site, wanted in groupby(planned(), key=lambda each: each.site):
                if not chosen or site in chosen:
                    pairs = await make_pairs(browser, origin, wanted)
                    size = await asyncio.to_thread(write_held_out, site, pairs)
                    print(f"{site}: {len(pairs)} pairs, {size:,} bytes", flush=True)
    total = sum(path.stat().st_size for path in FOLDER.glob("*.tar.xz"))
    print(f"all together {total:,} bytes")


def _look(pairs: list[HeldOut], path: Path) -> None:
    """Write all pairs of a design to one image: seen and shown side by side, in the plan's order."""
    rows = -(-len(pairs) // _COLUMNS)
    sheet = Image.new("RGB", (_COLUMNS * (2 * _WIDTH + 24), rows * (_HEIGHT + 16)), (255, 0, 255))
    for place, pair in enumerate(pairs):
        x, y = place % _COLUMNS * (2 * _WIDTH + 24), place // _COLUMNS * (_HEIGHT + 16)
        for part, sight in enumerate((pair.seen, pair.shown)):
            with Image.open(io.BytesIO(sight.picture)) as image:
                small = image.convert("RGB")
            high = max(1, round(small.height * _WIDTH / small.width))
            small = small.resize((_WIDTH, high)).crop((0, 0, _WIDTH, _HEIGHT))
            sheet.paste(small, (x + part * (_WIDTH + 4), y))
    sheet.save(path)
    print(path, *(f"{place}:{pair.kind}={pair.label}" for place, pair in enumerate(pairs)))


if __name__ == "__main__":
    main()
