"""warcprox's protocol, ours beside stock warcprox: requests a second of brozzler's mix.

A page is 40 requests by https with the headers of a browser and brozzler's Warcprox-Meta (dedup bucket, counters,
a limit, metadata): a document of 60 KB, 24 of 8 KB, 12 of 30 KB and 3 of 200 KB, of which 8 are the same on every
page; then its screenshot and thumbnail as records. Pages are loaded by 8 connections. Both get the same origin,
client and order, one after the other, in several rounds; the ratio is taken within a round, the median is the figure.

The clock stops when everything is archived: ours when ``/status`` has counted all, each after its batch was forced to
disk; stock when its WARC has grown to hold all bodies. Stock runs with its own defaults: no gzip, SHA-1, no fsync.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import json
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection

import psutil

from bench import report
from bench.certificate import write_certificate
from bench.proxy import REFERENCE_PYTHON, ROOT, child, cpu_of
from bench.proxy_client import ProxyLoadClient
from bench.turns import take_turns

SIZES = (60_000, *(8_000,) * 24, *(30_000,) * 12, *(200_000,) * 3)
SHARED = frozenset(range(1, 9))  # requests of every page with one payload
SCREENSHOT, THUMBNAIL = 150_000, 12_000
CONNECTIONS = 8
BROWSER = (
    'sec-ch-ua: "Chromium";v="130", "Not?A_Brand";v="99"\r\nsec-ch-ua-mobile: ?0\r\nsec-ch-ua-platform: "Linux"\r\n'
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36"
    "\r\nAccept: */*\r\nSec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: script\r\n"
    "Referer: https://127.0.0.1/\r\nAccept-Encoding: gzip, deflate, br\r\nAccept-Language: en-US,en;q=0.9\r\n"
)


def meta_line(page: int) -> str:
    """Return the header that brozzler sends with the requests of a page."""
    meta = {
        "warc-prefix": "bench",
        "dedup-buckets": {"bench": "rw"},
        "stats": {"buckets": ["job", {"bucket": "seed", "tally-domains": ["127.0.0.1"]}]},
        "limits": {"job/total/urls": 10_000_000},
        "metadata": {"ait_seed_id": 7, "hop_path": "LL", "brozzled_url": f"https://127.0.0.1/{page}"},
    }
    return f"Warcprox-Meta: {json.dumps(meta, separators=(',', ':'))}\r\n"


def load(port: int, origin: int, pages: int, key: str) -> float:
    """Return the seconds for the pages through the proxy, until the last answer."""
    per_page = len(SIZES) + 2

    def ask(client: ProxyLoadClient, number: int) -> None:
        page, part = divmod(number, per_page)
        if part < len(SIZES):
            name = f"{key}shared{part}" if part in SHARED else f"{key}{page}-{part}"
            client.get(f"/{SIZES[part]}/{name}?{page}", BROWSER + meta_line(page))
            return
        size, kind = ((SCREENSHOT, "screenshot"), (THUMBNAIL, "thumbnail"))[part - len(SIZES)]
        connection = HTTPConnection("127.0.0.1", port)  # as urllib, which brozzler uses: one each
        headers = dict(line.split(": ", 1) for line in meta_line(page).splitlines())
        headers |= {"WARC-Type": "resource", "Content-Type": "image/jpeg", "Host": "N/A"}
        url = f"{kind}:https://127.0.0.1/{key}{page}"
        connection.request(
            "WARCPROX_WRITE_RECORD", url, body=b"\xff\xd8" + number.to_bytes(8) * (size // 8), headers=headers
        )
        assert connection.getresponse().status == 204
        connection.close()

    return take_turns(pages * per_page, CONNECTIONS, lambda: ProxyLoadClient(port, "-", "127.0.0.1", origin), ask)


@contextmanager
def ours(folder: Path, certificate: Path) -> Iterator[tuple[int, psutil.Process]]:
    """Run `weboid proxy --warcprox-api` on a new collection; yield its port and its process."""
    profile = folder / "bench.toml"
    profile.write_text(
        f'[egress]\nallow = ["127.0.0.0/8"]\nca_file = "{certificate}"\n[proxy]\ndisk_reserve_bytes = 0\n'
    )
    command = [sys.executable, "-m", "weboid", "proxy", "--json", "--profile", str(profile)]
    command += ["--collection", str(folder / "collection")]
    for name in ("listen", "control", "warcprox-api"):
        command += [f"--{name}", "127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT)
    assert process.stdout is not None
    try:
        ready = json.loads(process.stdout.readline())
        yield int(ready["warcprox_api"].rpartition(":")[2]), psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()


def run(
    port: int, process: psutil.Process, origin: int, pages: int, key: str, is_archived: Callable[[], bool]
) -> tuple[float, float]:
    """Run the load by a client process; return (seconds until all was archived, CPU seconds of the proxy)."""
    before = cpu_of(process)
    command = [sys.executable, "-m", "bench.warcprox_api", "client", *map(str, (port, origin, pages)), key]
    seconds = float(subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout)
    begun = time.perf_counter()
    while not is_archived():
        time.sleep(0.002)
    return seconds + time.perf_counter() - begun, cpu_of(process) - before


def main() -> None:
    """Run, print."""
    if sys.argv[1:2] == ["client"]:
        port, origin_port, pages = map(int, sys.argv[2:5])
        print(load(port, origin_port, pages, sys.argv[5]))
        return
    quick = report.arguments(__doc__ or "").quick
    pages, rounds = (20, 3) if quick else (60, 5)
    count = pages * (len(SIZES) + 2)
    shared = sum(size for part, size in enumerate(SIZES) if part in SHARED)
    stored = pages * (sum(SIZES) - shared + SCREENSHOT + THUMBNAIL) + shared
    samples: dict[str, list[tuple[float, float]]] = {"ours": [], "stock": []}
    with tempfile.TemporaryDirectory() as name:
        certificate = write_certificate(Path(name) / "origin.pem", "127.0.0.1")
        with child("bench.origin", str(certificate)) as line:
            origin = int(line)
            for number in range(rounds):
                with (
                    tempfile.TemporaryDirectory() as folder,
                    child("bench.stock_warcprox", folder, python=REFERENCE_PYTHON) as answer,
                ):
                    place = Path(folder)
                    port, pid = map(int, answer.split())

                    def holds_all(place: Path = place) -> bool:
                        return sum(path.stat().st_size for path in place.glob("*.warc*")) >= stored

                    samples["stock"].append(run(port, psutil.Process(pid), origin, pages, f"s{number}-", holds_all))
                with tempfile.TemporaryDirectory() as folder, ours(Path(folder), certificate) as (port, process):

                    def counted_all(port: int = port) -> bool:
                        with urllib.request.urlopen(f"http://127.0.0.1:{port}/status") as status:
                            return int(json.load(status)["urls_processed"]) >= count

                    samples["ours"].append(run(port, process, origin, pages, f"o{number}-", counted_all))
    ratio = report.median([s[0] / o[0] for s, o in zip(samples["stock"], samples["ours"], strict=True)])
    cpu_ratio = report.median([s[1] / o[1] for s, o in zip(samples["stock"], samples["ours"], strict=True)])
    rates = {name: report.median([count / each[0] for each in runs]) for name, runs in samples.items()}
    costs = {name: report.median([each[1] * 1000 / count for each in runs]) for name, runs in samples.items()}
    report.table(
        [
            ("", "ours", "stock", "ratio"),
            ("brozzler's requests/s", f"{rates['ours']:.0f}", f"{rates['stock']:.0f}", f"{ratio:.2f}"),
            ("  CPU ms of the proxy a request", f"{costs['ours']:.2f}", f"{costs['stock']:.2f}", f"{cpu_ratio:.2f}"),
        ]
    )
    report.figures(
        "warcprox_api",
        {
            "brozzler_rps_ratio": ratio,
            "brozzler_rps": rates["ours"],
            "stock_brozzler_rps": rates["stock"],
            "request_cpu_ratio": cpu_ratio,
        },
    )


if __name__ == "__main__":
    main()
