"""Places of links on a page, and places where none are (B03)."""

import pytest

from tests.wiki.wikitext.reading import one, read, urls
from wiki.wikitext.citation_model import CitationForm

A = "http://a.test/x"


@pytest.mark.parametrize(
    ("text", "url"),
    [
        (f"see {A}, and", A),
        (f"({A})", A),
        (f"{A}_(b)", f"{A}_(b)"),
        (f"{A}?!.", A),
        (f"{A}?q=1&amp;", f"{A}?q=1&"),
        (f"{A}?q=1&amp;copy=2", f"{A}?q=1&copy=2"),
        (f"{A}?q=1&copy=2", f"{A}?q=1&copy=2"),
        (f"{A}&lt;b", A),
        (f"{A}&nbsp;b", A),
        (f"{A}''b''", A),
        (f"{A}'b", f"{A}'b"),
        (f"{A}[[b]]", A),
        (f'{A}"b"', A),
        (f"{A}<br>", A),
        (f"{A}\u3000b", A),
        (f"{A}\u00a0b", A),
        (f"{A}<!-- c -->y", f"{A}y"),
        ("HTTPS://a.test/x", "HTTPS://a.test/x"),
        ("ftp://a.test/x", "ftp://a.test/x"),
        ("http://[2001:db8::1]/x", "http://[2001:db8::1]/x"),
        ("http://münchen.test/straße", "http://münchen.test/straße"),
        ("http://a.test/%C3%A9", "http://a.test/%C3%A9"),
        (f"== {A} ==", A),
        (f"={A}=", A),
        (f"{{|\n|{A}||b\n|}}", A),
        (f"{{|\n! {A}!!b\n|}}", A),
        (f"[[File:A.png|thumb|{A}|b]]", A),
        (f"<noinclude>{A}</noinclude>", A),
        (f"<nowiki>{A}", A),
        (f"<kbd>{A}</kbd>", A),
        (f"{{{{#if:x|{A}}}}}", A),
        (f"{{{{{{url|{A}}}}}}}", A),
    ],
)
def test_a_bare_url_ends_where_mediawiki_ends_it(text: str, url: str) -> None:
    """Punctuation, quotes, brackets, spaces of any script and escaped signs are no part of it."""
    citation = one(text)
    assert (citation.url, citation.way, citation.is_malformed) == (url, CitationForm.BARE, False)


@pytest.mark.parametrize(
    ("text", "url", "title"),
    [
        (f"[{A}]", A, ""),
        (f"[{A} b c]", A, "b c"),
        ("[//a.test/x b]", "https://a.test/x", "b"),
        (f"[{A}, b]", f"{A},", "b"),
        (f"[{A}''b'' c]", A, "''b'' c"),
        (f"[{A} [[b]] c]", A, "[[b]] c"),
        (f"[{A} http://b.test]", A, "http://b.test"),
        (f"[[{A} b]]", A, "b"),
        (f"[{A}<!-- c --> b]", A, "b"),
        (f"[{A} {{{{x|]}}}} b]", A, "{{x|]}} b"),
        (f"[{A}\u3000b]", A, "b"),
        (f"[{A}&lt;b c]", A, "&lt;b c"),
        (f"* [{A} \u05d0\u05d1 (\u200eb\u200e)]", A, "\u05d0\u05d1 (\u200eb\u200e)"),
    ],
)
def test_a_link_in_brackets_has_a_url_and_a_title(text: str, url: str, title: str) -> None:
    """The title may hold links to pages and templates; its first free bracket ends it."""
    citation = one(text)
    assert (citation.url, citation.title, citation.way) == (url, title, CitationForm.BRACKETS)


@pytest.mark.parametrize("tag", ["nowiki", "pre", "code", "syntaxhighlight", "source", "math"])
def test_code_holds_no_links(tag: str) -> None:
    """Text that is shown as it is typed is not meant as a link."""
    text = f"<{tag}>{A} [{A} b] {{{{cite web|url={A}}}}}</{tag}>"
    assert read(text) == ()
    assert read(text.upper().replace(tag.upper(), tag.title())) == ()


@pytest.mark.parametrize(
    "text",
    [
        f"<!-- {A} -->",
        f"<!-- {A}",
        f"<includeonly>{A}</includeonly>",
        f"<templatedata>{{{A}}}</templatedata>",
        f"x{A}",
        f"[[A|{A}]]",
        f"[[A]]{A}",
        f'<span title="{A}">b</span>',
        f'{{| style="{A}"\n| b\n|}}',
        f'{{|\n| style="x {A}" | b\n|}}',
        "//a.test/x",
        "www.a.test",
        "http://",
        "[http:// b]",
        f"[mailto:a@a.test b]{{{{urlencode:{A}}}}}",
        f"{{{{#tag:nowiki|{A}}}}}",
        f"{{{{foo|{A}?a=b}}}}",  # a parameter called "http://a.test/x?a"
        f"{{{{foo|x={A}|x=}}}}",  # the last of one name counts
        "",
    ],
)
def test_what_is_no_link_for_mediawiki_is_none(text: str) -> None:
    """Comments, attributes, labels of links to pages, names of parameters, and what only looks so."""
    assert read(text) == ()


