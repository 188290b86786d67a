"""Entry point of `weboid` and `python -m weboid`."""

import gc
import sys
from typing import Any


def run() -> None:
    """Run the command line; its exit code is the process's."""
    # Modules are never garbage: looking for it while they load takes an eighth of a command's start.
    # `LazyGroup` enables the collector once the command is there.
    gc.disable()
    # httpx would import its own command line, and Pygments with it: 0.15 s.
    modules: dict[str, Any] = sys.modules
    modules.setdefault("httpx._main", None)
    from weboid.cli.main import main

    main()


if __name__ == "__main__":
    run()
