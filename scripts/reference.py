"""Make the reference pages from the code: ``python -m scripts.reference`` writes them.

docs/reference/cli.md comes from the commands' own help, docs/reference/settings.md from the comments beside the
settings, docs/reference/link-states.md and its picture from the tables of the link registry, the table in
docs/how-to/archives.md from that of the web's archives, the pages of metrics, environment variables, JSON outputs
and the APIs of the registry and the console from the code. A test fails when they are behind.
"""

import ast
import inspect
import re
from dataclasses import replace
from pathlib import Path

import click

from core.config import settings as settings_module
from core.config.profile import check_settings
from core.config.settings import Settings
from core.errors import ConfigError
from crawler.jobs.crawl_orders import toml_value
from scripts import archive_services, interfaces, json_outputs, link_state_diagram, link_states, manifest_page
from scripts.command_tree import walk_commands
from weboid.cli.support.commands import ExitCode, LazyGroup

DOCS = Path(__file__).resolve().parent.parent / "docs"
SHORT_HELP_FILE = DOCS.parent / "weboid" / "cli" / "support" / "short_help.toml"
WIDTH = 100


def cli_page() -> str:
    """Return the page of every command's help and of the exit codes."""
    helps: list[str] = []
    for path, command in walk_commands():
        context = click.Context(command, info_name=path, max_content_width=WIDTH)
        helps += [f"## `{path}`", "", "```", command.get_help(context), "```", ""]
    parts = [
        "# The command line",
        "",
        "Made from the commands' own help by `python -m scripts.reference`.",
        "",
        *helps,
        "## Exit codes",
        "",
        "| code | name | meaning |",
        "|---|---|---|",
        *_exit_rows(),
    ]
    return "\n".join(parts) + "\n"


def _exit_rows() -> list[str]:
    source = inspect.getsource(ExitCode)
    rows = re.findall(r"^    (\w+) = (\d+)  # (.+)$", source, re.MULTILINE)
    return [f"| {code} | `{name}` | {meaning} |" for name, code, meaning in rows]


def settings_page() -> str:
    """Return the page of every group and key of a profile, with default and meaning."""
    lines = [
        "# Settings",
        "",
        "Settings of `weboid.toml` in a collection, and of [profiles](../how-to/profiles.md), with their defaults as TOML. Each table is a group.",
        "Values outside the range are refused, with the file and the line. An option that is named overrides the setting for one run ([command line](cli.md)).",
        "",
        "Made from `core/config/settings.py` by `python -m scripts.reference`.",
    ]
    source = inspect.getsource(settings_module)
    groups = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}
    for entry in groups["Settings"].body:
        if isinstance(entry, ast.AnnAssign) and isinstance(entry.target, ast.Name):
            if not isinstance(entry.annotation, ast.Name):
                continue  # the sheets, which repeat the groups
            group = groups[entry.annotation.id]
            lines += ["", f"## `[{entry.target.id}]`", "", ast.get_docstring(group) or "", ""]
            lines += ["| key | type | range | default | meaning | option |", "|---|---|---|---|---|---|"]
            lines += _rows(group, source, entry.target.id)
    return "\n".join(lines) + "\n"


_KINDS = {
    "bool": "true or false",
    "int": "number",
    "float": "number",
    "str": "text",
    "tuple[str, ...]": "list of texts",
}
_UNITS = {
    "_s": "seconds, or `10m`",
    "seconds": "seconds, or `10m`",
    "bytes": "bytes, or `5GB`",
    "_mb": "MB",
    "_px": "CSS pixels",
    "_days": "days",
}


def _shown(value: object) -> str:
    """Return a default as TOML; large numbers with separators."""
    is_large = isinstance(value, int | float) and not isinstance(value, bool) and value >= 10_000
    return f"{value:_}" if is_large else toml_value(value)


# Options that override a setting for one run.
OVERRIDES = {
    "frontier.url": "--frontier",
    "index.url": "--database",
    "policy.robots": "--robots",
    "proxy.dedup_url": "--dedup",
    "recrawl.enabled": "--continuous",
    "scope.bytes": "--size-limit",
    "scope.depth": "--depth",
    "scope.exclude": "--exclude",
    "scope.extra_hops": "--extra-hops",
    "scope.host_pages": "--host-limit",
    "scope.include": "--include",
    "scope.kind": "--scope",
    "scope.link_decisions": "--link-decisions",
    "scope.pages": "--limit",
    "scope.seconds": "--time-limit",
    "scope.sitemaps": "--sitemaps",
    "visit.store": "--store",
}
_HUGE = 10**15
_NONE = "\N{EN DASH}"  # an empty cell


