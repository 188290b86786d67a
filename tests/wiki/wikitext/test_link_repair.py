"""Links outside of citation templates, repaired."""

from dataclasses import replace

import pytest

from tests.wiki.wikitext.mending import OPTIONS, STAMP, Remedying, address, alive, copied, lost, mend, read, usurped
from wiki.wikitext.citation_model import ArchivedCopy, LinkCondition, LinkRemedy, NoRepairReason, RepairKind
from wiki.wikitext.page_repair import repair_page
from wiki.wikitext.repair_markup import limit_rules
from wiki.wikitext.template_map import rules_for

A = "http://x.test/a"
COPY = address(A)
BESIDE = f"{{{{webarchive|url={COPY}|date=2 January 2015}}}}"
TAG = "{{dead link|date=November 2026|bot=Weboid|fix-attempted=yes}}"
CITED = f"|archive-url={COPY}|archive-date=2 January 2015|url-status=dead}}}}"

CASES: dict[str, tuple[str, Remedying, str]] = {
    "brackets": (f"* [{A} T]\n", copied, f"* [{A} T] {BESIDE}\n"),
    "bare": (f"See {A}, or not.", copied, f"See {A} {BESIDE}, or not."),
    "in parentheses": (f"(see {A})", copied, f"(see {A} {BESIDE})"),
    "at the end": (f"See {A}", copied, f"See {A} {BESIDE}"),
    "a tag gives way": (f"* [{A} T] {{{{dead link|date=May 2019}}}} x", copied, f"* [{A} T] {BESIDE} x"),
    "in a table": (f"{{|\n| [{A} T] || x\n|}}", copied, f"{{|\n| [{A} T] {BESIDE} || x\n|}}"),
    "in a caption": (f"[[File:A.png|thumb|By [{A} T].]]", copied, f"[[File:A.png|thumb|By [{A} T] {BESIDE}.]]"),
    "a reference with more in it": (
        f"<ref>[{A} T], Times, p. 4.</ref>",
        copied,
        f"<ref>[{A} T] {BESIDE}, Times, p. 4.</ref>",
    ),
    "a reference in an infobox": (
        f"{{{{Infobox|a=1<ref>See [{A} T] there</ref>}}}}",
        copied,
        f"{{{{Infobox|a=1<ref>See [{A} T] {BESIDE} there</ref>}}}}",
    ),
    "a bare reference": (f"<ref>{A}</ref>", copied, f"<ref>{{{{cite web|url={A}|title=The archived title{CITED}</ref>"),
    "a reference with a title": (
        f'<ref name="x">[{A} My title]</ref>',
        copied,
        f'<ref name="x">{{{{cite web|url={A}|title=My title{CITED}</ref>',
    ),
    "a tagged reference": (
        f"<ref>[{A} My title] {{{{dead link|date=May 2019}}}}</ref>",
        copied,
        f"<ref>{{{{cite web|url={A}|title=My title{CITED}</ref>",
    ),
    "no copy": (f"* [{A} T]\n", lost, f"* [{A} T] {TAG}\n"),
    "no copy of a reference": (f"<ref>{A}</ref>", lost, f"<ref>{A} {TAG}</ref>"),
    "another owner": (f"* [{A} T]\n", usurped, f"* [{COPY} T]\n"),
    "a copy in an archive that is gone": (
        f"* [{A} T] {{{{webarchive|url=https://www.webcitation.org/6abcdefgh?url={A}|date=2015-01-02}}}}",
        copied,
        f"* [{A} T] {{{{webarchive|url={COPY}|date=2 January 2015}}}}",
    ),
    "an obsolete archive template": (
        f"* [{A} T] {{{{wayback|url={A}|date=20130405060708}}}}",
        copied,
        f"* [{A} T] {{{{webarchive|url=https://web.archive.org/web/20130405060708/{A}|date=5 April 2013}}}}",
    ),
    "a citation template that nobody described": (
        f"<ref>{{{{Our source|url={A}|name=T}}}}</ref>",
        copied,
        f"<ref>{{{{Our source|url={A}|name=T}}}} {BESIDE}</ref>",
    ),
    "a template that is a link": (f"{{{{Official website|{A}}}}}", copied, f"{{{{Official website|{A}}}}} {BESIDE}"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_link_is_mended_where_it_stands(case: str) -> None:
    """The copy, or the tag, stands beside the link; bare references become citations (B15)."""
    before, remedying, after = CASES[case]
    assert mend(before, remedying).text == after


LEFT = {
    "nowiki": f"<nowiki>{A} [{A} T]</nowiki>",
    "a comment": f"<!-- [{A} T] -->",
    "pre": f"<pre>[{A} T]</pre>",
    "syntaxhighlight": f'<syntaxhighlight lang="text">[{A} T]</syntaxhighlight>',
    "held": f"[{A} T] {{{{cbignore}}}}",
    "a heading": f"== [{A} T] ==\n",
    "a parameter": f"{{{{Infobox|site=[{A} T]}}}}",
    "a parameter that is the link": f"{{{{Infobox|site={A}}}}}",
    "a copy beside it": f"[{A} T] {{{{webarchive|url={COPY}|date=2015-01-02}}}}",
    "a copy in its place": f"[{COPY} T]",
}


@pytest.mark.parametrize("remedying", [copied, lost], ids=["copy", "no copy"])
@pytest.mark.parametrize("case", LEFT)
def test_nothing_is_put_where_it_has_no_place(case: str, remedying: Remedying) -> None:
    """Code, comments, headings, parameters, what is held and what has its copy stay as they are."""
    assert mend(LEFT[case], remedying).text == LEFT[case]


def test_a_german_link_gets_the_german_template() -> None:
    """Each archive has a parameter of its own there."""
    done = mend(f"* [{A} T]\n", language="de")
    assert done.text == f"* [{A} T] {{{{Webarchiv|url={A}|wayback={STAMP}|text=Archivversion}}}}\n"
    today = ArchivedCopy(f"https://archive.today/{STAMP}/{A}", STAMP, "archive-today")
    done = mend(f"* [{A} T]\n", lambda _: LinkRemedy(LinkCondition.DEAD, today), "de")
    assert f"|archive-is={STAMP}|" in done.text


def test_a_german_reference_becomes_a_german_citation() -> None:
    """With that template's parameters and values (B15)."""
    assert mend(f"<ref>{A}</ref>", language="de").text == (
        f"<ref>{{{{Internetquelle|url={A}|titel=The archived title|archiv-url={COPY}"
        "|archiv-datum=2015-01-02|offline=1}}</ref>"
    )


def test_a_tag_that_is_the_link_becomes_an_archive_template() -> None:
    """``{{Toter Link|url=…|text=…}}`` alone shows the link's own words, and so does what follows it."""
    done = mend(f"* {{{{Toter Link|url={A}|text=Mein Titel}}}}\n", language="de")
    assert done.text == f"* {{{{Webarchiv|url={A}|wayback={STAMP}|text=Mein Titel}}}}\n"


def test_a_german_tag_tells_the_link() -> None:
    """The tag of that wiki wants the address and a day (B12)."""
    done = mend(f"* [{A} T]\n", lost, "de")
    assert f" {{{{Toter Link|url={A}|date=2026-11-21|archivebot=2026-11-21 Weboid}}}}\n" in done.text


def test_an_archive_that_the_template_does_not_know_takes_the_links_place() -> None:
    """Then nothing else can name the copy; the address still tells the original."""
    copy = ArchivedCopy(f"https://arquivo.pt/wayback/{STAMP}/{A}", STAMP, "arquivo")
    done = mend(f"* [{A} T]\n", lambda _: LinkRemedy(LinkCondition.DEAD, copy), "de")
    assert done.text == f"* [{copy.address} T]\n"
    assert mend(done.text, alive, "de").text == f"* [{A} T]\n"


def test_a_wiki_without_templates_gets_none() -> None:
    """No red links: nothing is written with a template that the wiki does not have."""
    bare = limit_rules(rules_for("en"), lambda _name: False)
    assert mend(f"<ref>{A}</ref>", copied, bare).text == f"<ref>{COPY}</ref>"
    done = mend(f"<ref>{A}</ref>", lost, bare)
    assert done.text == f"<ref>{A}</ref>"
    assert [each.reason for each in done.refused] == [NoRepairReason.NO_COPY]


def test_conversion_and_tags_can_be_switched_off() -> None:
    """By the wiki's settings."""
    assert mend(f"<ref>{A}</ref>", options=replace(OPTIONS, convert_bare=False)).text == (f"<ref>{A} {BESIDE}</ref>")
    off = replace(OPTIONS, tag_dead=False)
    assert mend(f"<ref>{A}</ref>", lost, options=off).text == f"<ref>{A}</ref>"


HOSTILE = {
    "markup": "A | B [[C]] {{D}} ''E'' <b>F</b> ~~~~ __TOC__ &amp; &lt;",
    "lines": "A\nB\r\n* C\t",
    "a url": "See http://evil.test/ now",
    "the line turned around": "A \u202eB\u200b \x00\x1b[31m",
    "a template's end": "}} {{evil}} |url-status=live",
}


@pytest.mark.parametrize("case", HOSTILE)
def test_an_archived_title_means_nothing_in_wikitext(case: str) -> None:
    """The page read again has the same one link, in one citation, with that title (B15)."""
    done = mend(f"<ref>{A}</ref>", lambda url: copied(url, HOSTILE[case]))
    assert done.text.startswith(f"<ref>{{{{cite web|url={A}|title=")
    assert done.text.count("|") == 5
    assert done.text.count("{{") == done.text.count("}}") == 1
    assert "~~~" not in done.text
    assert mend(done.text).text == done.text


@pytest.mark.parametrize("title", ["", "404 Not Found", "Just a moment...", " - ", "Login"])
def test_a_title_that_names_nothing_makes_no_citation(title: str) -> None:
    """Without a title the copy is put beside the link instead."""
    done = mend(f"<ref>{A}</ref>", lambda url: copied(url, title))
    assert done.text == f"<ref>{A} {BESIDE}</ref>"


def test_a_tag_beside_two_links_goes_with_the_last() -> None:
    """A dead-link tag is removed once, and only when everything that it is said of is mended."""
    text = f"<ref>{{{{cite web|url={A}}}}} {{{{cite web|url=http://x.test/b}}}} {{{{dead link}}}}</ref>"
    done = mend(text)
    assert "dead link" not in done.text
    half = mend(text, lambda url: copied(url) if url == A else None)
    assert "{{dead link}}" in half.text


def test_a_tag_before_an_unclosed_reference_leaves_its_blank() -> None:
    """Without it the reference's link would be none: right after a URL, MediaWiki links nothing up to a blank."""
    copy = ArchivedCopy(COPY, STAMP, "wayback")
    usurped = lambda _: LinkRemedy(LinkCondition.USURPED, copy)  # noqa: E731
    assert mend(f"{A}<ref>{A} {{{{dead link}}}}<ref>{A}", usurped).text == f"{COPY}<ref>{A} <ref>{COPY}"
    assert mend(f"{A} {{{{dead link}}}}<ref>x</ref>", usurped).text == f"{COPY}<ref>x</ref>"


def test_a_tag_that_is_said_of_two_links_stays_until_both_are_mended() -> None:
    """Whoever reads the page may say that a tag is about both."""
    text = f"{{{{cite web|url={A}}}}} {{{{cite web|url=http://x.test/b}}}} {{{{dead link}}}}"
    rules = rules_for("en")
    first, second = read(text, rules)
    both = (replace(first, dead_tag=second.dead_tag), second)
    half = repair_page(text, both, {A: copied(A)}, rules, OPTIONS)
    assert half.changes
    assert "{{dead link}}" in half.text
    remedies = {each.url: copied(each.url) for each in both}
    whole = repair_page(text, both, remedies, rules, OPTIONS)
    assert "dead link" not in whole.text


def test_each_change_is_told() -> None:
    """Kind, link, copy, and the citation before and after."""
    done = mend(f"x <ref>[{A} T], p. 4</ref> y")
    (change,) = done.changes
    assert change.kind is RepairKind.ARCHIVED
    assert (change.url, change.archive_url) == (A, COPY)
    assert change.before == f"[{A} T]"
    assert change.after == f"[{A} T] {BESIDE}"
    (piece,) = change.replacements
    assert piece.before == ""
    assert done.text[piece.new_span.start : piece.new_span.end] == piece.after == f" {BESIDE}"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{A}{{{{Toter Link}}}}=b", "{copy} =b"),
        (f"{A} {{{{Toter Link}}}}.b", "{copy} .b"),
        (f"{A} {{{{Toter Link}}}}.\n", "{copy}.\n"),
        (f"[{A} T]{{{{Toter Link}}}}b", "[{copy} T]b"),
        (f"{A} {{{{Toter Link}}}}<!-- no -->b", "{copy} <!-- no -->b"),
        (f"{A} {{{{Toter Link}}}}<noinclude>b</noinclude>", "{copy} <noinclude>b</noinclude>"),
        (f"{A} {{{{Toter Link}}}}<br>b", "{copy}<br>b"),
    ],
)
def test_a_bare_url_ends_where_it_ended(before: str, after: str) -> None:
    """Text behind a removed tag does not become a part of the URL."""
    copy = ArchivedCopy(f"https://arquivo.pt/wayback/{STAMP}/{A}", STAMP, "arquivo")
    done = mend(before, lambda _: LinkRemedy(LinkCondition.DEAD, copy), "de")
    assert done.text == after.format(copy=copy.address)


def test_a_tag_that_others_wrote_is_not_taken_back() -> None:
    """Only our own tags are removed when the link works again, if tags name the bot that wrote them."""
    text = f"[{A} T] {{{{dead link|date=May 2019|bot=Another}}}}"
    assert mend(text, alive).text == text
