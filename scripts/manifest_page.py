"""docs/reference/manifest.md: fields of a page manifest and of WARC records, from the manifest's classes."""

import ast
import inspect

from core import page_facts, page_manifest
from core.page_manifest import PAGEINFO_VERSION
from scripts.interfaces import NONE

_HEAD = f"""\
# Page manifest and WARC conventions

Made from `core/page_manifest.py` by `python -m scripts.reference`.

## WARC files

WARC/1.1, one gzip member a record. `weboid-*.warc.gz` hold captures, `artifacts-*.warc.gz` what was derived from pages, `imported-*.warc.gz` captures of other tools ([import](../how-to/import.md)), whose manifests and page ids are not trusted; `archive/SHA256SUMS` has the checksums of closed files.

| record | convention |
|---|---|
| `warcinfo` | first in each file: software, format, operator, contact, title (`isPartOf`), description, robots, profile, User-Agent |
| `request`, `response` | the bytes as they were on the wire, without hop-by-hop headers |
| `revisit` | payload stored before: `WARC-Refers-To-Target-URI` and `-Date` always, `WARC-Refers-To` where known, `WARC-Truncated: length` |
| `revisit`, server-not-modified | a `304`; indexed only with `WARC-Confirmed-Response`: status and type of the archived response that [the host confirmed](../explanation/proxy.md#unchanged-since-the-last-capture) and the page received |
| `resource` | an artifact, its URI begins with `urn:` ([artifacts](artifacts.md)); `WARC-Date` is the visit's start, `WARC-Concurrent-To` names the page's record |
| `WARC-Page-ID` | in every record of a visit: the manifest's `page_id` |
| `WARC-Payload-Digest`, `WARC-Block-Digest` | SHA-256 |
| `WARC-Identified-Payload-Type` | where the payload's bytes say more than its declared type |
| `WARC-Protocol`, `WARC-Cipher-Suite` | HTTP version, TLS version and cipher suite of the connection |
| `WARC-TLS-Verification`, `WARC-TLS-Certificate` | why the certificate did not verify; SHA-256 of the certificate |
| `WARC-Truncated` | `length` and `time`: a limit of `[proxy]` was reached; `disconnect`: the server ended early; `unspecified`: malformed chunks |

[What is recorded](../explanation/proxy.md#what-is-recorded) has the details.

## Page manifest

A `resource` record `urn:pageinfo:URL`, type `application/json`, written last by each visit. `version` is {PAGEINFO_VERSION}; readers ignore unknown keys, and a key of the version may be missing in older manifests.
"""
# Classes of the manifest, in the order of the page, with the fields that hold them.
_CLASSES = {
    "PageInfo": "",
    "PageResource": "resources",
    "PageLink": "links",
    "PageFact": "facts",
    "PagePicture": "pictures",
    "PageBehaviour": "behaviours",
    "MissingResource": "refetched, missing",
    "PageScreen": "screen",
    "PlayerMedia": "media",
    "PageImport": "imported",
}


def page() -> str:
    """Return the page."""
    lines = [_HEAD]
    classes: dict[str, list[str]] = {}
    for module in (page_manifest, page_facts):
        source = inspect.getsource(module)
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef) and node.name in _CLASSES:
                classes[node.name] = _fields(node, source.splitlines())
    for name, fields in _CLASSES.items():
        names = ", ".join(f"`{each}`" for each in fields.split(", "))
        lines += [f"### {names}", ""] if fields else []
        lines += ["| field | type | meaning |", "|---|---|---|", *classes[name], ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _fields(node: ast.ClassDef, source: list[str]) -> list[str]:
    rows = []
    for entry in node.body:
        if not isinstance(entry, ast.AnnAssign) or not isinstance(entry.target, ast.Name):
            continue
        start = above = entry.lineno - 1
        while source[above - 1].strip().startswith("#"):
            above -= 1
        comments = (line.partition("  #")[2] or line.partition("    # ")[2] for line in source[above : start + 1])
        meaning = " ".join(each.strip() for each in comments).strip().replace("|", r"\|")
        kind = ast.unparse(entry.annotation).replace(" | None", " or null")
        rows.append(
            f"| `{entry.target.id}` | {_kind(kind)} | {meaning.replace('``', '`').replace('None', 'null') or NONE} |"
        )
    return rows


def _kind(annotation: str) -> str:
    """Return a type of Python as one of JSON."""
    names = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
    kind, _, null = annotation.partition(" or ")
    if kind.startswith("tuple["):
        inner = kind.removeprefix("tuple[").partition(",")[0]
        kind = "list of strings" if inner == "str" else "list of objects"
    elif kind.startswith("dict["):
        kind = "object"
    elif kind not in names:
        kind = "object" if kind.startswith("P") and kind != "PageClass" else "string"
    return names.get(kind, kind) + (f" or {null}" if null else "")