@pytest.mark.parametrize(
    ("text", "way"),
    [
        (f"{{{{cite web|url={A}}}}}", CitationForm.CITATION),
        (f"{{{{Cite_web\n| url = {A}\n| title = b\n}}}}", CitationForm.CITATION),
        (f"{{{{Template:cite web|URL={A}}}}}", CitationForm.CITATION),
        (f"{{{{cite book|chapter-url={A}|title=b}}}}", CitationForm.CITATION),
        (f"{{{{subst:cite web|url={A}}}}}", CitationForm.CITATION),
        (f"{{{{<!-- c -->cite web<!-- d -->|<!-- e -->url<!-- f -->={A}<!-- g -->}}}}", CitationForm.CITATION),
        (f"{{{{infobox|website={A}}}}}", CitationForm.TEMPLATE),
        (f"{{{{infobox|{A}}}}}", CitationForm.TEMPLATE),
        (f"{{{{official website|{A}}}}}", CitationForm.TEMPLATE),
        (f"{{{{#invoke:Foo|bar|url={A}}}}}", CitationForm.TEMPLATE),
        (f"{{{{infobox|website=[{A} b]}}}}", CitationForm.BRACKETS),
        (f"{{{{infobox|website=see {A}}}}}", CitationForm.BARE),
        (f"{{{{cite web|quote={A}}}}}", CitationForm.TEMPLATE),
        (f"{{{{webarchive|url=https://web.archive.org/web/2015/{A}}}}}", CitationForm.ARCHIVE_TEMPLATE),
        (f"<gallery>\nFile:A.png|[{A} b]\n</gallery>", CitationForm.BRACKETS),
        (f"<references><ref name=a>{A}</ref></references>", CitationForm.BARE),
        (f"{{{{reflist|refs=<ref name=a>{{{{cite web|url={A}}}}}</ref>}}}}", CitationForm.CITATION),
        (f"{{{{#tag:ref|[{A} b]}}}}", CitationForm.BRACKETS),
        (f"{{{{#switch:x|a={A}|b=c}}}}", CitationForm.BARE),
    ],
)
def test_a_link_is_found_wherever_it_stands(text: str, way: CitationForm) -> None:
    """And it is told how it stands there."""
    citation = one(text)
    assert (citation.url, citation.way) == (A, way)


@pytest.mark.parametrize("depth", [1, 40, 90])
def test_templates_within_templates_are_read(depth: int) -> None:
    """As deep as MediaWiki expands them."""
    text = "{{a|x=" * depth + f"{{{{cite web|url={A}}}}}" + "}}" * depth
    assert urls(text) == [A]


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("{{cite web|url=http://a.test/{{PAGENAME}}/b}}", "http://a.test/{{PAGENAME}}/b"),
        ("{{cite web|url={{{url}}}}}", "{{{url}}}"),
        ("{{cite web|url=www.a.test}}", "www.a.test"),
        ("{{cite web|url=http://a.test/a b}}", "http://a.test/a b"),
        ("http://a.test/{{x}}", "http://a.test/"),
        ("[http://a.test/{{{1}}} b]", "http://a.test/"),
        ("http://nohost", "http://nohost"),
        ("http://a\u200b.test/", "http://a\u200b.test/"),
        ("http://https://a.test/", "http://https://a.test/"),
    ],
)
def test_a_url_that_nobody_can_know_or_fetch_is_malformed(text: str, url: str) -> None:
    """Templates make a part of it, or no host could be asked; it is told as it stands."""
    citation = one(text)
    assert (citation.url, citation.is_malformed) == (url, True)


def test_signs_that_templates_stand_for_are_signs() -> None:
    """``{{!}}`` and ``{{=}}`` are how a URL with a bar or an equals sign is written in a parameter."""
    text = "{{cite web|url=http://a.test/<!-- c -->?a{{=}}b{{!}}c|title=d}}"
    citation = one(text)
    assert (citation.url, citation.is_malformed) == ("http://a.test/?a=b|c", False)
    assert text[citation.url_span.start : citation.url_span.end].endswith("b{{!}}c")


def test_a_tag_directly_behind_a_url_is_no_part_of_it() -> None:
    """Nor makes it the URL unknown."""
    assert not one("http://a.test/x{{dead link}}").is_malformed
    assert not one("{{cite web|url=http://a.test/x{{dead link}}}}").is_malformed


def test_every_address_of_a_citation_is_a_link_of_its_own() -> None:
    """But the archive's, which belongs to the link it is of."""
    text = (
        "{{cite book|url=http://a.test/1|chapter-url=http://a.test/2|lay-url=http://a.test/3"
        "|quote=[http://a.test/4 b]|archive-url=https://web.archive.org/web/2015/http://a.test/1}}"
    )
    citations = read(text)
    assert [each.url for each in citations] == [f"http://a.test/{n}" for n in (1, 2, 3, 4)]
    assert [each.way for each in citations] == [
        CitationForm.CITATION,
        CitationForm.TEMPLATE,
        CitationForm.TEMPLATE,
        CitationForm.BRACKETS,
    ]
    assert {each.within for each in citations[3:]} == {"cite book"}


def test_an_unclosed_template_is_text() -> None:
    """Its content is read as MediaWiki shows it: a bare URL ends at the next space."""
    assert urls("{{cite web |url=http://a.test/x |title=b") == [A]
    assert urls("{{cite web |url=http://a.test/x |title=[[b}} {{cite web|url=http://b.test}}") == [A, "http://b.test"]


def test_a_template_that_supplies_the_scheme_makes_a_link() -> None:
    """``{{URL|example.org}}``, in an infobox, too."""
    citation = one("{{Infobox|website={{URL|a.test/x}}|b=c}}")
    assert (citation.url, citation.way, citation.address) == (A, CitationForm.TEMPLATE, A)
    assert read("{{URL|a b}} {{URL}} {{URL|x}}") == ()
