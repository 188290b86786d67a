"""Edit summaries, talk page messages and diffs of an edit.

In English and German; wikis of other languages get English. Titles, URLs and names from pages are
escaped.
"""

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

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


@dataclass(frozen=True)
class _MessageWords:
    """Message texts of one language."""

    counted: Mapping[RepairKind, tuple[str, str]]  # one, several
    done: Mapping[RepairKind, str]
    begin: str
    stop: str
    heading: str
    heading_wanted: str
    intro: str
    intro_wanted: str
    copy: str
    more: str
    wrong: str
    wrong_wanted: str
    hold: str


_ENGLISH: Final = _MessageWords(
    counted={
        RepairKind.CONVERTED: (
            "bare reference given its copy",
            "bare references given their copies",
        ),
        RepairKind.ARCHIVED: ("archived copy added", "archived copies added"),
        RepairKind.MOVED: (
            "archive address put in its place",
            "archive addresses put in their place",
        ),
        RepairKind.REPLACED: ("wrong archive address replaced", "wrong archive addresses replaced"),
        RepairKind.MARKED: ("link marked as dead", "links marked as dead"),
        RepairKind.TAGGED: ("link tagged as dead", "links tagged as dead"),
        RepairKind.REVIVED: ("link works again", "links work again"),
        RepairKind.TIDIED: ("archive address tidied", "archive addresses tidied"),
    },
    done={
        RepairKind.CONVERTED: "a bare reference became a citation with an archived copy",
        RepairKind.ARCHIVED: "an archived copy was added",
        RepairKind.MOVED: "the archive's address moved to its own place, the link came back",
        RepairKind.REPLACED: "the archive's address that stood there shows no copy of it; now one does",
        RepairKind.MARKED: "marked as dead, so that readers get the archived copy",
        RepairKind.TAGGED: "tagged as dead; no archived copy is known",
        RepairKind.REVIVED: "works again, and is no longer marked as dead",
        RepairKind.TIDIED: "the archive's address was written in its present form",
    },
    begin="Mending links: ",
    stop="stop this bot",
    heading="Links mended",
    heading_wanted="Links to mend",
    intro="Links on this page were looked at for some time, and a bot has changed these:",
    intro_wanted="Links on this page were looked at for some time. A bot proposes to change these:",
    copy="copy",
    more="… and {count} more.",
    wrong=(
        "Is one of them wrong? Take the edit back: the link is then looked at again, and the change is"
        " not repeated before a person has looked, too."
    ),
    wrong_wanted="Nothing was changed on the page itself.",
    hold="{tag} behind a link keeps bots from it.",
)
_GERMAN: Final = _MessageWords(
    counted={
        RepairKind.CONVERTED: (
            "bloßer Einzelnachweis mit Archivversion versehen",
            "bloße Einzelnachweise mit Archivversionen versehen",
        ),
        RepairKind.ARCHIVED: ("Archivversion ergänzt", "Archivversionen ergänzt"),
        RepairKind.MOVED: ("Archivadresse eingeordnet", "Archivadressen eingeordnet"),
        RepairKind.REPLACED: ("falsche Archivadresse ersetzt", "falsche Archivadressen ersetzt"),
        RepairKind.MARKED: ("Link als tot gekennzeichnet", "Links als tot gekennzeichnet"),
        RepairKind.TAGGED: ("toter Link markiert", "tote Links markiert"),
        RepairKind.REVIVED: ("Link geht wieder", "Links gehen wieder"),
        RepairKind.TIDIED: ("Archivadresse aufgeräumt", "Archivadressen aufgeräumt"),
    },
    done={
        RepairKind.CONVERTED: "aus der bloßen Adresse wurde ein Nachweis mit Archivversion",
        RepairKind.ARCHIVED: "eine Archivversion wurde ergänzt",
        RepairKind.MOVED: "die Archivadresse steht nun an ihrer Stelle, der Link ist wieder da",
        RepairKind.REPLACED: "die Archivadresse zeigte keine Kopie davon; nun steht dort eine",
        RepairKind.MARKED: "als tot gekennzeichnet, damit die Archivversion gezeigt wird",
        RepairKind.TAGGED: "als tot markiert; eine Archivversion ist nicht bekannt",
        RepairKind.REVIVED: "geht wieder und ist nicht mehr als tot gekennzeichnet",
        RepairKind.TIDIED: "die Archivadresse steht nun in ihrer heutigen Form da",
    },
    begin="Weblinks repariert: ",
    stop="Bot anhalten",
    heading="Reparierte Weblinks",
    heading_wanted="Defekte Weblinks",
    intro="Die Weblinks dieser Seite wurden längere Zeit geprüft. Ein Bot hat diese geändert:",
    intro_wanted="Die Weblinks dieser Seite wurden längere Zeit geprüft. Ein Bot schlägt vor, diese zu ändern:",
    copy="Archivversion",
    more="… und {count} weitere.",
    wrong=(
        "Ist etwas davon falsch? Dann bitte die Bearbeitung zurücksetzen: Der Link wird erneut geprüft,"
        " und die Änderung wird nicht wiederholt, bevor ein Mensch nachgesehen hat."
    ),
    wrong_wanted="Auf der Seite selbst wurde nichts geändert.",
    hold="{tag} hinter einem Link hält Bots von ihm fern.",
)
_WORDS: Final = {"en": _ENGLISH, "de": _GERMAN}


