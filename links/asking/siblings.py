"""Soft 404s: does a site answer an invented path as it answers the one that is cited? Pure.

Two traps are known (links.md 2.3, 5.11). A site that leads everything it does not know to its front
page makes that front page look like an error page: so a page counts as one only when the *cited* URL
was led there too, or when both are answered on the spot with the same words. And a site that answers
without redirects is missed by those who look at redirects alone: so words are compared as well.
"""

import random
import re
import string
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from links.asking.pages import apart
from links.asking.redirects import is_root

ALIKE_BITS = 4  # of 64; error pages differ in the path that they repeat, and that is left out
_EXTENSION = re.compile(r"\.[A-Za-z]{2,5}$")


@dataclass(frozen=True, slots=True)
class Seen:
    """What a URL was answered with.

    Attributes:
        status: of the last answer.
        final: where redirects ended, or the URL itself.
        moved: whether there were any.
        words: `pages.simhash` of the page; 0 when it has none.
    """

    status: int
    final: str
    moved: bool
    words: int


def invented(url: str, rng: random.Random) -> str:
    """A URL beside this one that no site has; empty for a front page, which has nothing beside it.

    The same directory and extension, so that the same part of the server answers. Where a query tells
    pages apart, its last value is invented instead.
    """
    if is_root(url):
        return ""
    parts = urlsplit(url)
    word = "".join(rng.choices(string.ascii_lowercase, k=16))
    if parts.query:
        head, equals, _ = parts.query.rpartition("=")
        query = f"{head}{equals}{word}" if equals else word
        return urlunsplit((parts.scheme, parts.netloc, parts.path, query, ""))
    folder, _, name = parts.path.rstrip("/").rpartition("/")
    extension = _EXTENSION.search(name)
    slash = "/" if parts.path.endswith("/") else ""
    path = f"{folder}/{word}{extension[0] if extension else ''}{slash}"
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def same_answer(cited: Seen, sibling: Seen) -> str:
    """Why the cited URL's answer is the one for pages that do not exist; empty when it is not."""
    if not 200 <= sibling.status < 300 or not 200 <= cited.status < 300:
        return ""
    if cited.moved and sibling.moved and _place(cited.final) == _place(sibling.final):
        return "an invented path is led to the same page"
    if cited.moved != sibling.moved or not cited.words or not sibling.words:
        return ""
    if apart(cited.words, sibling.words) <= ALIKE_BITS:
        return "an invented path gets the same page"
    return ""


def _place(url: str) -> str:
    """The URL without its query, which often repeats what was asked for."""
    parts = urlsplit(url)
    return f"{parts.netloc}{parts.path.rstrip('/')}"
