"""Schemas of the commands' JSON outputs, from outputs that tests recorded, and their reference page.

``WEBOID_RECORD_JSON=FOLDER pytest …`` records what the commands of the tests print; ``python -m
scripts.json_outputs FOLDER`` extends ``docs/reference/json-outputs.json`` by it, ``--new`` makes the
named commands' schemas from it alone. The tests then hold the commands to the schemas
(``tests/support/json_outputs.py``).
"""

import argparse
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from scripts.command_tree import walk_commands

_NONE = "\N{EN DASH}"  # an empty cell
SCHEMAS_FILE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "json-outputs.json"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
TITLE = "Lines of output of Weboid's commands with --json"

Schema = dict[str, Any]
# A value of which only null was recorded: nothing is known of the others.
UNSEEN: Schema = {"type": ["array", "boolean", "null", "number", "object", "string"], "additionalProperties": {}}
_FIELD = re.compile(r"[a-z][a-z0-9_]*")
_SCALARS = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}


# Objects whose keys are data, by the name of the field that holds them.
_MAPS = frozenset(
    {
        *("changes", "checked", "classes", "did", "edits", "jobs", "links", "not_observed", "outcomes"),
        *("passed_over", "per_minute", "refused", "repaired", "skipped", "sorts", "verdicts"),
    }
)


def infer(value: object, name: str = "") -> Schema:
    """Return the schema of one value; `name` is that of the field that holds it."""
    if isinstance(value, dict):
        if name in _MAPS or not all(_FIELD.fullmatch(key) for key in value):
            return {"type": ["object"], "additionalProperties": union(map(infer, value.values()))}
        return {
            "type": ["object"],
            "properties": {key: infer(each, key) for key, each in value.items()},
            "required": sorted(value),
            "additionalProperties": False,
        }
    if isinstance(value, list):
        return {"type": ["array"], "items": union(infer(each) for each in value)}
    return {"type": [_SCALARS[type(value)]]}


def union(schemas: Iterable[Schema]) -> Schema:
    """Return a schema that accepts what any of the schemas does; without any, nothing is known."""
    merged: Schema = {}
    for schema in schemas:
        merged = _merge(merged, schema)
    return merged


def _merge(one: Schema, other: Schema) -> Schema:
    if not one or not other:
        return one or other
    for each, known in ((one, other), (other, one)):
        if each == UNSEEN:
            return known | {"type": sorted({*known["type"], "null"})}
    types = set(one["type"]) | set(other["type"])
    types -= {"integer"} if "number" in types else set()
    merged: Schema = {"type": sorted(types)}
    if items := [each["items"] for each in (one, other) if "items" in each]:
        merged["items"] = union(items)
    objects = [each for each in (one, other) if "object" in each["type"]]
    if any(isinstance(each["additionalProperties"], dict) for each in objects):
        merged["additionalProperties"] = union(_values(objects))
    elif objects:
        fields: dict[str, Schema] = {}
        for each in objects:
            for key, schema in each["properties"].items():
                fields[key] = _merge(fields.get(key, {}), schema)
        merged["properties"] = fields
        merged["required"] = sorted(set.intersection(*(set(each["required"]) for each in objects)))
        merged["additionalProperties"] = False
    return merged


