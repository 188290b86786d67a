"""Template map of a wiki: its file format, overlays, and the rules compiled from it.

The maps are the files ``templates/*.toml``; a wiki's own settings are overlaid in the same form
(docs/reference/wikitext.md). Languages without a map use the English one, whose templates are copied most often.
Names are compared folded (`fold_name`), so redirects that differ only in letter case need not be listed.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, Final

from core.errors import ConfigError
from links.archives.archive_urls import SERVICES
from wiki.wikitext.citation_model import ParameterRole

STATUSES: Final = ("live", "dead", "unfit", "usurped")
DATE_STYLES: Final = ("dmy", "mdy", "ymd", "iso", "de")
LONGEST_ENTRY: Final = 2_000  # characters of one text, and entries of one list
_ROLES: Final = (*(role.value for role in ParameterRole), "text-urls", "more-urls")

_TEXT = "a string"
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
_MAP_FORM: Final[Mapping[str, Any]] = {
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


def check_map(entries: Any, place: str) -> Mapping[str, Any]:
    """Validate a map; raises ConfigError for an unknown key, a value of the wrong type, an entry without a name."""
    if not isinstance(entries, Mapping):
        raise ConfigError(f"{place} must be a table.")
    for key, value in entries.items():
        if key not in _ENTRIES:
            _check(value, _within(_MAP_FORM, key, place), f"{place}.{key}")
        elif not isinstance(value, list):
            raise ConfigError(f"{place}.{key} must be a list of tables.")
        for number, entry in enumerate(value[:LONGEST_ENTRY] if key in _ENTRIES else (), 1):
            where = f"{place}.{key}[{number}]"
            _check(entry, _ENTRIES[key], where)
            if not entry.get("names"):
                raise ConfigError(f"{where} has no template name: give it names = [\u2026].")
    return entries


def overlay_map(base: Mapping[str, Any], entries: Mapping[str, Any]) -> Mapping[str, Any]:
    """Overlay maps: tables are merged by key, entries and names of tags appended, `without` removes names."""
    merged = dict(base)
    for key, value in entries.items():
        before = base.get(key)
        if key in _ENTRIES or key == "namespaces":
            merged[key] = [*(before or ()), *value]
        elif key == "tags":
            before = before or {}
            merged[key] = before | {name: [*before.get(name, ()), *names] for name, names in value.items()}
        elif isinstance(value, Mapping) and isinstance(before, Mapping):
            merged[key] = {**before, **value}
            if key == "write" and "status" in value:
                merged[key]["status"] = {**before.get("status", {}), **value["status"]}
        else:
            merged[key] = value
    return merged


def _check(value: Any, form: Any, place: str) -> None:
    if isinstance(form, Mapping):
        if not isinstance(value, Mapping):
            raise ConfigError(f"{place} must be a table.")
        for key, each in value.items():
            _check(each, _within(form, key, place), f"{place}.{key}")
    elif isinstance(form, tuple):
        if value not in form:
            raise ConfigError(f"{place} must be one of {', '.join(form)}; it is {value!r:.80}.")
    elif not _is_of(form, value):
        raise ConfigError(f"{place} must be {form}.")


def _within(form: Mapping[str, Any], key: Any, place: str) -> Any:
    value = form.get(key, form.get("*"))
    if value is None or not isinstance(key, str):
        known = ", ".join(sorted({*form, *(_ENTRIES if form is _MAP_FORM else ())}))
        raise ConfigError(f"There is no {place}.{key!s:.80}; known: {known}.")
    return value


def _is_of(form: str, value: Any) -> bool:
    if form == _NAMES:
        return isinstance(value, list) and len(value) <= LONGEST_ENTRY and all(_is_of(_TEXT, each) for each in value)
    return isinstance(value, bool) if form == _FLAG else isinstance(value, str) and len(value) <= LONGEST_ENTRY


FALLBACK: Final = "en"
_SPACES = re.compile(r"[\s_]+")
_SUBSTITUTION = re.compile(r"(?:safe)?subst:", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CitationTemplate:
    """Citation template."""

    roles: Mapping[str, ParameterRole]  # of its parameters, by folded name
    names: Mapping[ParameterRole, tuple[str, ...]]  # by role; the preferred one first
    text_urls: frozenset[str] = frozenset()  # URL parameters that may hold wikitext
    more_urls: tuple[str, ...] = ()  # further ones, in order of replacing a missing URL


@dataclass(frozen=True, slots=True)
class ArchiveTemplate:
    """Template that links to a copy. Parameters are folded."""

    address: tuple[str, ...] = ()  # may hold the copy's address
    original: tuple[str, ...] = ()  # may hold the archived URL
    date: tuple[str, ...] = ()  # hold the archive date
    title: tuple[str, ...] = ()  # hold a title
    stamps: Mapping[str, str] = field(default_factory=dict)  # timestamps of this service's copy


@dataclass(frozen=True, slots=True)
class DeadTag:
    """Template that marks a link as dead."""

    status: str = "dead"  # that it expresses: ``dead`` or ``usurped``
    url: tuple[str, ...] = ()  # parameters that may hold the link itself, folded
    title: tuple[str, ...] = ()  # parameters for a title, folded


@dataclass(frozen=True, slots=True)
class WritingRules:
    """Rules for text that an edit adds."""

    citation: str = ""  # the template that a bare reference becomes; empty: none
    dates: str = "dmy"  # default style: ``dmy``, ``mdy``, ``ymd``, ``iso``, ``de``
    # {url}, {title}, {iso}, {month}, {year}, {bot}; {attempted}: yes, copies were searched for
    dead_tag: str = ""
    # after a link outside of templates: {address}, {url}, {stamp}, {date}, {title}
    archive: str = ""
    status: Mapping[str, str] = field(default_factory=dict)  # of a link; empty: no parameter


@dataclass(frozen=True, eq=False)
class TemplateRules:
    """Compiled template map. All keys are folded names."""

    language: str  # of the map
    namespaces: frozenset[str]  # prefixes of template names
    citations: Mapping[str, CitationTemplate]
    dead_tags: Mapping[str, DeadTag]  # templates that mark a link as dead
    archives: Mapping[str, ArchiveTemplate]  # templates that link to copies
    links: Mapping[str, tuple[str, ...]]  # templates with link parameters, maybe without a scheme
    references: frozenset[str]  # templates whose content is a reference as in ``<ref>``
    paywall_tags: frozenset[str]  # templates that mark a link as requiring a login
    hold_tags: frozenset[str]  # templates that exclude a link from bot edits
    inline_tags: frozenset[str]  # templates that may directly follow a URL, and end it
    status: Mapping[str, Mapping[str, str]]  # by value in lower case; ``*`` is any other
    access: Mapping[str, frozenset[str]]  # values of a parameter that mean a login
    archive_implies_dead: bool  # a citation with an archive URL and no status links to the copy
    retrieved: tuple[str, ...]  # words before an access date in running text, in lower case
    writing: WritingRules  # rules for added text

    def name_of(self, written: str) -> str:
        """Return a template's lookup name: no namespace, no ``subst:``, folded.

        >>> rules_for("en").name_of(" template:Cite_web ")
        'cite web'
        """
        name = fold_name(written)
        if ":" in name:
            name = _SUBSTITUTION.sub("", name.removeprefix(":"), count=1).strip()
            head, colon, rest = name.partition(":")
            name = rest.strip() if colon and head.strip() in self.namespaces else name
        return name

    def is_tag(self, name: str) -> bool:
        """Return True if the template (folded) follows a link and is not part of its URL."""
        return name in self.inline_tags or name in self.references or self.is_speaking(name)

    def is_speaking(self, name: str) -> bool:
        """Return True if the template (folded) describes the preceding link."""
        return name in self.dead_tags or name in self.archives or name in self.hold_tags or name in self.paywall_tags


@cache
def words() -> Mapping[str, Any]:
    """Return the word lists of reading and writing wikitext, from ``words.toml``."""
    return tomllib.loads((resources.files("wiki.wikitext") / "words.toml").read_text("utf-8"))


def fold_name(name: str) -> str:
    """Return the comparison form of a template or parameter name.

    >>> fold_name(" Cite__Web ")
    'cite web'
    """
    return _SPACES.sub(" ", name).strip().casefold()


def rules_for(language: str, own: Mapping[str, Any] | None = None) -> TemplateRules:
    """Compile the rules of a wiki. Raises ConfigError: `own` has unknown keys, or values of the wrong type."""
    if not own:
        return _check_language(_map_of(language))
    overlay = check_map(own, "templates")
    base = str(overlay.get("extends") or _map_of(language))
    if base not in languages():
        raise ConfigError(f"templates.extends names no map: {base!r}; known: {', '.join(languages())}.")
    return _compile_rules(overlay_map(_document(base), overlay))


@cache
def languages() -> tuple[str, ...]:
    """Return the languages that have a map of their own."""
    paths = (resources.files("wiki.wikitext") / "templates").iterdir()
    return tuple(sorted(path.name.removesuffix(".toml") for path in paths if path.name.endswith(".toml")))


def _map_of(language: str) -> str:
    base = language.casefold().partition("-")[0]
    return base if base in languages() else FALLBACK


@cache
def _check_language(language: str) -> TemplateRules:
    return _compile_rules(_document(language))


@cache
def _document(language: str) -> Mapping[str, Any]:
    path = resources.files("wiki.wikitext") / "templates" / f"{language}.toml"
    checked = check_map(tomllib.loads(path.read_text("utf-8")), path.name)
    base = checked.get("extends")
    return overlay_map(_document(base), checked) if base else checked


_TAG_FIELDS: Final = {"references": "reference"} | {f"{kind}_tags": kind for kind in ("paywall", "hold", "inline")}


def _compile_rules(document: Mapping[str, Any]) -> TemplateRules:
    tags = document.get("tags", {})
    common = document.get("parameters", {})
    without = _names(document.get("without", ()))

    def by_name(key: str, factory: Callable[[Mapping[str, Any]], Any]) -> dict[str, Any]:
        known: dict[str, Any] = {}
        for entry in document.get(key, ()):
            known.update(dict.fromkeys(map(fold_name, entry["names"]), factory(entry)))
        return {name: each for name, each in known.items() if name not in without}

    return TemplateRules(
        language=document.get("language", FALLBACK),
        namespaces=_names(document.get("namespaces", ())),
        citations=by_name("citation", lambda e: _citation(e, common)),
        dead_tags=by_name("dead_tag", lambda e: DeadTag(e.get("status", "dead"), **_lists(e, "url", "title"))),
        archives=by_name(
            "archive",
            lambda e: ArchiveTemplate(
                stamps={fold_name(name): service for name, service in e.get("stamps", {}).items()},
                **_lists(e, "address", "original", "date", "title"),
            ),
        ),
        links=by_name("link", lambda e: _folded(e.get("parameters", ()))),
        **{field: _names(tags.get(kind, ())) - without for field, kind in _TAG_FIELDS.items()},
        status={
            fold_name(parameter): {value.casefold(): status for status, values in each.items() for value in values}
            for parameter, each in document.get("status", {}).items()
        },
        access={fold_name(k): frozenset(map(str.casefold, v)) for k, v in document["access"].items()},
        archive_implies_dead=document.get("archive_implies_dead", False),
        retrieved=tuple(word.casefold() for word in document.get("retrieved", ())),
        writing=WritingRules(**document.get("write", {})),
    )


def _citation(entry: Mapping[str, Any], common: Mapping[str, Sequence[str]]) -> CitationTemplate:
    entries = {**common, **entry.get("parameters", {})}
    names = {role: tuple(entries.get(role.value, ())) for role in ParameterRole}
    roles: dict[str, ParameterRole] = {}
    for role, written in names.items():
        for name in written:
            roles.setdefault(fold_name(name), role)
    names = {role: written for role, written in names.items() if written}
    return CitationTemplate(roles, names, _names(entries.get("text-urls", ())), _folded(entries.get("more-urls", ())))


def _lists(entry: Mapping[str, Any], *keys: str) -> dict[str, tuple[str, ...]]:
    return {key: _folded(entry.get(key, ())) for key in keys}


def _folded(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(fold_name, names)))


def _names(names: Iterable[str]) -> frozenset[str]:
    return frozenset(map(fold_name, names))
