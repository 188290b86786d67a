"""Reader and writer of dataclasses as JSON values."""

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum, StrEnum
from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter

from core.errors import InputError
from core.json_values import FactsOf, json_facts, read_json


class _SampleColour(StrEnum):
    RED = "red"


class _SampleRank(IntEnum):
    LOW = 0


@dataclass(frozen=True, slots=True)
class _SamplePart:
    name: str
    sizes: tuple[int, ...] = ()


@dataclass(frozen=True)
class _SampleObject:
    colour: _SampleColour
    made_at: datetime
    parts: tuple[_SamplePart, ...] = ()
    share: float = 0.0
    notes: dict[str, str] | None = None
    pairs: frozenset[tuple[int, str]] = frozenset()
    rank: _SampleRank = _SampleRank.LOW


_MADE = datetime(2026, 11, 29, 1, 2, tzinfo=UTC)
_FACTS = {"colour": "red", "made_at": "2026-11-29T02:02:00+01:00"}


def test_facts_are_read_in_their_types() -> None:
    given = {
        **_FACTS,
        "parts": [{"name": "a", "sizes": [1, 2.0]}],
        "share": 1,
        "notes": {"a": "b"},
        "pairs": [[1, "x"]],
    }
    parts, pairs = (_SamplePart("a", (1, 2)),), frozenset({(1, "x")})
    assert read_json(_SampleObject, {**given, "later": 1}) == _SampleObject(
        _SampleColour.RED, _MADE, parts, 1.0, {"a": "b"}, pairs
    )


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"colour": "blue"}, "whole.colour is not of type _SampleColour."),
        ({"made_at": "2026-11-29"}, "whole.made_at is not of type datetime."),
        ({"parts": [{"name": "a"}, {"name": 1}]}, "whole.parts.1.name is not of type str."),
        ({"parts": [{"name": "a", "sizes": [True]}]}, "whole.parts.0.sizes.0 is not of type int."),
        ({"parts": {}}, "whole.parts is not a list."),
        ({"parts": ["a"]}, "whole.parts.0 is not an object."),
        ({"notes": {"a": None}}, "whole.notes.0 is not of type str."),
        ({"pairs": [[1]]}, "whole.pairs.0 is not a list of 2."),
    ],
)
def test_error_names_the_place_of_a_wrong_value(change: dict[str, object], fault: str) -> None:
    with pytest.raises(InputError) as caught:
        read_json(_SampleObject, {**_FACTS, **change}, name="whole")
    assert str(caught.value) == fault


def test_missing_value_is_named() -> None:
    with pytest.raises(InputError, match=r"it lacks a value: .*made_at"):
        read_json(_SampleObject, {"colour": "red"})


def test_written_facts_are_plain_json_values() -> None:
    whole = _SampleObject(_SampleColour.RED, _MADE, notes={"a": "b"})
    assert json_facts(whole, "colour made_at parts", level="rank", words="notes") == {
        "colour": "red", "made_at": "2026-11-29T01:02:00+00:00", "parts": [], "level": "low", "words": {"a": "b"},
    }  # fmt: skip


def test_described_facts_are_those_of_the_class_and_others() -> None:
    named = Annotated[dict[str, Any], FactsOf("Named", _SamplePart, "name", number=int)]
    extended = Annotated[dict[str, Any], FactsOf("Extended", named, message=str)]
    schema = TypeAdapter(extended).json_schema()

    assert {name: each["type"] for name, each in schema["properties"].items()} == {
        "name": "string", "number": "integer", "message": "string",
    }  # fmt: skip
    assert schema["required"] == ["name", "number", "message"]
