"""JSON values of dataclasses: a writer of named attributes, and a reader that checks types."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime, timedelta
from enum import Enum, StrEnum
from functools import cache, cached_property
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from core.errors import InputError

_T = TypeVar("_T")


def json_value(value: Any) -> Any:
    """Convert a value for JSON: moments and days in ISO 8601, durations in seconds, enumerations by name.

    >>> json_value({1: (date(2026, 11, 29), timedelta(minutes=1))})
    {'1': ['2026-11-29', 60.0]}
    """
    match value:
        case None | str() | bool() | float():
            return str(value) if isinstance(value, StrEnum) else value
        case Enum():
            return value.name.lower()
        case date():
            return value.isoformat()
        case timedelta():
            return round(value.total_seconds(), 3)
        case Mapping():
            return {str(key): json_value(each) for key, each in value.items()}
        case list() | tuple():
            return [json_value(each) for each in value]
        case _:
            return value


def json_facts(source: object, names: str, **renamed: str) -> dict[str, Any]:
    """Return the attributes with these names, blanks between, as JSON values; `renamed` by names that JSON has for them.

    >>> json_facts(timedelta(1, 2), "days microseconds", rest="seconds")
    {'days': 1, 'microseconds': 0, 'rest': 2}
    """
    attributes = {name: name for name in names.split()} | renamed
    return {key: json_value(getattr(source, name)) for key, name in attributes.items()}


class FactsOf:
    """Type of an object that `json_facts` makes of a class, for descriptions of interfaces.

    Pydantic reads ``Annotated[dict[str, Any], FactsOf("CrawlFacts", Job, "name lane", made=datetime)]`` as an object
    with these attributes of the class (without names: all) and the other fields. A class may be another such type.
    """

    def __init__(self, title: str, source: Any = object, names: str = "", /, **others: Any) -> None:
        self._title, self._source = title, source
        extended = [each.fields for each in get_args(source) if isinstance(each, FactsOf)]
        hints = extended[0] if extended else get_type_hints(source)
        self.fields: dict[str, Any] = {name: hints[name] for name in names.split() or hints} | others

    @cached_property
    def kind(self) -> Any:
        """Return it as a TypedDict, or the dataclass whose attributes it has."""
        if is_dataclass(self._source) and self.fields == get_type_hints(self._source):
            return self._source
        from typing_extensions import TypedDict  # pydantic reads that of Python from 3.12 on

        make: Any = TypedDict  # of fields that are no literals
        return make(self._title, self.fields)

    def __get_pydantic_core_schema__(self, _source: Any, handler: Any) -> Any:
        return handler.generate_schema(self.kind)


class _JsonTypeError(Exception):
    """Value of another type than its place has; `path` has the names around it, the innermost first."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.path: list[str] = []


def read_json(kind: type[_T], value: Any, *, name: str = "") -> _T:
    """Return the value as a `kind`: a dataclass of JSON's types, moments, enumerations, tuples, dictionaries and others.

    Unknown keys are ignored. Raises InputError with the place, which begins with `name`.

    >>> read_json(tuple[str, ...], ["a", 1], name="urls")
    Traceback (most recent call last):
    core.errors.InputError: urls.1 is not of type str.
    """
    try:
        decoded: _T = _reader(kind)(value)  # type: ignore[arg-type] # types have a hash
        return decoded
    except _JsonTypeError as error:
        place = ".".join(filter(None, (name, *reversed(error.path))))
        raise InputError(f"{place or 'it'} {error}.") from None


@cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    origin, members = get_origin(kind), get_args(kind)
    if kind is Any:
        return lambda value: value
    if is_dataclass(kind):
        return _dataclass_reader(kind)
    if hasattr(kind, "_make"):  # a named tuple
        return _sequence_reader(kind._make, tuple(get_type_hints(kind).values()))
    if NoneType in members:
        of = _reader(next(each for each in members if each is not NoneType))
        return lambda value: None if value is None else of(value)
    if origin in (tuple, frozenset, list):
        return _sequence_reader(origin, members)
    if origin is dict:
        keys, values = map(_sequence_reader, (tuple, tuple), ((members[0], ...), (members[1], ...)))

        def mapping(value: Any) -> Any:
            if not isinstance(value, dict):
                raise _JsonTypeError("is not an object")
            return dict(zip(keys(list(value)), values(list(value.values())), strict=True))

        return mapping

    def plain(value: Any) -> Any:
        if type(value) is kind or (kind is float and type(value) is int):
            return value
        try:
            if kind is int and type(value) is float and value.is_integer():  # as scripts of pages count
                return int(value)
            if kind is datetime and (moment := datetime.fromisoformat(value)).tzinfo is not None:
                return moment.astimezone(UTC)
            if issubclass(kind, Enum):
                return kind(value)
        except (TypeError, ValueError):
            pass
        raise _JsonTypeError(f"is not of type {kind.__name__}")

    return plain


def _sequence_reader(make: Callable[[Any], Any], members: tuple[Any, ...]) -> Callable[[Any], Any]:
    is_even = make in (list, frozenset) or members[-1] is ...
    readers = [_reader(each) for each in (members[:1] if is_even else members)]

    def read(value: Any) -> Any:
        if not isinstance(value, list | tuple) or not (is_even or len(value) == len(readers)):
            raise _JsonTypeError(f"is not a list{'' if is_even else f' of {len(readers)}'}")
        elements: list[Any] = []
        try:
            for each, of in zip(value, readers * len(value) if is_even else readers, strict=True):
                elements.append(of(each))
        except _JsonTypeError as error:
            error.path.append(str(len(elements)))
            raise
        return make(elements)

    return read


def _dataclass_reader(kind: Any) -> Callable[[Any], Any]:
    hints = get_type_hints(kind)
    readers = [(each.name, hints[each.name], _reader(hints[each.name])) for each in fields(kind) if each.init]

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _JsonTypeError("is not an object")
        arguments, name = {}, ""
        try:
            for name, of, reader in readers:
                if name in value:
                    each = value[name]
                    arguments[name] = each if type(each) is of else reader(each)
        except _JsonTypeError as error:
            error.path.append(name)
            raise
        try:
            return kind(**arguments)
        except TypeError as error:
            raise _JsonTypeError(f"lacks a value: {error}") from error

    return read
