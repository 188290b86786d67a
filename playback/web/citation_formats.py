"""Citations of a copy: wikitext, HTML with Robust Links, BibTeX, plain text; pure.

Titles and names come from the archived page, so each format escapes them by its own rules:

- wikitext: ``{{cite web}}`` splits at ``|``, ``}}``, ``{{`` and ``[[``, an external link ends at ``]`` and at white
space (mediawiki.org, Help:Links, Help:Templates): character references, in URLs percent-encoded. - HTML: Robust Links
1.0 (robustlinks.mementoweb.org/spec). - BibTeX: eleven characters are special (The LaTeX Companion, 2nd ed., 13.2).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+|\s+")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_WIKI_SPECIAL = re.compile(r"[\[\]{}|<>&=~_*#:;'!/-]")
_WIKI_ALONE = frozenset("=~_*#:;'!/-")  # special only at the beginning of a text, or repeated
_URL_UNSAFE = re.compile(r"[\[\]{}|<>\"'\s\\^`\x00-\x1f\x7f-\U0010ffff]")
_BIBTEX = {
    "\\": r"\textbackslash{}",
    "{": r"\textbraceleft{}",  # BibTeX counts braces, even escaped ones
    "}": r"\textbraceright{}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    '"': '{"}',
}
_ISO_DATE = re.compile(r"(\d{4})(?:-(\d\d)(?:-(\d\d))?)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class CitedSource:
    """Source of a citation."""

    url: str
    archive_url: str  # the reader page of the copy
    memento_url: str  # the copy itself (URI-M)
    captured_at: datetime
    accessed_at: datetime
    title: str  # the URL when there is none
    authors: Sequence[str] = ()
    published: str = ""  # date from the page, in ISO 8601; empty when unknown
    site: str = ""  # site name from the page; may be empty
    language: str = ""  # BCP 47, from the page; may be empty


def cite_web(source: CitedSource) -> str:
    """Return MediaWiki's ``{{cite web}}`` on one line."""
    authors = source.authors[:20]
    parameters = [
        *(("author" + (str(n) if len(authors) > 1 else ""), each) for n, each in enumerate(authors, 1)),
        ("title", source.title),
        ("website", source.site),
        ("date", _iso_day(source.published)),
        ("language", source.language),
    ]
    fields = [("url", wiki_url(source.url))]
    fields += [(name, wiki_text(text)) for name, text in parameters if text.strip()]
    fields += [
        ("access-date", f"{source.accessed_at:%Y-%m-%d}"),
        ("archive-url", wiki_url(source.archive_url)),
        ("archive-date", f"{source.captured_at:%Y-%m-%d}"),
    ]
    return "{{cite web" + "".join(f" |{name}={text}" for name, text in fields) + "}}"


def wiki_link(source: CitedSource) -> str:
    """Return an external link in wikitext, with a second one to the copy."""
    title = wiki_text(source.title)
    day = f"{source.captured_at:%Y-%m-%d}"
    return f"[{wiki_url(source.url)} {title}] ([{wiki_url(source.archive_url)} archived copy, {day}])"


def robust_link(source: CitedSource) -> str:
    """Return an HTML link with address and date of the copy."""
    attributes = {
        "href": source.archive_url,
        "data-originalurl": source.url,
        "data-versionurl": source.archive_url,
        "data-versiondate": f"{source.captured_at:%Y-%m-%dT%H:%M:%SZ}",
    }
    written = " ".join(f'{name}="{escape(_clean(text))}"' for name, text in attributes.items())
    return f"<a {written}>{escape(_clean(source.title))}</a>"


def bibtex(source: CitedSource) -> str:
    """Return a BibTeX entry of type ``@misc``."""
    published = _ISO_DATE.match(source.published)
    moment = f"{source.captured_at:%Y-%m-%d %H:%M:%S}"
    fields = [
        ("author", " and ".join(f"{{{bibtex_text(each)}}}" for each in source.authors)),
        ("title", f"{{{bibtex_text(source.title)}}}"),
        ("organization", bibtex_text(source.site)),
        ("year", published[1] if published else ""),
        ("month", str(int(published[2])) if published and published[2] else ""),
        ("url", _percent_encoded(source.archive_url)),
        ("urldate", f"{source.accessed_at:%Y-%m-%d}"),
        ("note", f"Copy archived {moment} UTC of {bibtex_text(_percent_encoded(source.url))}"),
    ]
    lines = [f"  {name} = {{{text}}}," for name, text in fields if text]
    return "\n".join((f"@misc{{copy{source.captured_at:%Y%m%d%H%M%S},", *lines, "}"))


def plain(source: CitedSource) -> str:
    """Return a citation in plain text, one paragraph."""
    parts = [
        "; ".join(_clean(each) for each in source.authors),
        f"“{_clean(source.title)}”",
        _clean(source.site),
        _iso_day(source.published),
        _clean(source.url),
        f"archived {source.captured_at:%Y-%m-%d %H:%M:%S} UTC at {_clean(source.archive_url)}",
        f"accessed {source.accessed_at:%Y-%m-%d}",
    ]
    return ". ".join(part for part in parts if part) + "."


def wiki_text(text: str) -> str:
    """Escape text for template parameters and link labels of wikitext by character references.

    >>> wiki_text("A | B [C] {{d}} ''e''")
    'A &#124; B &#91;C&#93; &#123;&#123;d&#125;&#125; &#39;&#39;e&#39;&#39;'
    """
    cleaned = _clean(text)

    def one(match: re.Match[str]) -> str:
        character, place = match[0], match.start()
        # "==", "--", "__" and "//" mean something in the middle, "*" and the like in the beginning.
        if character in _WIKI_ALONE and place > 0:
            before = cleaned[place - 1]
            after = cleaned[place + 1 : place + 2]
            if character not in (before, after) and not (character == ":" and after == "/"):
                return character
        return f"&#{ord(character)};"

    escaped = _WIKI_SPECIAL.sub(one, cleaned)
    return re.sub(r"\b(ISBN|RFC|PMID) (?=\d)", r"\1&#32;", escaped)  # MediaWiki's magic links


def wiki_url(url: str) -> str:
    """Escape a URL for wikitext links and template parameters."""
    encoded = _percent_encoded(url)
    # Signatures and magic words are expanded in URLs as everywhere.
    return encoded.replace("~~~", "%7E%7E%7E").replace("__", "%5F%5F")


def bibtex_text(text: str) -> str:
    r"""Escape text for BibTeX and LaTeX.

    >>> bibtex_text("50% of {A} & B_c")
    '50\\% of \\textbraceleft{}A\\textbraceright{} \\& B\\_c'
    """
    return "".join(_BIBTEX.get(each, each) for each in _clean(text))


def _percent_encoded(url: str) -> str:
    return _URL_UNSAFE.sub(lambda m: "".join(f"%{byte:02X}" for byte in _sound(m[0]).encode()), url)


def _iso_day(text: str) -> str:
    match = _ISO_DATE.match(text)
    return match[0] if match else ""


def _clean(text: str) -> str:
    """Return the text on one line, without control characters."""
    return _sound(_CONTROL.sub(" ", text)).strip()


def _sound(text: str) -> str:
    return _SURROGATE.sub("\ufffd", text)
