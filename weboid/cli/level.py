"""`weboid level`: playback and storage levels, and the rights of editors to change them."""

import getpass
from collections.abc import Iterable, Sequence
from typing import Any

import click

from core.config.stored_level import StoredLevel
from core.errors import InputError
from core.json_values import json_facts
from core.timestamps import warc_date
from playback.access import levels
from weboid.app.text_table import clean
from weboid.cli.support.commands import CLOCK, CommandGroup, argument, cli_command, option, option_dict
from weboid.cli.support.options import output, table_lines
from weboid.cli.support.stores import STORES, CollectionStores

_REACHES = {
    levels.LevelScope.LINK: ("links",),
    levels.LevelScope.DOMAIN: ("links", "domains"),
    levels.LevelScope.WIKI: ("links", "domains", "the wiki"),
}


@cli_command("rights", hidden=True)
def rights_command(
    *,
    wiki: str = option("Within which wiki.", default=""),
    editor: str = option("One editor.  [default: all]", default="", metavar="NAME"),
    most: str | None = option("Allow levels up to this one.", choices=levels.Level),
    domains: bool = option("Allow decisions about domains, not only about links."),
    whole_wiki: bool = option("Allow decisions about domains and the whole wiki, as its LocalSettings.php does."),
    is_removal: bool = option("Withdraw rights; earlier restrictions stay, permissions end.", "--remove"),
    history: bool = option("Show every decision about rights, oldest first."),
    actor: str | None = option("Author of the decision.  [default: you]", metavar="NAME"),
    reason: str = option("Reason, for the history.", default=""),
    stores: CollectionStores = STORES,
) -> None:
    """Show the rights of each wiki's editors to set levels, or change them.

    An operator may set any level; editors only those shown here, within their own wiki. --most allows a wiki's editors
    levels up to a maximum, in place of an earlier decision; lowering it lowers at once what they allowed before.
    """
    if most is None and not is_removal:
        if domains or whole_wiki:
            raise InputError("--domains and --whole-wiki need --most LEVEL.")
        _list_rights(wiki, editor, stores, history=history)
        return
    if most is not None and is_removal:
        raise InputError("Use --most or --remove, not both.")
    if not wiki:
        raise InputError("Name the wiki: --wiki NAME.")
    suffix = f"@{levels.check_wiki(wiki)}"
    name = levels.parse_actor(f"{editor.removesuffix(suffix)}{suffix}").name if editor else ""
    scope = levels.LevelScope.WIKI if whole_wiki else levels.LevelScope.DOMAIN if domains else levels.LevelScope.LINK
    maximum = None if most is None else levels.Level(most)
    right = levels.LevelRight(0, wiki, name, scope, maximum, level_actor(actor), CLOCK.now(), reason)
    with stores.levels() as book:
        book.allow(right)
    who = str(levels.LevelActor(name, wiki)) if name else f"Editors of {wiki}"
    limit = f"levels of {' and '.join(_REACHES[scope])}, {most} at most" if most else "no rights"
    output.show(_right_facts(right), f"{who}: {limit}.")


def _list_rights(wiki: str, editor: str, stores: CollectionStores, *, history: bool) -> None:
    with stores.levels() as book:
        rights = book.rights_history() if history else list(book.now().rights)
    rows, facts = [], []
    for each in rights:
        if wiki in {"", each.wiki} and editor in {"", each.editor}:
            facts.append(_right_facts(each))
            reach, most = ", ".join(_REACHES[each.scope]), each.most or "(withdrawn)"
            rows.append((each.wiki, each.editor or "(all)", reach, most, each.actor, each.decided_at, each.reason))
    head = ("wiki", "editor", "decides on", "most", "by", "decided", "reason")
    output.table({"rights": facts}, head, rows, "No editor has any rights.")


def _right_facts(right: levels.LevelRight) -> dict[str, Any]:
    return {
        **json_facts(right, "wiki scope most reason"),
        "actor": str(right.actor),
        "editor": right.editor or None,
        "decided_at": warc_date(right.decided_at),
    }


_OTHER_STORED = tuple(each for each in StoredLevel if each.value not in set(levels.Level))


@click.group("level", cls=CommandGroup)
def command() -> None:
    """Set how much of a copy readers are shown.

    With --store: how much of a page is recorded from the next visit on: text, no-media or everything.

    A link's level overrides its domain's, the longer domain the shorter, a domain the wiki, the
    wiki the default: `images` is shown, everything is recorded. A change takes effect with the next
    request, and each is logged with its author and time. See docs/how-to/levels.md.
    """


command.add_command(rights_command)