def edit_summary(changes: Sequence[CitationRepair], language: str, sender: MessageSender) -> str:
    """Return the edit summary: repair counts and job, at most `SUMMARY_LENGTH` code points."""
    words = _language_words(language)
    found = Counter(each.kind for each in changes)
    told = ", ".join(
        f"{count} {words.counted[kind][count > 1]}" for kind in RepairKind if (count := found[kind])
    )
    run_page = _title(sender.run_page)
    link = f" · [[:{run_page}|{words.stop}]]" if run_page else ""
    text = f"{words.begin}{told or '0'} · {_job(sender.job)}{link}"
    return text if len(text) <= SUMMARY_LENGTH else text.removesuffix(link)[:SUMMARY_LENGTH]


def talk_message(
    changes: Sequence[CitationRepair], language: str, sender: MessageSender, *, is_done: bool
) -> TalkMessage:
    """Return the talk page message (B16).

    `is_done`: the page was edited; otherwise the edit is proposed.
    """
    words = _language_words(language)
    lines = [words.intro if is_done else words.intro_wanted, ""]
    lines += [_line(each, words) for each in changes[:LISTED_LIMIT]]
    if len(changes) > LISTED_LIMIT:
        lines.append(f"* {words.more.format(count=len(changes) - LISTED_LIMIT)}")
    lines += ["", " ".join(_ends(words, sender, is_done=is_done))]
    return TalkMessage(words.heading if is_done else words.heading_wanted, "\n".join(lines))


def _line(change: CitationRepair, words: _MessageWords) -> str:
    address = escape_url(change.archive_url)
    has_link = is_url_safe(address) and address.startswith(("https://", "http://"))
    copy = f" ([{address} {words.copy}])" if has_link else ""
    return f"* {escape_plain(change.url, _URL_SHOWN)}: {words.done[change.kind]}{copy}"


def _ends(words: _MessageWords, sender: MessageSender, *, is_done: bool) -> Iterable[str]:
    yield words.wrong if is_done else words.wrong_wanted
    hold = _title(sender.hold)
    if hold:
        yield words.hold.format(tag=f"<code><nowiki>{{{{{hold}}}}}</nowiki></code>")
    run_page = _title(sender.run_page)
    if run_page:
        yield f"([[:{run_page}|{words.stop}]])"
    yield f"{_job(sender.job)} ~~~~"


def _language_words(language: str) -> _MessageWords:
    return _WORDS.get(language.casefold().partition("-")[0], _ENGLISH)


def _title(text: str) -> str:
    """Return a page title for use in a link, without characters invalid in titles."""
    return " ".join(_NO_TITLE.sub(" ", text).split())[:255]


def _job(text: str) -> str:
    return "#" + re.sub(r"[^\w.-]", "", text)[:64]


def unified_diff_of(before: str, after: str, title: str = "", *, context: int = 2) -> str:
    r"""Return the unified diff of two texts; empty when they are equal.

    Common lines at both ends are skipped before the comparison, so that a page of two megabytes with one
    change is cheap. Control characters are shown as ``\x1b``, so that page content cannot control a
    terminal.
    """
    if before == after:
        return ""
    old, new = before.split("\n"), after.split("\n")
    shortest = min(len(old), len(new))
    head = 0
    while head < shortest and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < shortest - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    start = max(head - context, 0)
    ends = [len(lines) - max(tail - context, 0) for lines in (old, new)]
    name = _visible(title) or "page"
    lines = difflib.unified_diff(
        old[start : ends[0]],
        new[start : ends[1]],
        name,
        f"{name} (repaired)",
        n=context,
        lineterm="",
    )
    return "\n".join(_moved(_visible(each), start) for each in lines)


def _moved(line: str, by: int) -> str:
    if not by or not line.startswith("@@ -"):
        return line
    _, old, new, _ = line.split(" ", 3)
    return f"@@ {_added(old, by)} {_added(new, by)} @@"


def _added(place: str, by: int) -> str:
    number, comma, count = place[1:].partition(",")
    return f"{place[0]}{int(number) + by}{comma}{count}"


def _visible(text: str) -> str:
    return "".join(
        each
        if each.isprintable() or each == "\t"
        else each.encode("unicode_escape").decode("ascii")
        for each in text
    )
