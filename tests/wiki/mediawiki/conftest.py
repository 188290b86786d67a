"""Fixtures: a wiki with the extension for each test process, and the extension's functions without MediaWiki."""

import base64
import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.mediawiki_extension import EXTENSION, ExtensionWiki, extended_wiki


class PhpFunctions:
    """The extension's functions without MediaWiki, in a PHP process (`pure.php`)."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        """Take the running process."""
        self._process = process

    def call(self, function: str, **arguments: Any) -> Any:
        """Return a function's result."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"function": function, **arguments}) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def marked(self, html: str | bytes, **arguments: Any) -> str:
        """Return HTML with marked links."""
        raw = html.encode() if isinstance(html, str) else html
        result = self.call("mark", raw=base64.b64encode(raw).decode(), **arguments)
        return base64.b64decode(result["html"]).decode("utf-8", "surrogateescape")

    def urls(self, html: str) -> list[str]:
        """Return the URLs of the links in HTML that are marked."""
        urls: list[str] = self.call("mark", html=html)["urls"]
        return urls


@pytest.fixture(scope="session")
def php() -> Iterator[PhpFunctions]:
    """Yield the extension's functions, without MediaWiki."""
    script = EXTENSION.parents[2] / "tests" / "wiki" / "mediawiki" / "pure.php"
    command = ["php", "-d", "display_errors=stderr", str(script), str(EXTENSION)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield PhpFunctions(process)
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture(scope="session")
def extended_once() -> Iterator[ExtensionWiki]:
    """Yield a wiki with the extension, for all modules of a process (mark them slow)."""
    with extended_wiki() as running:
        yield running


@pytest.fixture
def extended(extended_once: ExtensionWiki) -> ExtensionWiki:
    """Return the same wiki, with default settings and empty caches."""
    extended_once.reset()
    return extended_once
