"""Records read one by one: what is packed a thousand to one is taken in small pieces."""

import tracemalloc
from pathlib import Path

import pytest

from tests.support.warc_damage import resource
from warc.file_reader import WarcMember, walk_records

PACKED_BYTES = 200_000_000
MOST_BYTES = 40_000_000


@pytest.mark.slow
def test_a_record_that_packs_much_into_little_needs_little_memory(tmp_path: Path) -> None:
    """A site may send as much of nothing as a visit may receive; whoever verifies it holds a part."""
    file = tmp_path / "bomb.warc.gz"
    file.write_bytes(resource("https://example.org/", bytes(PACKED_BYTES)))
    assert file.stat().st_size < 2_000_000
    tracemalloc.start()
    try:
        found = list(walk_records(file))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert [type(each) for each in found] == [WarcMember]
    assert [each.problems for each in found if isinstance(each, WarcMember)] == [[]]
    assert peak < MOST_BYTES
