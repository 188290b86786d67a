"""Tests of `playback.web.registry.answer_formats`."""

import re
from importlib.metadata import version
from pathlib import Path

import pytest

from playback.web.registry import answer_formats
from tests.support.registry_builder import ORIGIN, RegistryFront

pytestmark = pytest.mark.slow


PROBLEM = "/externalLinkProblem?dbname=dewiki@WMF&pageid=1"


def test_the_source_of_the_script_is_there_in_this_version(front: RegistryFront) -> None:
    """Its first line names the version and the address of what made it (seed: disclosed with it)."""
    head = front.get(PROBLEM).text.splitlines()[0]
    address = re.search(r"http\S+", head)
    assert address is not None
    source = front.get(address[0].removeprefix(ORIGIN))

    assert f"Weboid {version('weboid')}," in head
    assert source.headers["content-type"].startswith("text/plain")
    assert source.content == Path(answer_formats.__file__).read_bytes()
