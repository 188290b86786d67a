"""Repaired wikitext, as a real MediaWiki reads it."""

import html
import re
from typing import Any

import pytest

from tests.support.sites.mediawiki import RunningWiki
from tests.support.wiki_writer import WikiWriter
from tests.wiki.wikitext.mending import address, copied, lost, mend
from wiki.wikitext.citation_model import CitationRepair, RepairKind
from wiki.wikitext.edit_messages import MessageSender, edit_summary, talk_message

pytestmark = pytest.mark.slow

A = "http://x.test/a"
CITE = "<includeonly>[{{{archive-url|{{{url}}}}}} {{{title}}}] ({{{archive-date|}}}, {{{url-status|}}})</includeonly>"
TITLES = [
    "A | B [[Main Page]] {{PAGENAME}} ''E'' '''F''' <b>G</b>",
    "~~~~ ~~~ __NOTOC__ __TOC__ &amp;lt; &copy; {{{1|x}}} {{!}}",
    "== H == * # : ; ---- [http://evil.test x] http://evil.test mailto:a@evil.test",
    "<nowiki>a</nowiki> <!-- b --> <ref>c</ref> ISBN 0306406152 RFC 2616 -{zh:a}-",
    "]] }} |url-status=live }}{{nobots}}",
    "it's 'quoted' \"twice\" 100% #1 a=b",
    "العنوان \u202eمقلوب\u202c עברית",
]
URLS = [
    "http://x.test/]] {{PAGENAME}} [[Main Page]]",
    "http://x.test/</nowiki><b>bold</b>~~~~",
    "http://x.test/'''a''' __TOC__ mailto:a@evil.test",
    "http://x.test/\n== Heading ==\n* x <script>alert(1)</script>",
    "http://x.test/&lt;b&gt;{{{1}}}<!-- {{subst:PAGENAME}}",
]


@pytest.fixture(scope="module", autouse=True)
def _templates(writer: WikiWriter) -> None:
    writer.write("Template:Cite web", CITE)
    writer.write("Template:Webarchive", "<includeonly>([{{{url}}} archived {{{date}}}])</includeonly>")
    writer.write("Template:Dead link", "<includeonly>(dead since {{{date}}})</includeonly>")


def parsed(writer: WikiWriter, text: str) -> dict[str, Any]:
    """Have the wiki parse the text, pre-save transformations included; return the result."""
    document = writer.ask(
        action="parse",
        text=text,
        title="Sandbox",
        pst=1,
        contentmodel="wikitext",
        prop="text|externallinks|links|templates|sections|properties",
        disablelimitreport=1,
    )
    page: dict[str, Any] = document["parse"]
    return page


def words(page: dict[str, Any]) -> str:
    """Return the text that a reader sees."""
    plain = re.sub(r"<[^>]*>", "", page["text"])
    return " ".join(html.unescape(plain).split())


@pytest.mark.parametrize("number", range(len(TITLES)))
def test_an_archived_title_is_shown_letter_by_letter(writer: WikiWriter, number: int) -> None:
    """Nothing in a title is expanded, linked, signed or made bold (B15)."""
    title = TITLES[number]
    done = mend(f"<ref>{A}</ref>\n<references/>", lambda url: copied(url, title))
    page = parsed(writer, done.text)
    shown = " ".join(html.unescape(title).translate({0x202E: None, 0x202C: None}).split())
    assert f"{shown} (2 January 2015, dead)" in words(page)
    assert page["externallinks"] == [address(A)]
    assert not page["links"]
    assert [each["title"] for each in page["templates"]] == ["Template:Cite web"]
    assert not page["sections"]


def test_repairs_lead_readers_to_the_copies(writer: WikiWriter) -> None:
    """Citation, link, bare link, cell and tag, as the wiki shows them."""
    text = (
        f"a<ref>{{{{cite web|url={A}|title=One}}}}</ref>\n* [{A} Two]\n* see {A}, there\n"
        f"{{|\n| [{A} Three] || x\n|}}\n<references/>"
    )
    page = parsed(writer, mend(text).text)
    assert sorted(page["externallinks"]) == sorted([A, address(A)])
    assert "One (2 January 2015, dead)" in words(page)
    assert "Two (archived 2 January 2015)" in words(page)
    assert f"see {A} (archived 2 January 2015), there" in words(page)
    assert "Three (archived 2 January 2015) x" in words(page)
    assert "dead since November 2026" in words(parsed(writer, mend(f"[{A} x]", lost).text))


@pytest.mark.parametrize("number", range(len(URLS)))
def test_a_message_shows_addresses_letter_by_letter(wiki: RunningWiki, writer: WikiWriter, number: int) -> None:
    """A talk page's section has one line a link, the copy as its only link, and one signature (B16)."""
    change = CitationRepair(RepairKind.ARCHIVED, URLS[number], address(URLS[number]), "", "", ())
    message = talk_message([change], "en", MessageSender("7"), is_done=True)
    page = parsed(writer, message.text)
    assert len(page["externallinks"]) == 1
    assert page["externallinks"][0].startswith("https://web.archive.org/web/20150102030405/http://x.test/")
    assert not page["templates"]
    assert not page["sections"]
    assert page["text"].count("<li>") == 1
    assert "<script" not in page["text"]
    assert "<b>" not in page["text"]
    assert " ".join(URLS[number].split()).split("<")[0].split("&")[0] in words(page)
    assert words(page).count("(UTC)") == 1


def test_a_summary_is_kept_whole(writer: WikiWriter) -> None:
    """The wiki shows the summary as it was told, with its one link."""
    changes = [CitationRepair(kind, A, address(A), "", "", ()) for kind in RepairKind for _ in range(12)]
    summary = edit_summary(changes, "de", MessageSender("7", "User:Weboid/Run"))
    page_id, rev_id = writer.write("Summarised", "x")
    told_back = writer.act(action="edit", pageid=page_id, text="y", summary=summary)["edit"]
    reply = writer.ask(action="query", revids=told_back["newrevid"], prop="revisions", rvprop="comment|parsedcomment")
    (revision,) = reply["query"]["pages"][0]["revisions"]
    assert revision["comment"] == summary
    assert revision["parsedcomment"].count("<a ") == 1
    assert rev_id
