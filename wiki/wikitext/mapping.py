"""The form of a template map: what may stand in one, and how one is laid over another."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from core.errors import ConfigError
from links.archives.services import SERVICES
from wiki.wikitext.citations import Role

STATUSES: Final = ("live", "dead", "unfit", "usurped")
DATE_STYLES: Final = ("dmy", "mdy", "ymd", "iso", "de")
LONGEST: Final = 2_000  # characters of one text, and entries of one list
_ROLES: Final = (*(role.value for role in Role), "text-urls", "more-urls")

_TEXT = "a text"
_FLAG = "true or false"
_NAMES = "a list of texts"
_ENTRIES: Final[Mapping[str, Mapping[str, Any]]] = {
    "citation": {"names": _NAMES, "parameters": dict.fromkeys(_ROLES, _NAMES)},
    "dead_tag": {"names": _NAMES, "status": STATUSES, "url": _NAMES, "title": _NAMES},
    "archive": {
        "names": _NAMES,
        "address": _NAMES,
        "original": _NAMES,
        "stamps": {"*": tuple(SERVICES)},
        "date": _NAMES,
        "title": _NAMES,
    },
    "link": {"names": _NAMES, "parameters": _NAMES},
}
_FORM: Final[Mapping[str, Any]] = {
    "language": _TEXT,
    "extends": _TEXT,
    "namespaces": _NAMES,
    "retrieved": _NAMES,
    "archive_implies_dead": _FLAG,
    "without": _NAMES,
    "parameters": dict.fromkeys(_ROLES, _NAMES),
    "status": {"*": dict.fromkeys(STATUSES, _NAMES)},
    "access": {"*": _NAMES},
    "tags": dict.fromkeys(("paywall", "hold", "inline", "reference"), _NAMES),
    "write": {
        "citation": _TEXT,
        "dates": DATE_STYLES,
        "dead_tag": _TEXT,
        "archive": _TEXT,
        "status": dict.fromkeys(STATUSES, _TEXT),
    },
}


def checked(given: Any, place: str) -> Mapping[str, Any]:
    """The same map, when its form is right.

    Args:
        given: what was read.
        place: what to call it in an error.

    Raises:
        ConfigError: a key is unknown, a value of the wrong kind, or an entry has no name.
    """
    if not isinstance(given, Mapping):
        raise ConfigError(f"{place} must be a table.")
    for key, value in given.items():
        if key in _ENTRIES:
            _check_entries(value, _ENTRIES[key], f"{place}.{key}")
        else:
            _check(value, _within(_FORM, key, place), f"{place}.{key}")
    return given


def laid_over(base: Mapping[str, Any], given: Mapping[str, Any]) -> Mapping[str, Any]:
    """One map over another: tables key by key, entries behind the others, all else replaced.

    Names of tags and namespaces are added to those that are there; `without` takes names away.
    """
    found = dict(base)
    for key, value in given.items():
        before = base.get(key)
        if key in _ENTRIES:
            found[key] = [*(before or ()), *value]
        elif key in ("tags", "namespaces"):
            found[key] = _joined(before, value)
        elif isinstance(value, Mapping) and isinstance(before, Mapping):
            found[key] = {**before, **value}
            if key == "write" and "status" in value:
                found[key]["status"] = {**before.get("status", {}), **value["status"]}
        else:
            found[key] = value
    return found


def _joined(before: Any, value: Any) -> Any:
    if isinstance(value, Mapping):
        before = before or {}
        more = {key: [*before.get(key, ()), *names] for key, names in value.items()}
        return {**before, **more}
    return [*(before or ()), *value]


def _check_entries(value: Any, form: Mapping[str, Any], place: str) -> None:
    if not isinstance(value, list):
        raise ConfigError(f"{place} must be a list of tables.")
    for number, entry in enumerate(value[:LONGEST], 1):
        _check(entry, form, f"{place}[{number}]")
        if not entry.get("names"):
            raise ConfigError(f"{place}[{number}] names no template: give it names = [\u2026].")


def _check(value: Any, form: Any, place: str) -> None:
    if isinstance(form, Mapping):
        if not isinstance(value, Mapping):
            raise ConfigError(f"{place} must be a table.")
        for key, each in value.items():
            _check(each, _within(form, key, place), f"{place}.{key}")
    elif isinstance(form, tuple):
        if value not in form:
            raise ConfigError(f"{place} must be one of {', '.join(form)}; it is {value!r:.80}.")
    elif not _IS_OF[form](value):
        raise ConfigError(f"{place} must be {form}.")


def _within(form: Mapping[str, Any], key: Any, place: str) -> Any:
    found = form.get(key, form.get("*"))
    if found is None or not isinstance(key, str):
        known = ", ".join(sorted({*form, *(_ENTRIES if form is _FORM else ())}))
        raise ConfigError(f"There is no {place}.{key!s:.80}; known: {known}.")
    return found


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= LONGEST and all(map(_is_text, value))


_IS_OF: Final[Mapping[str, Callable[[Any], bool]]] = {
    _TEXT: _is_text,
    _NAMES: _is_names,
    _FLAG: lambda value: isinstance(value, bool),
}
