"""Edit summaries, talk page messages and diffs in English and German; titles, URLs and names are escaped."""

import difflib
import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import takewhile
from typing import Any, Final, NamedTuple

from wiki.wikitext.citation_model import CitationRepair, RepairKind
from wiki.wikitext.repair_markup import escape_plain, escape_url, is_url_safe

SUMMARY_LENGTH: Final = 500  # code points that MediaWiki keeps
LISTED_LIMIT: Final = 50  # changes that a message lists one by one
_URL_SHOWN: Final = 300
_NO_TITLE = re.compile(r"[\[\]{}|<>#\x00-\x1f\x7f]+|~{3,}")


class TalkMessage(NamedTuple):
    """Section for a talk page."""

    heading: str  # its title, without ``==``
    text: str  # its wikitext, signed


@dataclass(frozen=True, slots=True)
class MessageSender:
    """Sender of a message, with reference pages."""

    job: str  # the edit's number, given for reference
    run_page: str = ""  # the page that stops the bot; empty without one
    hold: str = ""  # the template that excludes a link from bot edits; empty when the wiki has none


def edit_summary(changes: Sequence[CitationRepair], language: str, sender: MessageSender) -> str:
    """Return the edit summary: repair counts and job, at most `SUMMARY_LENGTH` code points."""
    words = _language_words(language)
    counts = Counter(each.kind for each in changes)
    value = ", ".join(f"{count} {words['repairs'][kind][count > 1]}" for kind in RepairKind if (count := counts[kind]))
    run_page = _title(sender.run_page)
    link = f" · [[:{run_page}|{words['stop']}]]" if run_page else ""
    text = f"{words['begin']}{value or '0'} · {_job(sender.job)}{link}"
    return text if len(text) <= SUMMARY_LENGTH else text.removesuffix(link)[:SUMMARY_LENGTH]


def talk_message(
    changes: Sequence[CitationRepair], language: str, sender: MessageSender, *, is_done: bool
) -> TalkMessage:
    """Return the talk page message about an edit, or a proposal (B16)."""
    words = _language_words(language)
    lines = [words["intro"] if is_done else words["intro_wanted"], ""]
    for each in changes[:LISTED_LIMIT]:
        address = escape_url(each.archive_url)
        has_link = is_url_safe(address) and address.startswith(("https://", "http://"))
        copy = f" ([{address} {words['copy']}])" if has_link else ""
        lines.append(f"* {escape_plain(each.url, _URL_SHOWN)}: {words['repairs'][each.kind][2]}{copy}")
    if len(changes) > LISTED_LIMIT:
        lines.append(f"* {words['more'].format(count=len(changes) - LISTED_LIMIT)}")
    ends = [words["wrong"] if is_done else words["wrong_wanted"]]
    if hold := _title(sender.hold):
        ends.append(words["hold"].format(tag=f"<code><nowiki>{{{{{hold}}}}}</nowiki></code>"))
    if run_page := _title(sender.run_page):
        ends.append(f"([[:{run_page}|{words['stop']}]])")
    lines += ["", " ".join([*ends, f"{_job(sender.job)} ~~~~"])]
    return TalkMessage(words["heading"] if is_done else words["heading_wanted"], "\n".join(lines))


@cache
def _language_words(language: str) -> Mapping[str, Any]:
    path = resources.files("wiki.wikitext").joinpath("messages.toml")
    known: Mapping[str, Mapping[str, Any]] = tomllib.loads(path.read_text("utf-8"))
    return known.get(language.casefold().partition("-")[0], known["en"])


def _title(text: str) -> str:
    return " ".join(_NO_TITLE.sub(" ", text).split())[:255]


def _job(text: str) -> str:
    return "#" + re.sub(r"[^\w.-]", "", text)[:64]


_CONTEXT = 2  # lines around a change


def unified_diff_of(before: str, after: str, title: str = "") -> str:
    r"""Return the unified diff of two texts; empty when they are equal.

    Linear for equal ends. Control characters are shown as ``\x1b``, so that content cannot control a terminal.
    """
    if before == after:
        return ""
    old, new = before.split("\n"), after.split("\n")
    head = _count_common(old, new)
    tail = _count_common(old[head:][::-1], new[head:][::-1])
    start = max(head - _CONTEXT, 0)
    ends = [len(lines) - max(tail - _CONTEXT, 0) for lines in (old, new)]
    name = _visible(title) or "page"
    lines = difflib.unified_diff(
        old[start : ends[0]], new[start : ends[1]], name, f"{name} (repaired)", n=_CONTEXT, lineterm=""
    )

    def moved(head: re.Match[str]) -> str:
        """Count a hunk's lines from the texts' beginning."""
        return re.sub(r"(?<= [-+])\d+", lambda number: str(int(number[0]) + start), head[0])

    return "\n".join(re.sub(r"^@@ -.*", moved, _visible(each)) for each in lines)


def _count_common(one: Sequence[str], other: Sequence[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _visible(text: str) -> str:
    return "".join(
        each if each.isprintable() or each == "\t" else each.encode("unicode_escape").decode("ascii") for each in text
    )
