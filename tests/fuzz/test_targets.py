"""The fuzzer's targets, on what it has kept and on mutations of that: a smoke run without atheris."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS, Target, corpus
from tests.support.examples import examples

KEPT = [(name, data) for name in TARGETS for data in corpus(name)]
PIECES = (
    b"\r\n",
    b"\n",
    b"\r",
    b"\x00",
    b":",
    b" ",
    b"\t",
    b",",
    b";",
    b"0",
    b"f",
    b"chunked",
    b"\xff",
    b'"',
    b"{{",
    b"}}",
    b"|",
    b"<",
    b">",
    b"9" * 20,
    b"\\ud800",
)


@pytest.mark.parametrize(("name", "data"), KEPT, ids=[f"{n}-{d[:30]!r}" for n, d in KEPT])
def test_what_was_kept_breaks_no_rule(name: str, data: bytes) -> None:
    """Each input of the corpus is refused or understood."""
    TARGETS[name](data)


@pytest.mark.parametrize(("name", "target"), TARGETS.items())
def test_mutations_of_what_was_kept_break_no_rule(name: str, target: Target) -> None:
    """Pieces of two inputs, put together around a piece of syntax or a few bytes."""
    inputs = corpus(name)

    @given(st.sampled_from(inputs), st.sampled_from(inputs), st.sampled_from(PIECES) | st.binary(max_size=6), st.data())
    @settings(max_examples=examples(200))
    def mutate(first: bytes, second: bytes, between: bytes, data: st.DataObject) -> None:
        ends = st.integers(0, len(first)), st.integers(0, len(second))
        until, since = data.draw(ends[0]), data.draw(ends[1])
        target(first[:until] + between + second[since:])

    mutate()
