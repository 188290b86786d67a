"""A wiki with the extension for each process of tests, and the extension's pure classes in PHP."""

import base64
import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.mediawiki_extension import EXTENSION, Extended, extended_wiki


class Pure:
    """A PHP that answers line by line (`pure.php`)."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        """Take a running one."""
        self._process = process

    def ask(self, do: str, **more: Any) -> Any:
        """What a pure function makes of its arguments."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, **more}) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def marked(self, html: str | bytes, **more: Any) -> str:
        """HTML with cached links."""
        raw = html.encode() if isinstance(html, str) else html
        said = self.ask("mark", raw=base64.b64encode(raw).decode(), **more)
        return base64.b64decode(said["html"]).decode("utf-8", "surrogateescape")

    def urls(self, html: str) -> list[str]:
        """The URLs in HTML that get a cached link."""
        found: list[str] = self.ask("mark", html=html)["urls"]
        return found


@pytest.fixture(scope="session")
def pure() -> Iterator[Pure]:
    """The extension's pure classes."""
    script = EXTENSION.parents[2] / "tests" / "wiki" / "mediawiki" / "pure.php"
    command = ["php", "-d", "display_errors=stderr", str(script), str(EXTENSION)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Pure(process)
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture(scope="session")
def extended_once() -> Iterator[Extended]:
    """A wiki with the extension, for all modules of a process (mark them slow)."""
    with extended_wiki() as running:
        yield running


@pytest.fixture
def extended(extended_once: Extended) -> Extended:
    """The same, with usual settings and nothing remembered."""
    extended_once.forget()
    return extended_once
