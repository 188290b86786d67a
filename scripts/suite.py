"""Run the suite; look a second time at the few tests that failed: ``python -m scripts.suite [ARGS…]``.

What starts a browser, a database and a wiki a thousand times on a busy machine fails once in a while
for a reason of the machine's. A test that failed among the others is run alone, ``LOOKS`` times, each
time in a process of its own. It counts as passed only when it passes every time, and is then named at
the end as unsteady: a defect of the test or of what it tests, to be mended, yet no reason to refuse
twelve thousand others. More than ``FEW`` failures are never chance: nothing is looked at again.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FEW = 3
LOOKS = 3


def run(root: Path, arguments: list[str]) -> int:
    """Run pytest in a folder; its exit code."""
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=root, check=False).returncode


def suite(root: Path, arguments: list[str]) -> int:
    """Run the tests, the failed ones again; 0 when each passed, else the exit code of pytest."""
    code = run(root, ["--cache-clear", *arguments])
    kept = root / ".pytest_cache" / "v" / "cache" / "lastfailed"
    if code != pytest.ExitCode.TESTS_FAILED or not kept.exists():
        return code
    failed = kept.read_text()
    names = sorted(json.loads(failed))
    if len(names) > FEW:
        print(f"{len(names)} tests failed: too many for a second look.", flush=True)
        return code
    for look in range(1, LOOKS + 1):
        print(f"Look {look} of {LOOKS} at what failed, alone:", *names, sep="\n  ", flush=True)
        kept.write_text(failed)
        again = run(root, ["--last-failed", "--last-failed-no-failures=none"])
        if again:
            return code
    kept.write_text(failed)
    print(
        f"UNSTEADY, to be mended: failed among the others, passed {LOOKS} times alone:",
        *names,
        sep="\n  ",
        flush=True,
    )
    return pytest.ExitCode.OK


if __name__ == "__main__":
    raise SystemExit(suite(ROOT, sys.argv[1:]))
