"""Location of the Python environment with pywb, which only the level `full` needs.

pywb pins old versions of libraries that the main environment has in newer ones (redis, brotlipy), so it
is installed in an environment of its own.
"""

import os
import subprocess
from pathlib import Path

from core.errors import UnavailableError

PYWB_PYTHON = "WEBOID_REPLAY_PYTHON"
_ROOT = Path(__file__).resolve().parents[3]
_REMEDY = f"Run `make setup-full`, or set {PYWB_PYTHON} to a Python that has pywb."


def find_pywb_python() -> Path:
    """Return the interpreter of the environment with pywb.

    The environment variable ``WEBOID_REPLAY_PYTHON`` names it; the default is ``.venv-replay``.

    Raises:
        UnavailableError: there is none; the text names the next step.
    """
    named = os.environ.get(PYWB_PYTHON)
    python = Path(named) if named else _ROOT / ".venv-replay" / "bin" / "python"
    if not python.is_file():
        raise UnavailableError(
            f'The level "full" needs an environment with pywb, and {python} does not exist. {_REMEDY}'
        )
    return python


def pywb_version(python: Path) -> str:
    """Return the version of pywb that is installed for that interpreter.

    Raises:
        UnavailableError: pywb is not installed there; the text names the next step.
    """
    code = "from importlib.metadata import version; print(version('pywb'))"
    try:
        done = subprocess.run(
            [str(python), "-I", "-c", code], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise UnavailableError(
            f'The level "full" needs pywb, which is not installed for {python}. {_REMEDY}'
        ) from error
    return done.stdout.strip()
