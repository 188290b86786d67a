"""Run every benchmark and keep the table: ``python -m scripts.bench [--quick] [NAME…]``.

A benchmark is ``bench/NAME.py`` with a function or a ``__main__`` of its own; its last line of
output is ``{"bench": NAME, "figures": {…}}``. A run of all of them is noted in
``docs/reference/benchmarks.md``, newest first.
"""

import json
import platform
import subprocess
import sys
from datetime import datetime
from pathlib import Path

from core.clock import SystemClock

ROOT = Path(__file__).resolve().parents[1]
NAMES = ("pages", "proxy", "frontier", "index", "playback", "wiki", "set", "qa", "soak")
TITLE = "# Benchmarks\n\nEvery run of `make bench`, newest first. Only ratios travel between machines.\n"

Figures = dict[str, float]


def figures_of(output: str) -> Figures | None:
    """Return the figures in a benchmark's last line; None when it has none."""
    lines = output.strip().splitlines()
    try:
        document = json.loads(lines[-1])
        return {str(name): float(value) for name, value in document["figures"].items()}
    except (IndexError, ValueError, TypeError, KeyError, AttributeError):
        return None


def section(results: dict[str, Figures | None], *, now: datetime, options: str) -> str:
    """Return one run as Markdown."""
    head = f"## {now:%Y-%m-%d %H:%M} UTC, {platform.machine()}"
    lines = [f"{head}{f', {options}' if options else ''}", "", "| bench | figure | value |", "|---|---|---|"]
    for name, figures in results.items():
        if figures is None:
            lines.append(f"| {name} | | failed |")
        else:
            lines += [f"| {name} | `{key}` | {value:,.4g} |" for key, value in figures.items()]
    return "\n".join([*lines, ""])


def with_section(page: str, new: str) -> str:
    """Return the page with a run put first."""
    rest = page.removeprefix(TITLE).lstrip("\n")
    return f"{TITLE}\n{new}\n{rest}".rstrip("\n") + "\n"


def run(name: str, options: list[str]) -> Figures | None:
    """Run one benchmark, showing what it prints; its figures, or None when it failed."""
    command = [sys.executable, "-m", f"bench.{name}", *options]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    lines: list[str] = []
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    return figures_of("".join(lines)) if process.returncode == 0 else None


def main(arguments: list[str]) -> int:
    """Run the benchmarks; 1 when one failed."""
    options = [each for each in arguments if each.startswith("-")]
    chosen = [each for each in arguments if not each.startswith("-")]
    names = [name for name in chosen or NAMES if (ROOT / "bench" / f"{name}.py").is_file()]
    results = {name: run(name, options) for name in names}
    if names and not chosen:
        page = ROOT / "docs" / "reference" / "benchmarks.md"
        old = page.read_text() if page.is_file() else TITLE
        new = section(results, now=SystemClock().now(), options=" ".join(options))
        page.write_text(with_section(old, new))
    return int(not names or any(figures is None for figures in results.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
