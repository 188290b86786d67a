"""`weboid init` and `weboid config`: the configuration file of a collection."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import click

from core.config.profile import setting_schema
from core.config.settings import SCOPE_KINDS, Settings
from core.errors import ConfigError, InputError, UnavailableError
from core.layout import CONFIG_FILE, Layout
from crawler.collection import make_collection
from crawler.jobs.crawl_orders import toml_value
from crawler.profile_check import ProfileFinding, list_presets, profile_faults, profile_warnings, setting_rows
from crawler.profiles import builtin_profiles, chain_settings, load_chain, load_profile
from links.archives.adapters import check_archive_names
from weboid.app import collection_config
from weboid.app.operator_identity import OperatorIdentity, check_operator
from weboid.app.text_table import clean
from weboid.cli.support.commands import CLOCK, CommandGroup, ExitCode, RenamedOption, argument, cli_command, option
from weboid.cli.support.options import COLLECTION, PROFILE, output

_TEMPLATE = Path(__file__).with_name("new_collection.toml")  # of a collection's weboid.toml


@cli_command("init")
def command(
    *,
    collection: Path = COLLECTION,
    preset: str | None = option("Preset of the settings.", choices=builtin_profiles(), metavar="NAME"),
    contact: str | None = option("Page or mail address of the operator.", metavar="ADDRESS"),
    robots: str | None = option("Treatment of robots.txt by crawls and wiki watches.", choices=("obey", "ignore")),
    archives: tuple[str, ...] = option(
        "Other archive to ask for copies of dead links; may be given several times.", "--archive", metavar="NAME"
    ),
    force: bool = option("Replace an existing weboid.toml."),
) -> None:
    """Create a collection with a commented weboid.toml.

    At a terminal it prompts for missing options: the contact address, the treatment of robots.txt, and the archives to
    query for copies of links that are already dead.
    """
    path = Layout(collection).root / CONFIG_FILE
    if path.exists() and not force:
        raise InputError(f"{path} already exists; edit it, or replace it with --force.")
    if sys.stdin.isatty():
        if contact is None:
            question = "Contact address, sent to sites (empty: none)"
            contact = _prompt(question, lambda text: check_operator(OperatorIdentity(contact=text)))
        if robots is None:
            robots = click.prompt("robots.txt in crawls", default="obey", type=click.Choice(("obey", "ignore")))
        if not archives:
            question = "Archives to ask for copies of dead links, such as wayback (empty: none)"
            archives = _archive_names(_prompt(question, lambda text: check_archive_names(_archive_names(text))))
    check_operator(OperatorIdentity(contact=contact or ""))
    check_archive_names(archives)
    text = _TEMPLATE.read_text(encoding="utf-8").format(
        presets=", ".join(builtin_profiles()),
        preset=toml_value(preset or "default"),
        scopes=", ".join(SCOPE_KINDS),
        contact=_line("contact", contact, "archive@example.org"),
        robots=_line("robots", robots, "obey"),
        archives=_line("archives", archives, ("wayback", "archive-today")),
    )
    try:
        make_collection(Layout(collection), CLOCK)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        why = error.strerror or error
        raise UnavailableError(f"{path} cannot be written: {why}. Give --collection a writable folder.") from error
    load_profile(str(path))
    output.show({"written": str(path)}, f"Written: {path}")


def _archive_names(text: str) -> tuple[str, ...]:
    return tuple(text.replace(",", " ").split())


def _prompt(question: str, check: Callable[[str], object]) -> str:
    """Return the answer at the terminal; a wrong one is asked for again."""

    def checked(text: str) -> str:
        try:
            check(text)
        except InputError as error:
            raise click.UsageError(str(error)) from error
        return text

    return str(click.prompt(question, default="", show_default=False, value_proc=checked))


def _line(key: str, value: object, example: object) -> str:
    return f"{key} = {toml_value(value)}" if value else f"# {key} = {toml_value(example)}"


@click.group("config", cls=CommandGroup)
def config_group() -> None:
    """Show and check the configuration of a collection.

    A profile is a TOML file with the tables of weboid.toml; docs/reference/settings.md has its
    keys. It may extend another one: extends = "thorough".
    """


@cli_command("show", config_group)
def config_show(
    *,
    name: str = argument("[PROFILE]", required=False, default=""),
    collection: Path = COLLECTION,
    profile: str = PROFILE,
    changed: bool = option("Only settings that differ from the defaults."),
    presets: bool = option("List the presets instead: profiles that come with the program."),
    schema: bool = option("Print the JSON Schema of weboid.toml, for editors."),
) -> None:
    """Show every setting that holds for the collection, and its source.

    A line that begins with + differs from the default, which follows it. With PROFILE: the settings
    of that preset, or of that TOML file, alone.
    """
    if schema:
        click.echo(json.dumps(config_schema(), indent=1))
        return
    if presets:
        head, rows = ("name", "purpose"), list_presets()
        output.table({"profiles": [dict(zip(head, row, strict=True)) for row in rows]}, head, rows)
        return
    if not name and not collection_config.read_config(collection):
        click.echo(f"There is no {collection / CONFIG_FILE}; `weboid init` writes one.", err=True)
    print_settings(name or profile, changed=changed)


@cli_command("check", config_group)
def config_check(*, files: tuple[str, ...] = argument("[PROFILE]..."), collection: Path = COLLECTION) -> int:
    """Report every error in weboid.toml, with its line.

    With PROFILE: errors and unusual settings of these TOML files instead. The exit code is 2 when one cannot be used.
    """
    if files:
        return check_profiles(files)
    config = collection_config.read_config(collection)
    if not config:
        raise InputError(f"There is no {config.path}; `weboid init` writes one.")
    faults = [*collection_config.config_faults(config), *option_faults(collection)]
    output.show({"file": str(config.path), "faults": faults}, faults or f"{config.path}: no errors.")
    return ExitCode.SOME_FAILED if faults else ExitCode.OK


def print_settings(name: str, *, changed: bool) -> None:
    """Print the settings of a profile with their sources; `changed`: only what is not as by default."""
    chain = load_chain(name)
    settings = chain_settings(chain)
    rows = [row for row in setting_rows(settings, chain) if not changed or row["value"] != row["default"]]
    sheets: list[dict[str, Any]] = [{"prefix": sheet.prefix, **sheet.changes()} for sheet in settings.sheets]
    extends = [layer.source for layer in chain[1:]]
    if output.json({"profile": chain[0].source, "extends": extends, "settings": rows, "sheets": sheets}):
        return
    group = ""
    for row in rows:
        if row["group"] != group:
            click.echo(f"\n[{row['group']}]" if group else f"[{row['group']}]")
            group = row["group"]
        differs = row["value"] != row["default"]
        note = ""
        if row["from"] != "default":
            note = f"  # {row['from']}"
            note += f"; default {toml_value(row['default'])}" if differs else "; as by default"
        click.echo(f"{'+' if differs else ' '} {row['key']} = {toml_value(row['value'])}{note}")
    if not rows:
        click.echo("Nothing differs from the defaults.")
    for each in settings.sheets:
        click.echo(f"\n[[sheet]]\n+ prefix = {toml_value(each.prefix)}")
        for group, keys in each.changes().items():
            for key, value in keys.items():
                click.echo(f"+ {group}.{key} = {toml_value(value)}")


def check_profiles(files: Iterable[str]) -> ExitCode:
    """Print every error of profiles, and unusual settings; INPUT: one of them cannot be used."""
    wrong = False
    for file in files:
        doubtful: list[ProfileFinding] = []
        try:
            chain = load_chain(file)
            if not (bad := profile_faults(chain)):
                doubtful = profile_warnings(chain, chain_settings(chain))
        except ConfigError as error:
            bad = [ProfileFinding(file, str(error))]
        wrong = wrong or bool(bad)
        facts: dict[str, Any] = {"file": file, "usable": not bad}
        for name, findings in (("faults", bad), ("warnings", doubtful)):
            facts[name] = [{key: value for key, value in asdict(each).items() if value} for each in findings]
        lines = [f"fault    {clean(each.where)}: {clean(each.text)}" for each in bad]
        lines += [f"warning  {clean(each.where)}: {clean(each.text)}" for each in doubtful]
        output.show(facts, lines if bad else [*lines, f"{clean(file)} can be used."])
    return ExitCode.INPUT if wrong else ExitCode.OK


def commands_with_table() -> Iterator[tuple[str, click.Command, click.Context]]:
    """Yield each table of option defaults with its command and the context of the command's group."""
    from weboid.cli.main import weboid

    for words, table in collection_config.COMMAND_TABLES.items():
        command: Any = weboid
        context = click.Context(weboid, info_name="weboid")
        *groups, name = words.split()
        for word in groups:
            command = command.get_command(context, word)
            context = click.Context(command, info_name=word, parent=context)
        yield table, command.get_command(context, name), context