def widened(schema: Any) -> Any:
    """Return the schema with `UNSEEN` where only null was recorded, and any keys where objects were empty."""
    if isinstance(schema, list):
        return [widened(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema == {"type": ["null"]}:
        return UNSEEN
    if schema.get("properties") == {} and schema.get("type") == ["object"]:
        return {"type": ["object"], "additionalProperties": {}}
    return {key: widened(each) for key, each in schema.items()}


def _values(objects: list[Schema]) -> Iterator[Schema]:
    for each in objects:
        if isinstance(each["additionalProperties"], dict):
            yield each["additionalProperties"]
        yield from each.get("properties", {}).values()


def line_schema(values: Iterable[Any], before: Schema | None = None) -> Schema:
    """Return the schema of a command's lines; lines that name an `event` have one each."""
    kinds: dict[str, Schema] = {}
    for each in (before or {}).get("oneOf", [before] if before else []):
        kinds[each.get("properties", {}).get("event", {}).get("const", "")] = each
    for value in values:
        event = value.get("event") if isinstance(value, dict) else None
        kind = event if isinstance(event, str) else ""
        schema = infer(value)
        kinds[kind] = _merge(kinds.get(kind, {}), schema)
        if kind:
            kinds[kind]["properties"]["event"] = {"type": ["string"], "const": kind}
    schemas = [schema for _, schema in sorted(kinds.items())]
    return schemas[0] if len(schemas) == 1 else {"oneOf": schemas}


def json_commands() -> list[str]:
    """Return the commands that have the option ``--json``."""
    return [path for path, command in walk_commands() if _has_json(command)]


def _has_json(command: click.Command) -> bool:
    return any("--json" in each.opts for each in command.params)


def read() -> dict[str, Schema]:
    """Return the schema of one line of output of each command."""
    return dict(json.loads(SCHEMAS_FILE.read_text(encoding="utf-8"))["commands"])


def page() -> str:
    """Return the reference page of the JSON outputs."""
    schemas = read()
    lines = [_HEAD]
    for path, command in walk_commands():
        if path not in schemas:
            continue
        text = " ".join((command.help or "").split("\n\n")[0].split())
        lines += [f"## `{path}`", "", text, ""]
        schema = schemas[path]
        for each in schema.get("oneOf", [schema]):
            event = each.get("properties", {}).get("event", {}).get("const")
            lines += [f"Event `{event}`:", ""] if event else []
            lines += ["| field | type | |", "|---|---|---|", *_rows(each, ""), ""]
    lines += [_TAIL, ""]
    left = [f"`{each}`" for each in json_commands() if each not in schemas]
    lines.append(", ".join(left) + "." if left else "None.")
    return "\n".join(lines) + "\n"


_HEAD = f"""\
# JSON outputs

Made from [json-outputs.json](json-outputs.json) by `python -m scripts.reference`.

With `--json` a command prints one JSON value a line (UTF-8) on standard output; messages and progress go to standard error.
Commands that run for a while print one object for each event, which names it in `event`.
[json-outputs.json](json-outputs.json) has a JSON Schema ({DIALECT.rsplit("/", 2)[1]}) of a line for each command below. The schemas are recorded from real outputs, and every test that runs a command with `--json` checks its lines against them: a field that is not listed here, or a missing one, is an error.

Times are ISO 8601 with a time zone, in fields whose names end in `_at`; durations end in `_s` (seconds), sizes in `bytes`. In the tables `x[].y` is the field `y` of each entry of the list `x`, and `x.*` any key of the object `x`. Fields marked "optional" are in some lines only.
"""
_TAIL = """\
## Not recorded

Commands whose output has no schema here:
"""


def _rows(schema: Schema, path: str) -> Iterator[str]:
    """Yield a row for each field, nested ones below their own."""
    if "items" in schema:
        yield from _rows(schema["items"], f"{path}[]")
    if not path and "object" not in schema.get("type", ()):
        return
    if isinstance(below := schema.get("additionalProperties"), dict):
        yield from _field(f"{path}.*", below, is_optional=False)
    for name, below in sorted(schema.get("properties", {}).items()):
        optional = name not in schema["required"]
        yield from _field(f"{path}.{name}" if path else name, below, is_optional=optional)


def _field(path: str, schema: Schema, *, is_optional: bool) -> Iterator[str]:
    types = "null, or anything" if schema == UNSEEN else " or ".join(schema.get("type", ["anything"]))
    note = f"`{schema['const']}`" if "const" in schema else "optional" if is_optional else _NONE
    yield f"| `{path}` | {types} | {note} |"
    if schema != UNSEEN:
        yield from _rows(schema, path)


def main() -> None:
    """Extend the schemas by a folder of records."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--new", nargs="*", default=[], help="commands whose recorded schemas are replaced")
    options = parser.parse_args()
    schemas = read() if SCHEMAS_FILE.exists() else {}
    known = set(json_commands())
    records: dict[str, list[Any]] = {}
    for file in sorted(options.folder.glob("*.json")):
        record = json.loads(file.read_text())
        records.setdefault(record["command"], []).append(record["value"])
    for path, values in records.items():
        before = None if path in options.new or "all" in options.new else schemas.get(path)
        schemas[path] = line_schema(values, before)
    lines = [
        f"{json.dumps(path)}: {json.dumps(widened(each), ensure_ascii=False)}"
        for path, each in sorted(schemas.items())
        if path in known
    ]
    head = json.dumps({"$schema": DIALECT, "title": TITLE})[1:-1]
    text = ",\n".join(lines)
    SCHEMAS_FILE.write_text(f'{{{head}, "commands": {{\n{text}\n}}}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
