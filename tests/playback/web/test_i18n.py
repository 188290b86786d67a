"""Languages: whole catalogues, the reader's choice, and dates as they are written there."""

import re
from datetime import UTC, datetime

import pytest
from babel.messages.catalog import Message
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ConfigError
from core.timestamps import timestamp14
from playback.web import i18n
from playback.web.i18n import PageLanguage, check_language, page_language, split_prefix, wanted_language
from scripts.messages import extracted, read_catalog, untranslated, updated
from tests.support.playback_fixtures import NOW, ServedCollection

OTHERS = [each for each in i18n.languages() if each != i18n.SOURCE]
TS = timestamp14(NOW)
_PLACE = re.compile(r"%\((\w+)\)s")


def forms(message: Message) -> list[str]:
    """Return a message's translations, one for each plural form."""
    translations = message.string if isinstance(message.string, list | tuple) else [message.string]
    return [each or "" for each in translations]


@pytest.mark.parametrize("language", OTHERS)
def test_every_text_is_translated(language: str) -> None:
    """`make messages` adds what is new; a translator fills it in (W11)."""
    assert [each.id for each in untranslated(updated(language))] == []


@pytest.mark.parametrize("language", OTHERS)
def test_translations_name_the_places_that_their_text_has(language: str) -> None:
    """Else a page would fail when it is made, or leave out what it has to say."""
    catalog = read_catalog(language)
    for message in catalog:
        ids = message.id if isinstance(message.id, list | tuple) else [message.id]
        if not any(ids):
            continue
        wanted = {frozenset(_PLACE.findall(each)) for each in ids}
        for form in forms(message):
            assert frozenset(_PLACE.findall(form)) in wanted, message.id
            assert "%" not in _PLACE.sub("", form), message.id


def test_german_is_there() -> None:
    """Beside English, by default (W11)."""
    assert {"en", "de"} <= set(i18n.languages())
    assert len(extracted()) > 100


@pytest.mark.parametrize(
    ("accepted", "language"),
    [
        ("de", "de"),
        ("de-CH, en;q=0.9", "de"),
        ("en-GB,en;q=0.8,de;q=0.7", "en"),
        ("fr, de;q=0.2", "de"),
        ("fr", "en"),
        ("*", "en"),
        ("en;q=0, *;q=0.5", "de"),
        ("de;q=0", "en"),
        ("", "en"),
        (",;q=,de;q=x,==", "en"),
    ],
)
def test_a_reader_gets_what_the_browser_asks_for(accepted: str, language: str) -> None:
    """RFC 9110, 12.5.4 and RFC 4647, 3.4."""
    assert wanted_language(accepted) == language


@given(st.text())
def test_no_header_is_too_odd(accepted: str) -> None:
    """It is a wish, and nobody fails for it."""
    assert wanted_language(accepted) in i18n.languages()


@given(st.binary(max_size=40))
def test_a_prefix_is_taken_off_once_or_not_at_all(path: bytes) -> None:
    """The rest is a path, and with its prefix it is the path of before."""
    language, rest = split_prefix(b"/" + path)

    assert rest.startswith(b"/")
    assert not language or (b"/" + language.encode() + rest).rstrip(b"/") == (b"/" + path).rstrip(b"/")


def test_an_unknown_language_is_refused_at_the_start() -> None:
    """With the ones that there are."""
    with pytest.raises(ConfigError, match="there is en, de"):
        check_language("tlh")


@pytest.mark.parametrize(
    ("language", "day", "captures"),
    [("en", "1 March 2026", "5,000 captures"), ("de", "1. März 2026", "5.000 Aufnahmen")],
)
def test_dates_and_numbers_are_written_as_there(language: str, day: str, captures: str) -> None:
    """By CLDR, through Babel."""
    token = page_language.set(PageLanguage(language))
    try:
        assert i18n.day(datetime(2026, 3, 1, tzinfo=UTC)) == day
        assert i18n.translate_count("%(count)s capture", "%(count)s captures", 5_000) == captures
    finally:
        page_language.reset(token)


def test_a_page_is_in_the_language_that_was_asked_for(served: ServedCollection, site: str) -> None:
    """It says so to screen readers and to caches."""
    served.builder.page(f"{site}/", "<p>x</p>", text="x")
    german = served.get(f"/page/{TS}/{site}/", headers={"Accept-Language": "de-AT,de;q=0.9"})
    english = served.get(f"/page/{TS}/{site}/", headers={"Accept-Language": "fr"})

    assert '<html lang="de">' in german.text
    assert "1. März 2026" in german.text
    assert german["Content-Language"] == "de"
    assert german["Vary"] == "Accept-Language"
    assert '<html lang="en">' in english.text


def test_a_language_in_the_address_stays_in_its_links(served: ServedCollection, site: str) -> None:
    """Whatever the browser asks for; nothing is stored at the reader's."""
    served.builder.page(f"{site}/a?b=c", "<p>x</p>", text="x")
    moved = served.get(f"/de/page/{site}/a?b=c")
    reply = served.get(moved["Location"], headers={"Accept-Language": "en"})

    assert moved["Location"] == f"/de/page/{TS}/{site}/a?b=c"
    assert '<html lang="de">' in reply.text
    assert f'href="/de/text/{TS}/{site}/a?b=c"' in reply.text
    assert f'href="/en/page/{TS}/{site}/a?b=c"' in reply.text
    assert "set-cookie" not in {name.lower() for name, _ in reply.headers}
    assert served.get("/de")["Content-Language"] == "de"
    assert served.get("/xx/").status == 404


def test_a_page_names_no_text_in_another_language(served: ServedCollection, site: str) -> None:
    """A German page has no English left in its own words."""
    served.builder.page(f"{site}/", "<p>x</p>", text="x", title="T")
    addresses = (
        f"/de/page/{TS}/{site}/",
        f"/de/url/{site}/",
        f"/de/page/{site}/never",
        f"/de/?q=url:{site}/",
        "/de/?q=nothing-like-this",
        "/de/no-such-address",
    )
    for address in addresses:
        words = re.sub(r"<[^>]*>", " ", served.get(address).text)
        assert not re.search(r"\b(?:the|of|captures?|copy|copies|and)\b", words), address
