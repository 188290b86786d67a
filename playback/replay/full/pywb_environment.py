"""Location of the Python environment with pywb, which only the level `full` needs.

pywb pins old versions of libraries that the main environment has in newer ones (redis, brotlipy).
"""

import os
import subprocess
from pathlib import Path

from core.errors import UnavailableError

PYWB_PYTHON = "WEBOID_REPLAY_PYTHON"
_ROOT = Path(__file__).resolve().parents[3]
_REMEDY = f"Run `make setup-full`, or set {PYWB_PYTHON} to a Python that has pywb."


def find_pywb_python() -> Path:
    """Return the interpreter with pywb: ``$WEBOID_REPLAY_PYTHON``, or that of ``.venv-replay``.

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
    """Return the version of pywb that is installed for that interpreter; else raise UnavailableError."""
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
