"""Fuzz with atheris for a set time: ``python -m tests.fuzz.run --seconds 60 [--only TARGET]``.

The targets share the seconds, one after the other, each in a process of its own. It begins with what
``corpus/`` keeps; what breaks a rule is added there, and so fails in the suite until it is mended.
atheris is not among the project's requirements: ``pip install "weboid[fuzz]"``.
"""

import argparse
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzz import targets

LONGEST = 8192


def hunt(name: str, seconds: int, folder: Path) -> bool:
    """Fuzz one target; return True when nothing was found."""
    seeds, crashes = folder / "seeds", folder / "found"
    for each in (seeds, crashes):
        each.mkdir(parents=True)
    for number, data in enumerate(targets.corpus(name)):
        (seeds / f"{number:04}").write_bytes(data)
    code = (
        "import atheris, sys\n"
        "with atheris.instrument_imports(include=['core', 'crawler', 'email', 'ipaddress', 'json', 'links', 'proxy', 'wiki']):\n"
        "    from tests.fuzz.targets import TARGETS\n"
        "atheris.Setup(sys.argv[1:], TARGETS[sys.argv[1]])\n"
        "atheris.Fuzz()\n"
    )
    limits = [f"-max_total_time={seconds}", f"-max_len={LONGEST}", "-timeout=10", "-rss_limit_mb=1024"]
    command = [sys.executable, "-c", code, name, *limits, f"-artifact_prefix={crashes}/", str(seeds)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    runs = [line for line in ended.stderr.splitlines() if line.startswith(("Done", "#"))]
    print(f"{name}: {runs[-1] if runs else 'did not start'}")
    for crash in crashes.iterdir():
        targets.keep(name, crash.read_bytes())
        print(f"{name}: kept {crash.read_bytes()!r}")
    if ended.returncode:
        print(ended.stdout[-2000:], ended.stderr[-3000:], sep="\n")
    return ended.returncode == 0


def main() -> int:
    """Run the fuzzer; return 1 when something was found, 2 without atheris."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--only", choices=targets.TARGETS)
    arguments = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        print('atheris is missing: pip install "weboid[fuzz]".')
        return 2
    chosen = [arguments.only] if arguments.only else list(targets.TARGETS)
    share = max(arguments.seconds // len(chosen), 1)
    with tempfile.TemporaryDirectory() as folder:
        sound = [hunt(name, share, Path(folder, name)) for name in chosen]
    return int(not all(sound))


if __name__ == "__main__":
    sys.exit(main())