def _is_accepted(group: str, key: str, value: object) -> str:
    """Return an empty text if the settings are valid with that value, otherwise the error."""
    usual = Settings()
    try:
        changed = replace(getattr(usual, group), **{key: value})
        check_settings(replace(usual, **{group: changed}), source="")
    except ConfigError as error:
        return str(error)
    return ""


def value_range(group: str, key: str, usual: object) -> str:
    """Return the values that a setting may have, as the checks of settings accept them."""
    if isinstance(usual, str):
        error = _is_accepted(group, key, "\N{BULLET}")
        choices = re.search(r'must be (?:one of )?((?:"?[a-z-]+"?(?:, | or )?)+), not', error)
        names = re.findall(r"[a-z-]+", choices[1].replace(" or ", " ")) if choices else []
        return ", ".join(f"`{each}`" for each in names)
    if isinstance(usual, bool) or not isinstance(usual, int | float):
        return ""
    kind = type(usual)
    steps = (-1, 0, 0.001, 0.01, 0.1, 1) if kind is float else (-1, 0, 1)
    lowest = next(each for each in steps if not _is_accepted(group, key, kind(each)))
    above = ">" if lowest == steps[2] and kind is float else "≥"
    if not _is_accepted(group, key, kind(_HUGE)):
        return f"{above} {0 if above == '>' else lowest:g}"
    low: float = kind(usual)  # accepted
    high: float = _HUGE  # refused
    while high - low > (0.001 if kind is float else 1):
        middle = (low + high) / 2 if kind is float else (low + high) // 2
        low, high = (low, middle) if _is_accepted(group, key, kind(middle)) else (middle, high)
    return f"{lowest:g} to {round(low, 2):_g}" if kind is float else f"{lowest} to {low:_}"


def _rows(group: ast.ClassDef, source: str, name: str) -> list[str]:
    lines = source.splitlines()
    usual = getattr(Settings(), name)
    rows = []
    for entry in group.body:
        if not isinstance(entry, ast.AnnAssign) or not isinstance(entry.target, ast.Name):
            continue
        assert entry.value is not None
        assert entry.end_lineno is not None
        default = getattr(usual, entry.target.id)
        start = entry.lineno - 1
        above = start
        while lines[above - 1].strip().startswith("#"):
            above -= 1
        written = [*lines[above:start], *lines[start : entry.end_lineno]]
        meaning = " ".join(line.partition("#")[2].strip() for line in written).strip()
        kind = _KINDS.get(ast.unparse(entry.annotation), "table")
        unit = next((text for end, text in _UNITS.items() if entry.target.id.endswith(end)), "")
        if unit and kind != "text":
            kind = unit
        limits = value_range(name, entry.target.id, default)
        option = OVERRIDES.get(f"{name}.{entry.target.id}", "")
        shown = f"`{_shown(default)}`"
        option = f"`{option}`" if option else _NONE
        cells = (f"`{entry.target.id}`", kind, limits or _NONE, shown, meaning, option)
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def short_help_table() -> str:
    """Return the TOML from which groups list their commands without importing them."""
    lines = ["# Made from the commands' own help by `python -m scripts.reference`."]
    for path, group in walk_commands():
        if not isinstance(group, LazyGroup):
            continue
        context = click.Context(group)
        lines += ["", f"[{toml_value(path.removeprefix('weboid').strip())}]"]
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            paragraph = " ".join((command.help or "").split("\n\n")[0].split())
            lines.append(f"{name} = {toml_value(paragraph)}")
    return "\n".join(lines) + "\n"


PAGES = {
    "how-to/archives.md": archive_services.page,
    "pictures/link-states.svg": link_state_diagram.picture,
    "reference/archive-openapi.md": interfaces.archive_openapi_page,
    "reference/cli.md": cli_page,
    "reference/console-openapi.json": interfaces.console_document,
    "reference/console-openapi.md": interfaces.console_openapi_page,
    "reference/environment.md": interfaces.environment_page,
    "reference/json.md": json_outputs.page,
    "reference/link-states.md": link_states.page,
    "reference/manifest.md": manifest_page.page,
    "reference/metrics.md": interfaces.metrics_page,
    "reference/registry-openapi.json": interfaces.openapi_document,
    "reference/registry-openapi.md": interfaces.openapi_page,
    "reference/settings.md": settings_page,
}


def main() -> None:
    """Write the pages."""
    SHORT_HELP_FILE.write_text(short_help_table(), encoding="utf-8")
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
