"""Summaries and messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wiki.wikitext.mending import read
from wiki.wikitext.citation_model import CitationRepair, RepairKind
from wiki.wikitext.edit_messages import LISTED_LIMIT, SUMMARY_LENGTH, MessageSender, edit_summary, talk_message
from wiki.wikitext.template_map import rules_for

pytestmark = pytest.mark.slow

COPY = "https://web.archive.org/web/20150102030405/http://x.test/a"
SENDER = MessageSender("2f3a-17", "User:Weboid/Run", "Cbignore")


def change(kind: RepairKind = RepairKind.ARCHIVED, url: str = "http://x.test/a", copy: str = COPY) -> CitationRepair:
    return CitationRepair(kind, url, copy, "before", "after", ())


def test_a_summary_counts_what_was_done() -> None:
    """With the job's number, and a link to the page that stops the bot (B14)."""
    summary = edit_summary([change(), change(), change(RepairKind.TAGGED)], "en", SENDER)
    assert summary == (
        "Mending links: 2 archived copies added, 1 link tagged as dead · #2f3a-17 · [[:User:Weboid/Run|stop this bot]]"
    )


def test_a_summary_speaks_the_wikis_language() -> None:
    """German, with its variants; English for others."""
    assert edit_summary([change()], "de-AT", MessageSender("1")) == "Weblinks repariert: 1 Archivversion ergänzt · #1"
    assert edit_summary([change()], "xx", MessageSender("1")) == "Mending links: 1 archived copy added · #1"


@given(st.text(max_size=600), st.text(max_size=600), st.lists(st.sampled_from(RepairKind), max_size=40))
def test_a_summary_is_never_too_long_or_broken(job: str, page: str, kinds: list[RepairKind]) -> None:
    """MediaWiki cuts what is longer: a link would lose its end."""
    summary = edit_summary([change(kind) for kind in kinds], "de", MessageSender(job, page))
    assert len(summary) <= SUMMARY_LENGTH
    assert summary.count("[[") == summary.count("]]") <= 1
    assert "{{" not in summary
    assert "\n" not in summary


def test_a_message_says_what_was_done_and_what_to_do() -> None:
    """A section with a line for each link, how to report a mistake, and a signature (B16)."""
    notice = talk_message([change(), change(RepairKind.TAGGED, "http://x.test/b", "")], "en", SENDER, is_done=True)
    assert notice.heading == "Links mended"
    assert notice.text.split("\n") == [
        "Links on this page were looked at for some time, and a bot has changed these:",
        "",
        f"* http&#58;//x.test/a: an archived copy was added ([{COPY} copy])",
        "* http&#58;//x.test/b: tagged as dead; no archived copy is known",
        "",
        "Is one of them wrong? Take the edit back: the link is then looked at again, and the change is not"
        " repeated before a person has looked, too. <code><nowiki>{{Cbignore}}</nowiki></code> behind a"
        " link keeps bots from it. ([[:User:Weboid/Run|stop this bot]]) #2f3a-17 ~~~~",
    ]


def test_a_proposal_says_that_nothing_was_changed() -> None:
    """The page stays as it is if only messages are wanted (B16)."""
    notice = talk_message([change()], "de", MessageSender("1"), is_done=False)
    assert notice.heading == "Defekte Weblinks"
    assert "nichts geändert" in notice.text


def test_a_long_list_ends() -> None:
    """A page of thousands of links gets no message of thousands of lines."""
    notice = talk_message([change()] * 200, "en", MessageSender("1"), is_done=True)
    assert notice.text.count("\n* ") == LISTED_LIMIT + 1
    assert "150 more" in notice.text


@pytest.mark.parametrize(
    "url",
    [
        "http://x.test/]] {{evil}} [[",
        "http://x.test/</nowiki><b>~~~~",
        "http://x.test/'''a''' __TOC__ mailto:a@b",
        "http://x.test/\n== Heading ==\n* x",
        "http://x.test/&lt;b&gt;{{{1}}}<!--",
    ],
)
def test_a_url_breaks_no_message(url: str) -> None:
    """Links and their copies come from anybody's page: they are shown, and do nothing (B16)."""
    notice = talk_message([change(url=url, copy=f"https://web.archive.org/web/2015/{url}")], "en", SENDER, is_done=True)
    assert notice.text.count("\n") == 4
    assert notice.text.count("~~~") == 1
    assert notice.text.count("{{") == 1  # the hint's, in nowiki
    assert notice.text.count("[[") == 1
    links = read(notice.text, rules_for("en"))
    assert len(links) == 1


def test_an_address_that_is_none_is_not_linked() -> None:
    """Only web addresses."""
    notice = talk_message([change(copy="javascript:alert(1)")], "en", SENDER, is_done=True)
    assert "javascript" not in notice.text
