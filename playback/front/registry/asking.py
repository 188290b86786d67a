"""What a request asks the registry for, checked; what cannot be asked is refused with a reason.

Names of parameters that mean the same are taken alike: ``curid`` and ``pageid`` (W19, W67). Reasons
are texts for `translate`: programs get them as they are, people in their language.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from starlette.datastructures import QueryParams

from core.errors import InputError
from links.books import wikis
from links.books.wikis import WikiName
from playback.front.languages import languages, noop
from playback.front.registry.answers import ListKind, Scope

MOST_PAGES = 50
LINK_FIELDS = frozenset({
    "url", "state", "group", "words", "http", "status_byte", "reason", "mapped_http", "since",
    "checked", "failures", "cause", "evidence", "leads_to", "mime", "kib", "history", "hints",
    "copies", "own_copy", "reports", "replacement", "spam", "spelling",
})  # fmt: skip
_PAGE_ID = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)
_LANGUAGE = re.compile(r"([A-Za-z]{2,3})(?:[-_][A-Za-z0-9]{2,8}){0,3}", re.ASCII)
_SPACES = re.compile(r"[ _\u00a0]+")
_LONGEST_TITLE = 1_024  # characters; MediaWiki's are of 255 bytes, and the namespace's name
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class Format(StrEnum):
    """What an answer is written in."""

    JSON = "json"
    XML = "xml"
    HTML = "html"
    JAVASCRIPT = "js"


@dataclass(frozen=True, slots=True)
class PageQuestion:
    """Pages that are asked for.

    Attributes:
        wiki: whose.
        page_ids: by their numbers, in the order they were given in, each once.
        titles: by their names, in normal form, each once.
        scope: which of their links.
        language: of the words.
        is_ping: only that somebody asked is to be noted (W22).
        fields: what is told of each link; empty: everything.
        revision: of the page, that the asker has; 0: it does not say, or asks for several (W08).
    """

    wiki: WikiName
    page_ids: tuple[int, ...]
    titles: tuple[str, ...]
    scope: Scope = Scope.PROBLEMS
    language: str = ""
    is_ping: bool = False
    fields: frozenset[str] = frozenset()
    revision: int = 0

    @property
    def size(self) -> int:
        """How many pages."""
        return len(self.page_ids) + len(self.titles)


def parse_page_question(given: QueryParams) -> PageQuestion:
    """The pages that the parameters ask for.

    Raises:
        InputError: they ask for none, for too many, or for something else.
    """
    for name in ("url", "urls", "q", "pattern"):
        if given.get(name):
            raise InputError(
                noop(
                    "Single URLs are not answered to programs: ask for the page that has it with"
                    " dbname and curid. People find a form at /links."
                )
            )
    texts = _several(given, "curid", "pageid", "curids", "pageids")
    titles = _several(given, "titles", "title", separators="|")
    if not texts and not titles:
        raise InputError(noop("Name a page: curid=9301140, or titles=Main Page."))
    question = PageQuestion(
        parse_wiki(given.get("dbname", "")),
        tuple(dict.fromkeys(map(parse_page_id, texts))),
        tuple(dict.fromkeys(map(parse_title, titles))),
        parse_scope(given.get("scope", "")),
        parse_language(given.get("lang", "")),
        parse_flag(given.get("ping", "")),
        parse_fields(given.get("fields", "")),
        parse_revision(given.get("revid", "")),
    )
    if question.size > 1:
        question = replace(question, revision=0)  # of which page nobody could say
    if question.size > MOST_PAGES:
        raise InputError(noop("Ask for 50 pages at a time at most."))
    return question


def parse_wiki(text: str) -> WikiName:
    """``dbname@farm``; without a farm, the default one (W24).

    Raises:
        InputError: it is none.

    >>> str(parse_wiki("dewiki"))
    'dewiki@WMF'
    """
    try:
        found = wikis.parse_wiki(text)
    except InputError:
        found = None
    if found is None or text != text.strip():
        raise InputError(noop("Name the wiki (dbname) like this: dewiki@WMF."))
    return found


def parse_page_id(text: str) -> int:
    """A page's number.

    Raises:
        InputError: it is none.
    """
    if not _PAGE_ID.fullmatch(text):
        raise InputError(noop("The number of a page is a whole number above 0, like 9301140."))
    return int(text)


def parse_revision(text: str) -> int:
    """Return the number of a page's revision; 0 when none is named.

    Raises:
        InputError: it is none.
    """
    if text and not _PAGE_ID.fullmatch(text):
        raise InputError(noop("The number of a revision is a whole number above 0."))
    return int(text or 0)


def parse_title(text: str) -> str:
    """A page's name in the form that wikis keep: spaces, not underscores.

    Raises:
        InputError: no page can be called so.

    >>> parse_title("_Foo__bar ")
    'Foo bar'
    """
    title = _SPACES.sub(" ", text).strip()
    if not title or len(title) > _LONGEST_TITLE or _CONTROL.search(title):
        raise InputError(
            noop("The name of a page has 1 to 1024 characters and no control characters.")
        )
    return title


def parse_scope(text: str) -> Scope:
    """Which links; by default those with findings.

    Raises:
        InputError: there is no such scope.
    """
    if text and text not in set(Scope):
        raise InputError(noop("scope is problems or all."))
    return Scope(text or Scope.PROBLEMS)


def parse_format(text: str, formats: Sequence[Format]) -> Format:
    """The format; the first of `formats` by default.

    Raises:
        InputError: it is none of these.
    """
    if text and text not in formats:
        raise InputError(noop("There is no such format."))
    return Format(text) if text else formats[0]


def parse_list(text: str) -> ListKind:
    """Which of a wiki's lists.

    Raises:
        InputError: there is no such list.
    """
    if text not in set(ListKind):
        raise InputError(noop("Say which list: with=spam, with=unreachable or with=doubtful."))
    return ListKind(text)


def parse_after(text: str) -> int:
    """The page number behind which a list goes on; 0 for its beginning.

    Raises:
        InputError: it is none.
    """
    if text in ("", "0"):
        return 0
    if not _PAGE_ID.fullmatch(text):
        raise InputError(noop("after is the number that the part before gave."))
    return int(text)


def parse_language(text: str) -> str:
    """A language that there are words in; empty when none is named, or there is none for it.

    Raises:
        InputError: it is the name of no language.
    """
    if not text:
        return ""
    match = _LANGUAGE.fullmatch(text)
    if match is None:
        raise InputError(noop("A language is named like de or de-AT."))
    base = match[1].lower()
    return base if base in languages() else ""


def parse_fields(text: str) -> frozenset[str]:
    """Return the names of what is to be told of each link; none: everything.

    Raises:
        InputError: a link has no such field.
    """
    names = frozenset(re.split("[|,]", text)) if text else frozenset()
    if not names <= LINK_FIELDS:
        raise InputError(noop("fields names fields of a link, with commas between them."))
    return names


def parse_flag(text: str) -> bool:
    """Whether something is wanted: ``1``; ``0`` or nothing: it is not.

    Raises:
        InputError: it says neither.
    """
    if text not in ("", "0", "1"):
        raise InputError(noop("Say 1 for yes, or 0 for no."))
    return text == "1"


def _several(given: QueryParams, *names: str, separators: str = "|,") -> list[str]:
    """The values of parameters that may be given several times, or several at once."""
    texts = [text for name in names for text in given.getlist(name) if text]
    pattern = f"[{re.escape(separators)}]"
    return [each for text in texts for each in re.split(pattern, text)]
