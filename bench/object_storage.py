"""Replay of images whose WARC is in a bucket, beside the same images of a local WARC; uploads and verification.

- ``warm_ratio``: images a second from the bucket with a warm cache, by those of local files; the median of rounds.
- ``cold_ratio``: the same with an empty cache, once.
- ``upload_mb_s``, ``verify_mb_s``, ``local_verify_mb_s``: WARC megabytes a second, to the bucket, from it, of local files.

The bucket is that of a SeaweedFS on loopback, whose work is done by the same cores. 300 images of 120 KB, with ``--quick``
100, and 1 GB of WARCs, with ``--quick`` 200 MB.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import io
import random
import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import replace

import httpx
from PIL import Image

from bench import report
from core.clock import SystemClock
from core.layout import COLLECTION_VERSION, Layout
from core.timestamps import timestamp14
from tests.support.playback_fixtures import NOW, CollectionBuilder, running_replay
from tests.support.services.s3_server import running_s3
from warc.checksums import add_missing_sums
from warc.index.sqlite import SqliteCaptureIndex
from warc.object_storage import blocks_folder
from warc.uploads import UploadQueue
from warc.verification import verify_collection

_WIDTH, _HEIGHT = 200, 200  # of an image whose pixels do not shrink


def _collection(root: Path, images: int, megabytes: int) -> Layout:
    """Write images, and WARCs of 100 MB with data that does not shrink."""
    rng = random.Random(1)
    with closing(CollectionBuilder(root)) as builder:
        layout = builder.layout
        layout.marker.write_text(f"version = {COLLECTION_VERSION}\n")
        for number in range(images):
            image = io.BytesIO()
            Image.frombytes("RGB", (_WIDTH, _HEIGHT), rng.randbytes(3 * _WIDTH * _HEIGHT)).save(image, "PNG")
            url = f"https://a.example/{number}.png"
            builder.response(url, image.getvalue(), mime="image/png", warc="images-0.warc.gz")
        for number in range(megabytes // 10):
            url, name = f"https://b.example/{number}", f"large-{number // 10}.warc.gz"
            builder.response(url, rng.randbytes(10_000_000), mime="application/octet-stream", warc=name)
    with closing(SqliteCaptureIndex(layout.captures_db)) as index:
        for path in layout.archive.glob("*.gz"):
            index.cover(path.name, path.stat().st_size)
        add_missing_sums(layout, index)
    return layout


def _images_s(client: httpx.Client, origins: Sequence[str], count: int) -> list[float]:
    """Return images a second of each origin, which are asked in turn, for each image once."""
    taken_s = [0.0] * len(origins)
    for number in range(count):
        for place, origin in enumerate(origins):
            began = time.perf_counter()
            answer = client.get(f"{origin}/c/{timestamp14(NOW)}im_/https://a.example/{number}.png")
            taken_s[place] += time.perf_counter() - began
            if answer.status_code != httpx.codes.OK or len(answer.content) < 3 * _WIDTH * _HEIGHT:
                raise SystemExit(f"Image {number}: {answer.status_code}, {len(answer.content)} bytes.")
    return [count / each for each in taken_s]


def _verify_s(layout: Layout) -> float:
    began = time.perf_counter()
    faults = verify_collection(layout).faults
    if faults:
        raise SystemExit(faults[0].text)
    return time.perf_counter() - began


def main() -> None:
    """Archive, upload, replay; print the figures."""
    quick = report.arguments(__doc__ or "").quick
    images, megabytes, rounds = (100, 200, 5) if quick else (300, 1_000, 9)
    with tempfile.TemporaryDirectory(dir=Path.home()) as folder, ExitStack() as stack:
        local = _collection(Path(folder, "local"), images, megabytes)
        size = sum(path.stat().st_size for path in local.archive.glob("*.gz")) / 1e6
        shutil.copytree(local.root, Path(folder, "stored"))
        stored = Layout(Path(folder, "stored"))
        server = stack.enter_context(running_s3(Path(folder, "s3")))
        settings = replace(server.settings(keep_local="0s"), endpoint_url=f"http://127.0.0.1:{server.port}")
        began = time.perf_counter()
        UploadQueue(stored, settings).upload(SystemClock())
        upload_s = time.perf_counter() - began
        if [*stored.archive.glob("*.gz")]:
            raise SystemExit("There are local WARCs left.")
        client = stack.enter_context(httpx.Client(timeout=30))
        here = stack.enter_context(running_replay(local.root)).origin
        there = stack.enter_context(running_replay(stored.root)).origin
        _images_s(client, [here, there], images)
        shutil.rmtree(blocks_folder(stored.root))
        cold = _images_s(client, [there, here], images)
        pairs = [_images_s(client, [there, here], images) for _ in range(rounds)]
        verify_s, local_verify_s = _verify_s(stored), _verify_s(local)
    figures = {
        "warm_images_s": report.median([ours for ours, _ in pairs]),
        "local_images_s": report.median([baseline for _, baseline in pairs]),
        "warm_ratio": report.median([ours / baseline for ours, baseline in pairs]),
        "cold_ratio": cold[0] / cold[1],
        "upload_mb_s": size / upload_s,
        "verify_mb_s": size / verify_s,
        "local_verify_mb_s": size / local_verify_s,
    }
    rows = [(f"{size:.0f} MB of WARCs, {images} images", "figure", "target")]
    rows += [(name, f"{value:.2f}", ">= 0.9" if name == "warm_ratio" else "") for name, value in figures.items()]
    report.table(rows)
    report.figures("object_storage", figures)


if __name__ == "__main__":
    main()