def level_actor(name: str | None) -> levels.LevelActor:
    """Return the actor of a change; the logged-in user when no name is given."""
    return levels.LevelActor(getpass.getuser()) if name is None else levels.parse_actor(name)


_SUBJECT_OPTIONS: dict[str, Any] = {
    "links": option("One address.", "--link", multiple=True, metavar="URL"),
    "domains": option("A domain with its subdomains.", "--domain", multiple=True),
    "wiki": option("For readers who come from that wiki.", default=""),
}


_DECISION_OPTIONS: dict[str, Any] = {
    **_SUBJECT_OPTIONS,
    "is_default": option("Everything without a rule.", "--default", is_flag=True),
    "actor": option(
        "Author of the decision: an operator or, with @WIKI, an editor.  [default: you]", metavar="NAME[@WIKI]"
    ),
    "reason": option("Reason, for the history.", default=""),
    "dry_run": option("Show the changes without making them.", is_flag=True),
    "stores": STORES,
}


@cli_command("set", command)
def set_command(
    *,
    level: str | None = argument(choices=levels.Level),
    store: str | None = option("Level to record from the next visit on.", choices=StoredLevel),
    options: dict[str, Any] = option_dict(_DECISION_OPTIONS),
) -> None:
    """Set how much is shown, or with --store recorded.

    It applies to links, domains, a wiki, or everything.

    With --wiki a link's or domain's level applies to that wiki's readers only, and a stored level
    to what that wiki's pages cite. Several are changed together, or none of them.
    """
    if (level is None) == (store is None):
        raise InputError(f"Name the level to show ({', '.join(levels.Level)}), or --store and the level to record.")
    chosen = StoredLevel(store) if store is not None else levels.Level(level or "")
    _decide(chosen, is_stored=store is not None, **options)


@cli_command("rm", command)
def remove_command(
    *,
    store: bool = option("Remove the level to record, not the level to show."),
    options: dict[str, Any] = option_dict(_DECISION_OPTIONS),
) -> None:
    """Remove rules, so that the more general ones apply again."""
    _decide(None, is_stored=store, **options)


def _decide(
    level: levels.Level | StoredLevel | None,
    *,
    is_stored: bool,
    links: tuple[str, ...],
    domains: tuple[str, ...],
    wiki: str,
    is_default: bool,
    actor: str | None,
    reason: str,
    dry_run: bool,
    stores: CollectionStores,
) -> None:
    targets = _targets(links, domains, wiki, is_default=is_default)
    by = level_actor(actor)
    with stores.levels() as book:
        rules = book.now().of_kind(is_stored=is_stored)
        before: dict[levels.LevelTarget, levels.LevelDecision[Any] | None] = {each: rules.at(each) for each in targets}
        if dry_run:
            book.check(targets, level, actor=by, is_stored=is_stored)
        else:
            at = CLOCK.now()
            book.decide(targets, level, actor=by, now=at, reason=reason, is_stored=is_stored)
    changes, lines = [], []
    of, would = "stored " if is_stored else "", "Would change: " if dry_run else ""
    becomes = f"{of}{level}" if level is not None else f"no {of}level of its own any more"
    for target, held in before.items():
        facts = {**json_facts(target, "scope wiki what"), "kind": "stored" if is_stored else "shown", "level": level}
        changes.append({**facts, "before": held and held.level})
        was = f" (was {held.level}, by {clean(str(held.actor))})" if held is not None else ""
        lines.append(f"{would}{clean(str(target))}: {becomes}{was}")
    output.show({"changes": changes, "actor": str(by), "dry_run": dry_run}, lines)


def _targets(links: Iterable[str], domains: Iterable[str], wiki: str, *, is_default: bool) -> list[levels.LevelTarget]:
    named = [levels.target_of(wiki=wiki, link=link) for link in links]
    named += [levels.target_of(wiki=wiki, domain=domain) for domain in domains]
    if is_default and (named or wiki):
        raise InputError("--default applies to everything: omit --link, --domain and --wiki.")
    if not named and not wiki and not is_default:
        raise InputError("Name the subject: --link URL, --domain NAME, --wiki NAME, or --default.")
    return list(dict.fromkeys(named)) or [levels.target_of(wiki=wiki)]


