"""Reference pages of metrics, environment variables and HTTP APIs, made from the code and its OpenAPI documents."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from crawler.frontier.base import FrontierStats
from crawler.status.collection_status import CollectionHoldings, CollectionStatus, CopyCheckSummary, FrontierOverview
from crawler.status.status_server import families
from playback.web.registry.registry_api import api_description
from scripts.command_tree import walk_commands
from weboid.console.api import create_api

NONE = "\N{EN DASH}"  # an empty cell
_METRICS = """\
# Metrics

Made from `crawler/status/status_server.py` by `python -m scripts.reference`.

`weboid status --listen` serves these metrics at `/metrics` in Prometheus' text format ([monitoring](../how-to/monitoring.md)). They describe the collection and its frontier; the servers for readers have no metrics of their own.

Values that can fall are gauges: pages that are queued again are no longer done. No URL is ever a label; label values are cut at 120 characters.

| metric | type | labels | meaning |
|---|---|---|---|
"""


def metrics_page() -> str:
    """Return the page of all metrics, from those of an empty collection."""
    nothing = dict.fromkeys(("queued", "claimed", "done", "skipped", "dead"), 0)
    stats = FrontierStats(**nothing, later=0, due=0, duplicates=0, hosts=0, bytes=0, version=0, paused=None)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    status = CollectionStatus(
        now,
        CollectionHoldings("collection", False, {}, 0, 0, 0, 0, 0, 0, 0),  # noqa: FBT003 in_use
        FrontierOverview(now, stats, (), {}, None, None, {}, {}, (), (), (), (), (), (), (), {}, {}),
        CopyCheckSummary({}, {}, {}, {}, 0),
    )
    rows = []
    for family in families(status, version="1"):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = ", ".join(f"`{each}`" for each in vars(family)["_labelnames"])
        rows.append(f"| `{name}` | {family.type} | {labels or NONE} | {family.documentation} |")
    return _METRICS + "\n".join(sorted(rows)) + "\n"


# Variables that no option of a command reads.
ENVIRONMENT = {
    "NO_COLOR": "any text: as `--no-color`",
    "WEBOID_CONTACT": "`[operator] contact`, sent to the sites that are visited",
    "WEBOID_PURPOSE_PAGE": "`[operator] purpose_page`",
    "WEBOID_RECORD_CA": "set by [`weboid record`](../how-to/record.md) for its command: file of the recorder's certificate",
    "WEBOID_RECORD_PASSWORD": "set by [`weboid record`](../how-to/record.md) for its command: password of the session at the proxy",
    "WEBOID_RECORD_PROXY": "set by [`weboid record`](../how-to/record.md) for its command: the proxy as `http://HOST:PORT`",
    "WEBOID_RECORD_SPKI": "set by [`weboid record`](../how-to/record.md) for its command: digest of the recorder's key, for `--ignore-certificate-errors-spki-list` of Chromium",
    "WEBOID_RECORD_USERNAME": "set by [`weboid record`](../how-to/record.md) for its command: user name of the session at the proxy",
    "WEBOID_SECRET": "secret of a cluster, as hexadecimal digits, instead of `--secret-file`",
    "WEBOID_LOGIN_PASSPHRASE": "passphrase of [logins](../how-to/logins.md)",
    "WEBOID_REPLAY_PYTHON": "Python with pywb, for the level `full`",
    "WEBOID_ORIGIN": "[container](../how-to/container.md): `--origin` of `weboid serve`",
    "WEBOID_REPLAY_ORIGIN": "container: `--replay-origin` of `weboid serve`",
    "WEBOID_BROWSER": "`[browser] executable`: a path or a name",
    "WEBOID_FULL_SECRET": "internal: `weboid serve` gives it to its replay process",
}
_VARIABLES = """\
# Environment variables

Made from the commands' options by `python -m scripts.reference`.

An option on the command line comes before its variable, the variable before `weboid.toml` ([configuration](../how-to/configure.md)). An address that begins with `@` is read from the file that it names.

| variable | option | commands |
|---|---|---|
"""


def environment_page() -> str:
    """Return the page of all environment variables."""
    options: dict[str, dict[str, list[str]]] = {}
    for path, command in walk_commands():
        for option in command.params:
            names = option.envvar if isinstance(option.envvar, list | tuple) else [option.envvar]
            for name in filter(None, names):
                option_name = max(option.opts, key=len)
                options.setdefault(name, {}).setdefault(option_name, []).append(path)
    rows = []
    for name, paths_by_option in sorted(options.items()):
        for option_name, paths in paths_by_option.items():
            rows.append(f"| `{name}` | `{option_name}` | {_listed(paths)} |")
    others = [f"| `{name}` | {text} |" for name, text in sorted(ENVIRONMENT.items())]
    lines = [*rows, "", "Read without an option:", "", "| variable | meaning |", "|---|---|", *others]
    return _VARIABLES + "\n".join(lines) + "\n"


_MANY = 5


def _listed(paths: list[str]) -> str:
    if len(paths) > _MANY:
        return "every command with this option"
    return ", ".join(f"`{path}`" if path != "weboid" else "all" for path in paths)


def openapi_document() -> str:
    """Return the registry API's OpenAPI document, as the server sends it."""
    return json.dumps(api_description(), indent=1, ensure_ascii=False) + "\n"


