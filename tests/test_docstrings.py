"""Examples in docstrings: each ``>>>`` prints what stands below it."""

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = (
    "classify", "core", "crawler", "links", "net", "playback", "proxy", "qa", "render", "warc", "weboid", "wiki",
)  # fmt: skip
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_print_what_they_show(name: str) -> None:
    """Each module that has examples is imported, and they are run."""
    done = doctest.testmod(importlib.import_module(name))

    assert done.attempted > 0
    assert done.failed == 0