def option_faults(collection: Path) -> Iterator[str]:
    """Yield the faults of the option defaults of commands in weboid.toml, with their lines."""
    for table, command, context in commands_with_table():
        arguments = [each for each in command.params if each.required and isinstance(each, click.Argument)]
        needed = [each.make_metavar(context) for each in arguments]
        try:
            command.make_context(command.name, [*needed, f"--collection={collection}"], parent=context)
        except ConfigError as error:
            yield str(error)
        except click.UsageError as error:
            yield f"{collection / CONFIG_FILE} [{table}]: {error.message}"


def config_schema() -> dict[str, Any]:
    """Return the JSON Schema of weboid.toml."""
    tables = {
        each.name: _table({key.name: setting_schema(f"{each.name}.{key.name}") for key in fields(each.type)})
        for each in fields(Settings)
        if isinstance(each.type, type)
    }
    text = {"type": "string"}
    url = {"type": "string", "format": "uri"}
    seed = {key: setting_schema(f"scope.{name}") if name else url for key, name in collection_config.SEED_KEYS.items()}
    webhook = {
        "url": url,
        "events": {"type": "array", "items": {"enum": list(collection_config.WEBHOOK_EVENTS)}, "minItems": 1},
        "secret_file": text,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Weboid collection",
        **_table(
            {
                "extends": {"type": "string", "examples": builtin_profiles()},
                "operator": _table(dict.fromkeys(collection_config.OPERATOR_KEYS, text)),
                "oidc": _table(
                    {key: {"type": "object" if key == "roles" else "string"} for key in collection_config.PROVIDER_KEYS}
                ),
                "seed": {"type": "array", "items": {**_table(seed), "required": ["url"]}},
                "webhooks": {"type": "array", "items": {**_table(webhook), "required": ["url", "secret_file"]}},
                **{table: _table(_options_schema(command)) for table, command, _ in commands_with_table()},
                "sheet": {"type": "array", "items": {"type": "object"}},
                **tables,
            }
        ),
    }


def _table(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _options_schema(command: click.Command) -> dict[str, Any]:
    """Return the schemas of a command's options by key, former names included."""
    schemas: dict[str, Any] = {}
    for each in command.params:
        if not isinstance(each, RenamedOption) or each.opts[0] in {"--collection", "--profile"}:
            continue
        value: dict[str, Any] = {"type": ["string", "number"]}
        if isinstance(each.type, click.Choice):
            value = {"enum": list(each.type.choices)}
        schema = {"type": "boolean"} if each.is_flag else {"type": "array", "items": value} if each.multiple else value
        for name in (*each.opts, *each.former):
            schemas[name[2:].replace("-", "_")] = {**schema, "description": each.help or ""}
    return schemas