_OPENAPI = """\
# Link registry API: requests and responses

Made from the API's own description by `python -m scripts.reference`: [OpenAPI 3.1](registry-openapi.json), which servers send at `/links/api/openapi.json`. [The link registry's web API](registry-api.md) explains it.
"""


_ARCHIVE = """\
# Archive API: requests and responses

Made from [OpenAPI 3.1](archive-openapi.yaml) by `python -m scripts.reference`. The APIs of `weboid serve` for captures and quality checks ([Memento and CDX](memento.md), [pages for readers](front.md), [quality](../how-to/quality.md)), and of `weboid status --listen` ([metrics](metrics.md)). The link registry has [its own](registry-openapi.md).
"""
ARCHIVE_FILE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "archive-openapi.yaml"


def archive_description() -> dict[str, Any]:
    """Return the OpenAPI document of the archive's APIs."""
    return dict(yaml.safe_load(ARCHIVE_FILE.read_bytes()))


def archive_openapi_page() -> str:
    """Return the archive's OpenAPI document as a page."""
    return _openapi_page(_ARCHIVE, archive_description())


_CONSOLE = """\
# Console API: requests and responses

Made from the API's own description by `python -m scripts.reference`: [OpenAPI 3.1](console-openapi.json), which `weboid console` sends at `/api/v1/openapi.json`; paths are below `/api/v1`. [Accounts](../how-to/accounts.md) explains tokens and roles.
"""


def console_description() -> dict[str, Any]:
    """Return the OpenAPI document of the console's API; it needs no stores."""
    nothing: Any = None
    return create_api(nothing).openapi()


def console_document() -> str:
    """Return the console API's OpenAPI document, as the server sends it."""
    return json.dumps(console_description(), indent=1, ensure_ascii=False) + "\n"


def console_openapi_page() -> str:
    """Return the console API's OpenAPI document as a page."""
    return _openapi_page(_CONSOLE, console_description())


def openapi_page() -> str:
    """Return the registry API's OpenAPI document as a page."""
    return _openapi_page(_OPENAPI, api_description())


def _openapi_page(head: str, document: dict[str, Any]) -> str:
    lines = [head]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            role = f" Role: {operation['x-role']}." if "x-role" in operation else ""
            lines += [f"## `{method.upper()} {path}`", "", f"{operation['summary']}.{role}", ""]
            lines += _parameters(operation.get("parameters", []))
            if body := operation.get("requestBody"):
                lines += [f"The request's body is {_media(body['content'])}.", ""]
            lines += ["| status | response | content |", "|---|---|---|"]
            lines += [
                f"| {status} | {_cell(each.get('description', ''))} | {_media(each.get('content', {}))} |"
                for status, each in sorted(operation["responses"].items())
            ]
            lines.append("")
    lines += ["## Schemas", ""]
    for name, schema in document["components"]["schemas"].items():
        lines += [f"### {name}", "", *_schema(schema), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _parameters(parameters: list[dict[str, Any]]) -> list[str]:
    if not parameters:
        return []
    rows = [
        f"| `{each['name']}`{' (required)' if each.get('required') else ''} | {_kind(each['schema'])} | {_cell(each.get('description', '')) or NONE} |"
        for each in parameters
    ]
    return ["| parameter | type | meaning |", "|---|---|---|", *rows, ""]


def _media(content: dict[str, Any]) -> str:
    media_types = []
    for kind, each in content.items():
        shown = _kind(each["schema"]) if "schema" in each else ""
        media_types.append(f"`{kind}`" + (f": {shown}" if shown.startswith("[") else ""))
    return ", ".join(media_types) or NONE


def _schema(schema: dict[str, Any]) -> list[str]:
    lines = [schema["description"], ""] if "description" in schema else []
    if "properties" not in schema:
        return [*lines, _kind(schema)]
    required = schema.get("required", [])
    return [
        *lines,
        "| field | type | meaning |",
        "|---|---|---|",
        *(row for name, each in schema["properties"].items() for row in _fields(name, each, required)),
    ]


def _fields(name: str, schema: dict[str, Any], required: list[str]) -> Iterator[str]:
    """Yield the rows of a field and of the fields of a nested object."""
    optional = "" if name in required or "." in name else " (optional)"
    yield f"| `{name}`{optional} | {_kind(schema)} | {_cell(schema.get('description', '')) or NONE} |"
    is_list = schema.get("type") == "array"
    inner = schema["items"] if is_list else schema
    for key, each in inner.get("properties", {}).items():
        yield from _fields(f"{name}{'[]' if is_list else ''}.{key}", each, required)


def _kind(schema: dict[str, Any]) -> str:
    """Return the type of a schema in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    for key in ("oneOf", "anyOf"):
        if key in schema:
            return " or ".join(map(_kind, schema[key]))
    if "const" in schema:
        return f"`{_value(schema['const'])}`" if schema["const"] else "empty"
    if "enum" in schema:
        return ", ".join(f"`{each}`" if each else "empty" for each in map(_value, schema["enum"]))
    kinds = schema.get("type", "anything")
    text = " or ".join(kinds) if isinstance(kinds, list) else str(kinds)
    if text == "array":
        members = schema.get("prefixItems")  # of a tuple
        text = f"list of {_kind(schema['items'])}" if members is None else f"list ({', '.join(map(_kind, members))})"
    if isinstance(each := schema.get("additionalProperties"), dict):
        text += f" whose values are {_kind(each)}"
    if "format" in schema:
        text += f" ({schema['format']})"
    return text


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("\n", " ")
