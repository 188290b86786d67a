"""What months do to it, in minutes: memory over many pages, and the axe over many rounds.

``rss_growth``: memory of the worker and of the proxy after many pages over that after some, less one;
each is the median of what they hold over ten pages.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import json
import subprocess
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field

import psutil

from bench import report
from tests.crawler.conftest import profile_for
from tests.sites import hosts
from tests.sites.web import TestWeb

WEBOID = Path(sys.executable).with_name("weboid")
WINDOW = 10
# As little as a visit can be: the shorter each, the more there are.
VISIT = {"settle_s": 0.1, "scroll_limit_s": 0.0, "full_page": False, "thumbnail": False}


@dataclass(slots=True)
class Memory:
    """Bytes that each process held after each page."""

    held: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def look(self, process: psutil.Process) -> None:
        """Note what the run's processes hold now."""
        self.held["worker"].append(process.memory_info().rss)
        for child in process.children():
            command = child.cmdline()
            if command[1:3] == ["-m", "proxy"]:
                slot = command[command.index("--slot") + 1]
                self.held[f"proxy {slot}"].append(child.memory_info().rss)

    def around(self, name: str, page: int) -> float:
        """The median over the pages up to that one."""
        return report.median(self.held[name][page - WINDOW : page])


def crawl(folder: Path, web: TestWeb, pages: int) -> Memory:
    """Archive so many pages, each its own; what the processes held after each."""
    profile = profile_for(
        web, folder / "profile.toml", visit=VISIT, politeness={"visits_per_host": 8}
    )
    urls = folder / "urls.txt"
    urls.write_text("".join(f"http://{hosts.RULES}/page/plain?{n}\n" for n in range(pages)))
    command = ["archive", "--json", "--list", str(urls), "--profile", str(profile)]
    memory = Memory()
    with subprocess.Popen(
        [WEBOID, *command, "--workers", "8", "--collection", folder / "collection"],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        seen = psutil.Process(process.pid)
        for line in process.stdout:
            if json.loads(line)["event"] == "page":
                memory.look(seen)
    return memory


def main() -> None:
    """Run, print, tell."""
    quick = report.arguments(__doc__ or "").quick
    early, pages = (30, 300) if quick else (100, 5000)
    with tempfile.TemporaryDirectory() as folder, TestWeb.start(real=False) as web:
        memory = crawl(Path(folder), web, pages)
    rows = [("memory in MB", f"after {pages}", f"after {early}", "growth")]
    growths = []
    for name in memory.held:
        late, soon = memory.around(name, pages), memory.around(name, early)
        growths.append(late / soon - 1)
        rows.append((name, f"{late / 1e6:.0f}", f"{soon / 1e6:.0f}", f"{growths[-1]:+.2f}"))
    report.table(rows)
    report.figures("soak", {"rss_growth": max(growths)})


if __name__ == "__main__":
    main()
