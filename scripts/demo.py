"""The demonstration: archive pages of real sites, served on this machine, into ``./demo``.

``python -m scripts.demo [PAGES]``: starts the test web (MediaWiki, manuals, applications, all on
loopback under ordinary names), writes a list and a profile, and calls the same command that a
person types.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from tests.support.sites.web import TestWeb

ROOT = Path(__file__).resolve().parents[1]
PAGES = 24


def profile(web: TestWeb) -> str:
    """Return a profile, as TOML, that lets the proxy reach the test web."""
    table = "\n".join(f"{json.dumps(name)} = {json.dumps(to)}" for name, to in web.resolve.items())
    return (
        f'[egress]\nallow = ["127.0.0.0/8"]\nca_file = {json.dumps(web.ca_file)}\n\n'
        f"[egress.resolve]\n{table}\n\n"
        "[politeness]\ndelay_factor = 0.0\nmin_delay_s = 0.0\nvisits_per_host = 4\n"
    )


def main(arguments: list[str]) -> int:
    """Archive, and say how to look at the result; the command's own exit code."""
    parser = argparse.ArgumentParser(prog="make demo", description="Archive pages of real sites into ./demo.")
    parser.add_argument("pages", type=int, nargs="?", default=PAGES, help="number of pages (make demo ARGS=12)")
    count: int = parser.parse_args(arguments).pages
    folder = ROOT / "demo"
    folder.mkdir(exist_ok=True)
    with TestWeb.start() as web:
        step = max(1, len(web.urls.real_pages) // count)
        urls = web.urls.real_pages[::step][:count]
        (folder / "urls.txt").write_text("".join(f"{url}\n" for url in urls))
        (folder / "profile.toml").write_text(profile(web))
        command = [
            str(Path(sys.executable).parent / "weboid"),
            *("archive", "--list", str(folder / "urls.txt")),
            *("--collection", str(folder / "collection")),
            *("--profile", str(folder / "profile.toml")),
        ]
        code = subprocess.run(command, check=False).returncode
    print("Look at it with: make serve COLLECTION=demo/collection")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
