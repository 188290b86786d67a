"""Whether a page lets a bot edit it: {{bots}}, {{nobots}}, and the tags of who is at work there (B14).

    may_edit(text, "Weboid")        # {{bots|deny=Weboid}} says no
    may_message(talk, "Weboid")     # {{bots|optout=deadlink}} says no to messages
    is_busy(text)                   # {{in use}}: come back later

What cannot be read counts as a no, and so do several templates of which one says so. In comments and
in nowiki they say nothing, as for MediaWiki itself.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

OPT_OUTS: Final = frozenset({"all", "deadlink", "deadlinks", "archive", "iabot", "weboid"})
_HIDDEN = re.compile(
    r"<!--.*?(?:-->|\Z)|<(nowiki|pre|syntaxhighlight|source)(?:\s[^<>]*)?(?:/>|>.*?(?:</\1\s*>|\Z))",
    re.IGNORECASE | re.DOTALL,
)
_BOTS = re.compile(
    r"\{\{[\s_:]*(?:(?:template|vorlage)[\s_]*:[\s_]*)?(no)?bots[\s_]*(?=[|}]|\Z)([^{}]*)(\}\})?",
    re.IGNORECASE,
)
_BUSY = re.compile(
    r"\{\{[\s_]*(?:in[ _]?use|in[ _]?creation|in[ _]bearbeitung|gerade[ _]in[ _]bearbeitung)[\s_]*[|}]",
    re.IGNORECASE,
)


def may_edit(text: str, bot: str) -> bool:
    """Whether the page lets the bot edit it.

    Args:
        text: the page's wikitext.
        bot: the account's name.
    """
    return _permits(text, bot, frozenset({"all"}))


def may_message(text: str, bot: str, kinds: Iterable[str] = OPT_OUTS) -> bool:
    """Whether the talk page wants messages about links.

    Args:
        text: the talk page's wikitext.
        bot: the account's name.
        kinds: what ``optout=`` may call such messages.
    """
    return _permits(text, bot, frozenset(kinds))


def is_busy(text: str) -> bool:
    """Whether somebody says that the page is being worked on."""
    return _BUSY.search(_HIDDEN.sub("", text)) is not None


def objection(text: str) -> str:
    """What a page that may not be edited says, in a word for people."""
    return "{{in use}}" if is_busy(text) else "{{bots}} or {{nobots}}"


def _permits(text: str, bot: str, kinds: frozenset[str]) -> bool:
    if "bots" not in text.casefold():
        return True
    name = _name(bot)
    return all(
        _one_permits(bool(found[1]), found[2] if found[3] else None, name, kinds)
        for found in _BOTS.finditer(_HIDDEN.sub("", text))
    )


def _one_permits(is_no: bool, said: str | None, bot: str, kinds: frozenset[str]) -> bool:  # noqa: FBT001
    """What one template says; None: it cannot be read."""
    parameters = [each for each in _parameters(said or "") if each[1]]
    if said is None or (is_no and not parameters):
        return False
    return not any(_forbids(key, names, bot, kinds, is_no) for key, names in parameters)


def _forbids(
    key: str,
    names: frozenset[str],
    bot: str,
    kinds: frozenset[str],
    is_no: bool,  # noqa: FBT001
) -> bool:
    listed = "all" in names or bot in names
    match key:
        case "allow":
            return not listed
        case "deny":
            return listed
        case "optout":
            return bool(names & kinds)
        case _:
            return is_no and key == "" and listed  # {{nobots|A,B}}


def _parameters(said: str) -> Iterator[tuple[str, frozenset[str]]]:
    """Each parameter's key and the names in it; ``none`` is nobody's name, and is one."""
    for part in said.split("|")[1:]:
        key, equals, value = part.partition("=")
        if not equals:
            key, value = "", part
        names = frozenset(filter(None, map(_name, value.split(","))))
        yield "" if key.strip().isdigit() else key.strip().casefold(), names


def _name(text: str) -> str:
    """An account's name to compare by."""
    name = " ".join(text.replace("_", " ").split()).casefold()
    return name.removeprefix("user:").removeprefix("benutzer:").strip()
