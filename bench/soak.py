"""Long runs in minutes: memory over many pages, and kills over many rounds.

``rss_growth``: memory of the worker and of the proxy after many pages over that after some, less one;
each is the median of what they hold over ten pages.

``lost``, ``bad_warcs``: of what proxies acknowledged before they were killed, what could not be found
as promised, and files that do not pass ``warcio check`` (`bench.axe`). ``--only kills --rounds 100``
runs that part alone; its seed is printed.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import json
import subprocess
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field

import psutil

from bench import axe, report
from tests.support.commands import profile_for
from tests.support.sites import hosts
from tests.support.sites.web import TestWeb

WEBOID = Path(sys.executable).with_name("weboid")
WINDOW = 10
# As little as a visit can be: the shorter each, the more there are.
VISIT = {"settle_s": 0.1, "full_page": False, "thumbnail": False}


@dataclass(slots=True)
class PageMemory:
    """Bytes that each process held after each page."""

    held: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def look(self, process: psutil.Process) -> None:
        """Note what the run's processes hold now."""
        self.held["worker"].append(process.memory_info().rss)
        for child in process.children():
            try:
                command = child.cmdline()
            except (psutil.NoSuchProcess, psutil.ZombieProcess):
                continue  # the last page is told while they end
            if command[1:3] == ["-m", "proxy"]:
                slot = command[command.index("--slot") + 1]
                self.held[f"proxy {slot}"].append(child.memory_info().rss)

    def around(self, name: str, page: int) -> float:
        """Return the median in bytes over the last `WINDOW` pages up to that one."""
        return report.median(self.held[name][page - WINDOW : page])


def crawl(folder: Path, web: TestWeb, pages: int) -> PageMemory:
    """Archive so many pages, each its own; what the processes held after each."""
    profile = profile_for(
        web, folder / "profile.toml", visit=VISIT, behaviours={"run": []}, politeness={"visits_per_host": 8}
    )
    urls = folder / "urls.txt"
    urls.write_text("".join(f"http://{hosts.RULES}/page/plain?{n}\n" for n in range(pages)))
    command = ["archive", "--json", "--list", str(urls), "--profile", str(profile)]
    memory = PageMemory()
    with subprocess.Popen(
        [WEBOID, *command, "--workers", "8", "--collection", folder / "collection"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        seen = psutil.Process(process.pid)
        for line in process.stdout:
            if json.loads(line)["event"] == "page":
                memory.look(seen)
    return memory


def grow(*, quick: bool) -> dict[str, float]:
    """Measure the growth of memory; print a table and return the figure."""
    early, pages = (30, 300) if quick else (100, 5000)
    with tempfile.TemporaryDirectory() as folder, TestWeb.start(real=False) as web:
        memory = crawl(Path(folder), web, pages)
    points = (early, *(pages * part // 5 for part in range(1, 6)))
    rows = [("memory in MB after", *map(str, points), "growth")]
    growths = []
    for name in memory.held:
        held = [memory.around(name, point) for point in points]
        growths.append(held[-1] / held[0] - 1)
        rows.append((name, *(f"{each / 1e6:.0f}" for each in held), f"{growths[-1]:+.2f}"))
    report.table(rows)
    return {"rss_growth": max(growths)}


def kill(rounds: int, seed: int) -> dict[str, float]:
    """Kill proxies at random moments; print the losses and return the figures."""
    with tempfile.TemporaryDirectory() as folder:
        toll = axe.swing(Path(folder), seed, rounds)
    rows = [("killed at random moments", f"{toll.rounds} rounds", f"{toll.kills} kills", "wanted")]
    rows.append(("records acknowledged", f"{len(toll.promises):,}", "", ""))
    names = ("lost", "bad_warcs", "dangling", "differing", "failed")
    rows += [(name, str(len(getattr(toll, name))), "", "0") for name in names]
    report.table(rows)
    print(f"seed {seed}", *toll.faults[:20], sep="\n")
    # A digest that refers to nothing is a record that playback has lost.
    lost = len(toll.lost) + len(toll.dangling) + len(toll.differing) + len(toll.failed)
    return {"rounds": toll.rounds, "lost": lost, "bad_warcs": len(toll.bad_warcs)}


def main() -> None:
    """Run, print, tell."""
    parser = report.parser(__doc__ or "")
    parser.add_argument("--only", choices=("memory", "kills"), help="run one part")
    parser.add_argument("--rounds", type=int, help="of kills; 100, or 8 with --quick")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    arguments = parser.parse_args()
    figures: dict[str, float] = {}
    if arguments.only != "kills":
        figures |= grow(quick=arguments.quick)
    if arguments.only != "memory":
        figures |= kill(arguments.rounds or (8 if arguments.quick else 100), arguments.seed)
    report.figures("soak", figures)


if __name__ == "__main__":
    main()
