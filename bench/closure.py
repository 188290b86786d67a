"""Modules that archive one URL, with their lines: ``python -m bench.closure [--list]``.

The command and the processes that it starts are counted each, and together. What a process imports, it reports
itself (``python -X importtime``). The last line is ``{"bench": "closure", "figures": {…}}``.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench import report
from tests.support.commands import profile_for
from tests.support.sites import hosts
from tests.support.sites.web import TestWeb

ROOT = Path(__file__).resolve().parents[1]
URL = f"http://{hosts.RULES}/page/plain"
# Starts Python as we were started, and keeps what it says of its imports.
_PYTHON = '#!/bin/sh\nexec {python} -X importtime "$@" 2>"{folder}/$$.imports"\n'
_COMMAND = "import sys; sys.executable = sys.argv.pop(1); from weboid.cli.main import main; main()"


def own_lines(imports: str) -> dict[str, int]:
    """Return the lines of our modules that a report of imports names; packages are left out."""
    names = {line.rpartition("|")[2].strip() for line in imports.splitlines() if "|" in line}
    files = {name: ROOT / f"{name.replace('.', '/')}.py" for name in names if "." in name}
    return {name: path.read_text("utf-8").count("\n") for name, path in files.items() if path.is_file()}


def main() -> None:
    """Archive a page of the test web, and print what was imported."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="name the modules of all processes")
    options = parser.parse_args()
    with TestWeb.start(real=False) as web, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = folder / "python"
        python.write_text(_PYTHON.format(python=sys.executable, folder=folder), encoding="utf-8")
        python.chmod(0o755)
        profile = profile_for(web, folder / "profile.toml", egress={"ca_file": ""})
        arguments = ("archive", "--profile", str(profile), "--collection", str(folder / "c"), URL)
        subprocess.run([python, "-c", _COMMAND, python, *arguments], check=True, cwd=ROOT)
        reports = sorted(folder.glob("*.imports"), key=lambda path: path.stat().st_mtime_ns)
        processes = [own_lines(path.read_text("utf-8", "replace")) for path in reports]
    processes = sorted((each for each in processes if each), key=len, reverse=True)
    together = {name: lines for each in processes for name, lines in each.items()}
    rows = [("process", "modules", "lines")]
    for number, each in enumerate([*processes, together], start=1):
        what = "together" if each is together else f"process {number}"
        rows.append((what, str(len(each)), f"{sum(each.values()):,}"))
    report.table(rows)
    if options.list:
        report.table([(name, str(lines)) for name, lines in sorted(together.items())])
    command = next(each for each in processes if "weboid.cli.main" in each)
    figures = {
        "command_modules": len(command),
        "command_lines": sum(command.values()),
        "modules": len(together),
        "lines": sum(together.values()),
    }
    report.figures("closure", dict(figures))


if __name__ == "__main__":
    main()
