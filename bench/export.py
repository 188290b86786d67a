"""Export of a large collection as WACZ: megabytes a second and memory, beside `cp` of the same WARCs.

- ``export_mb_s``: WARC megabytes a second through `weboid export`, all of its time included.
- ``export_cpu_s_gb``: processor seconds of that for a gigabyte.
- ``copy_mb_s``: the same files by `cp` to the same disk.
- ``selected_mb_s``: records of half of the pages, which are copied one by one.
- ``export_rss_mb``: the largest resident set of the command.

One WARC of a gigabyte is synthesised, of which the others are hard links: 20 GB, with ``--quick`` 2 GB.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import os
import random
import resource
import shutil
import subprocess
import tempfile
import time
from contextlib import closing
from dataclasses import replace

from bench import report
from core.layout import COLLECTION_VERSION, Layout
from tests.support.playback_fixtures import CollectionBuilder

_PAYLOAD_BYTES = 2_000_000
_PAYLOADS = 500


def _collection(root: Path, copies: int) -> Layout:
    """Write a WARC of a gigabyte, link it, and index each link as captures of pages of its own."""
    dice = random.Random(1)
    with closing(CollectionBuilder(root)) as builder:
        builder.layout.marker.write_text(f"version = {COLLECTION_VERSION}\n")
        captures = [
            builder.response(
                f"https://site-0.example/{number}",
                dice.randbytes(_PAYLOAD_BYTES),
                mime="application/octet-stream",
                warc="captures-00000.warc.gz",
            )
            for number in range(_PAYLOADS)
        ]
        first = builder.layout.archive / "captures-00000.warc.gz"
        for copy in range(copies):
            name = f"captures-{copy:05}.warc.gz"
            if copy:
                os.link(first, first.with_name(name))
            for number, capture in enumerate(captures):
                url = f"https://site-{copy}.example/{number}"
                page = builder.page(url, title=f"Page {number} of {copy}")
                location = replace(capture.location, filename=name)
                key = f"example,site-{copy})/{number}"
                if copy:
                    builder.index(replace(capture, url=url, urlkey=key, location=location, page_id=page))
        return builder.layout


def _seconds(*command: str) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    os.sync()
    return time.perf_counter() - began


def main() -> None:
    """Synthesise, export, copy; print the figures."""
    quick = report.arguments(__doc__ or "").quick
    copies = 2 if quick else 20
    with tempfile.TemporaryDirectory(dir=Path.home()) as folder:
        root, out = Path(folder, "collection"), Path(folder, "out")
        layout = _collection(root, copies)
        warcs = [str(each) for each in sorted(layout.archive.glob("captures-*"))]
        megabytes = sum(Path(each).stat().st_size for each in warcs) / 1e6
        out.mkdir()
        copied_s = _seconds("cp", *warcs, str(out))
        shutil.rmtree(out)
        program = [sys.executable, "-m", "weboid", "export", "--collection", str(root), "--force"]
        file = str(Path(folder, "all.wacz"))
        before = os.times()
        exported_s = _seconds(*program, file)
        usage = os.times()
        cpu_s = usage.children_user + usage.children_system - before.children_user - before.children_system
        hosts = [each for n in range(copies // 2) for each in ("--host", f"site-{n}.example")]
        selected_s = _seconds(*program, file, *hosts)
        rss_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3
    figures = {
        "export_mb_s": megabytes / exported_s,
        "export_cpu_s_gb": cpu_s / megabytes * 1e3,
        "copy_mb_s": megabytes / copied_s,
        "selected_mb_s": megabytes * (copies // 2) / copies / selected_s,
        "export_rss_mb": rss_mb,
    }
    targets = {"export_mb_s": ">= 300", "export_rss_mb": "<= 200"}
    report.table(
        [(f"{megabytes / 1e3:.0f} GB", "figure", "target")]
        + [(name, f"{value:.4g}", targets.get(name, "")) for name, value in figures.items()]
    )
    report.figures("export", figures)


if __name__ == "__main__":
    main()