def _show_level(url: str, wiki: str, stores: CollectionStores) -> None:
    """Print the levels of a URL, and the rules that decide."""
    identity = levels.target_of(link=url).what
    wiki = levels.check_wiki(wiki) if wiki else ""
    with stores.levels() as book:
        rules = book.now()
    ruling, matching_rules = rules.ruling(identity, wiki), rules.matching_rules(identity, wiki)
    stored, storing = rules.stored.ruling(identity, wiki), rules.stored.matching_rules(identity, wiki)
    facts, stored_facts = _ruling_facts(ruling, matching_rules), _ruling_facts(stored, storing)
    document = {"url": identity, "wiki": wiki, **facts, "stored": stored_facts}
    readers, citing = (f" to readers of {wiki}", f" when a page of {wiki} cites it") if wiki else ("", "")
    without = f"No rule applies; by default everything is shown at {levels.DEFAULT_LEVEL}."
    lines = [
        f"{clean(identity)} is shown{readers} at the level {ruling.level}.",
        *_explain(ruling, matching_rules, without),
    ]
    lines.append(f"It is recorded{citing} at the level {stored.level}.")
    output.show(document, lines + _explain(stored, storing, "No rule sets how much is recorded."))


def _explain(
    ruling: levels.LevelRuling[Any], matching_rules: Sequence[levels.LevelDecision[Any]], without: str
) -> list[str]:
    text, rule = without, ruling.rule
    if rule is not None:
        reason = f": {rule.reason}" if rule.reason else "."
        text = f"{rule.actor} set {rule.target} to {rule.level} on {rule.decided_at:%Y-%m-%d %H:%M} UTC{reason}"
        if ruling.is_capped:
            text += " Editors of that wiki may not allow that much now, so their limit applies."
        text = clean(text)
    if len(matching_rules) < 2:
        return [text]
    return [text, "Rules of lower precedence:", *(f"  {line}" for line in _lines(matching_rules[1:]))]


def _ruling_facts(
    ruling: levels.LevelRuling[Any], matching_rules: Iterable[levels.LevelDecision[Any]]
) -> dict[str, Any]:
    return {
        **json_facts(ruling, "level is_capped"),
        "rule": ruling.rule and rule_facts(ruling.rule),
        "rules": [rule_facts(rule) for rule in matching_rules],
    }


@cli_command("ls", command)
def list_command(
    *,
    url: str | None = argument(),
    links: tuple[str, ...] = _SUBJECT_OPTIONS["links"],
    domains: tuple[str, ...] = _SUBJECT_OPTIONS["domains"],
    wiki: str | None = option("Only rules within that wiki; with URL the level for readers who come from it."),
    is_default: bool = option("Only about everything.", "--default"),
    level: str | None = option("Only rules that set this level.", choices=(*levels.Level, *_OTHER_STORED)),
    history: bool = option("Every decision, oldest first, including removals."),
    stores: CollectionStores = STORES,
) -> None:
    """Show the current rules, or the level of a URL.

    Without options all rules, else those about the given subjects. With --history every decision.
    """
    if url is not None:
        if links or domains or is_default or level or history:
            raise InputError("With URL only --wiki is possible: the rules that decide about it are shown.")
        _show_level(url, wiki or "", stores)
        return
    targets = None
    if links or domains or is_default or (history and wiki):
        targets = _targets(links, domains, wiki or "", is_default=is_default)
    rules: list[levels.LevelDecision[Any]]
    with stores.levels() as book:
        if history:
            rules = [*book.history(), *book.history(is_stored=True)]
            rules.sort(key=lambda rule: rule.decided_at)
        else:
            rules = [*book.now().rules, *book.now().stored.rules]
            rules.sort(key=lambda rule: (rule.target.wiki, rule.target.scope, rule.target.what))
    shown = [
        rule
        for rule in rules
        if level in (None, rule.level)
        and (wiki in (None, rule.target.wiki) if targets is None else rule.target in targets)
    ]
    name, nothing = ("decisions", "Nothing was decided.") if history else ("rules", "There is no rule.")
    output.show({name: [rule_facts(rule) for rule in shown]}, _lines(shown) if shown else nothing)


def rule_facts(rule: levels.LevelDecision[Any]) -> dict[str, Any]:
    """Return a rule as JSON values; the level of a removed rule is null."""
    return {
        **json_facts(rule, "number level reason"),
        "actor": str(rule.actor),
        "kind": "stored" if rule.is_stored else "shown",
        **json_facts(rule.target, "scope wiki what"),
        "decided_at": warc_date(rule.decided_at),
    }


def _lines(rules: Iterable[levels.LevelDecision[Any]]) -> list[str]:
    rows = []
    for rule in rules:
        level = ("store " if rule.is_stored else "") + (rule.level or "(cleared)")
        rows.append((level, rule.target, rule.actor, rule.decided_at, rule.reason))
    return table_lines(("level", "of", "by", "decided", "reason"), rows)
