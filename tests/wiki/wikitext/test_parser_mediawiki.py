"""Links found on a page, compared with those that a real MediaWiki reports.

Each case is parsed by both. Differences that are meant are in `MEANT`, with their reasons.
"""

import random
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from core.errors import BadUrlError
from core.urls import identity_key
from tests.support.sites.mediawiki import RunningWiki
from tests.wiki.wikitext.reading import read

pytestmark = pytest.mark.slow

H = "http://h.test/a"
MIXED = 60  # texts, one request each
T = "{{Cite page|url=http://h.test/a|title=b}}"

SAME = [
    # Where a bare URL begins and ends.
    *(f"{before}{H}" for before in ("", "(", "-", "x", "_", "1", "é", "猫", "~~", "'''", "[[A]]")),
    *(f"{H}{after}" for after in (",", ".", ";", ":", "?!", ")", "_(b)", "_(b))", "''b''", "'b")),
    *(f"{H}{after}" for after in ("[[b]]", "]b", '"b"', "<b>c</b>", "<br>", "{b}", "|b", "^b`c")),
    *(f"{H}{after}" for after in ("\u3000b", "\u00a0b", "\u2003b", "\u200eb", "\u2028b", "\ufffdb")),
    *(f"{H}{after}" for after in ("&lt;b", "&gt;", "&nbsp;b", "&#160;b", "&#xa0;b", "&#x3C;b")),
    *(f"{H}?b{after}" for after in ("&amp;", "&amp;c", "&copy=d", "&copy;=d", "&#97;", "&eacute;")),
    *(f"{H}{after}" for after in ("\nb", "\r\nb", "<!--c-->b", "<!--", "<nowiki/>b", "{{!}}b")),
    *("HTTP://h.test/A", "//h.test/a", "https://h.test", "http://h.test:8080/", "http://", "http://."),
    *("http://[2001:db8::1]/a", "http://münchen.test/a", "http://h.test/猫。", "http://h.test/ä"),
    *("http://h\u200b.test/a", "http://h\u00ad.test/a", "http://h.test/\u202ea", "http://h.test/\u0627 \u0628"),
    *("http://h.test/%zz", "http://h.test/%20b", "http://U:P@h.test/a", f"{H}#b", "http://h.test/#!/a"),
    *("http:/h.test/a", "http:h.test", "http//h.test", "www.h.test", "http://http://h.test/a"),
    *("ftp://h.test/a", "RFC 1234 http://h.test/a", f"{H}/../b", f"{H}-b", "http://h.test/''"),
    *(f"]]{H}", f"{H}</includeonly>b", f"{H}&lt;http://h.test/b", f"{H}<ref>http://h.test/b", f"{H}''''b"),
    *(f"{H}&nbsp;#http://h.test/b", f"{H}''http://h.test/b", f"[[File:A.png|thumb|{H}|b", f"{H},http://h.test/b"),
    # Brackets.
    *(f"[{H}{after}]" for after in ("", " b", "  b c", "\tb", "''b'' c", "&lt;b c", "&amp;b c", ",")),
    *(f"[{H}{after}]" for after in (" <b>c</b>", "<b>c</b>", " [[b]] c", " [b] c", "|b", "_(b) c")),
    *(f"[{H}{after}]" for after in ("\u3000b", " http://h.test/b", " [http://h.test/b c]", "\nb")),
    *(f"[{H} b", f"[{H} b\nc]", f"[ {H} b]", f"[[{H} b]]", f"[[{H}]]", f"[{H})", f"[{H} b]c]"),
    *("[//h.test/a]", "[//h.test/a b]", "[http://]", "[ftp://h.test/a b]", "[http://[2001:db8::1]/ b]"),
    *(f"[{H}<!-- x -->b c]", "[http<!-- x -->://h.test/a b]", f"[{H} <!-- ] --> b]", f"''[{H} b]''"),
    # Links to pages: what is in their labels, and what is not one.
    *(f"[[A|b\n{H} c]]", f"[[A|[{H} b] c]]", f"[[A|b [{H}]]]", f"[[A {H}]]", f"[[A#b|{H}]]", f"[[A<|{H}]]"),
    *(f"[[A|{H} [[B]] c]]", f"[[A|b\n* {H}\n* [[B]]", f"[[|{H}]]", f"[[A~~~|{H}]]", f"[[[A|{H}]]]", f"[[[[A|{H}]]"),
    *(f"[[]]{H}", f"[[File:A.png]]{H}", f"[[File:A.png|thumb|b]]{H}", f"[[Category:A]]{H}", f"[[Category]]{H}", f"[[A|]]{H}", f"[[:File:A.png]]{H}"),
    *("[[A]]HTTP://h.test/a", f"[[A|b]]{H}", f"[[File:A.png|thumb|b [[C]] [{H} d]]]", f"[[File:A.png|thumb|b\n{H}]]"),
    # Tags without an end, and URLs that another scheme takes in.
    *(f'<span title="b {H}', f"<b {H} <i>c</i>", f"<b/{H}", f"{H}<pre>http://h.test/b", f"{H}<b http://h.test/b"),
    *(f"amailto:{H}", f"mailto: {H}", f"irc:{H}", f"{H}&#x3c;b"),
    # What is not wikitext.
    *(f"<nowiki>{H}</nowiki>", f"<nowiki>{H}", f"<pre>{H}</pre>", f"<pre>{H}", f"<!-- {H} -->"),
    *(f"<!-- {H}", f"<NOWIKI>{H}</NoWiki >", f"<nowiki {H}>b</nowiki>", f"<!-- <nowiki> -->{H}"),
    *(f"<nowiki><!-- </nowiki>{H}<!-- -->", f" {H}", f"<kbd>{H}</kbd>", f"<tt>[{H} b]</tt>"),
    *(f'<span title="{H}">b</span>', f'<foo title="{H}">b</foo>', f'<a href="{H}">b</a>', f"<br />{H}"),
    *(f"<poem>{H}</poem>", f"<blockquote>{H}</blockquote>", f"<noinclude>{H}</noinclude>", f"<b>{H}</b>"),
    *(f"<includeonly>{H}</includeonly>", f"<onlyinclude>{H}</onlyinclude>", f"<includeonly>{H}"),
    *(f"{H}<includeonly>b</includeonly>c", f"<noinclude>{H}", f"-{{{H}}}-", f"----{H}"),
    # References.
    *(f"<ref>{H}</ref>", f"<ref name=x>[{H} b]</ref>", f'<ref name="x" />{H}', f"<ref>{H}", f"<REF>{H}</REF>"),
    *(f"<ref>{T}</ref>", f"<ref group=n>{H}</ref><references group=n/>", f"<references/>{H}"),
    f"<ref name=q />\n<references>\n<ref name=q>{H}</ref>\n</references>",
    # Templates.
    *(T, T.replace("Cite page", "cite_page"), T.replace("Cite page", "Template:Cite page")),
    *("{{ Cite page\n| url = http://h.test/a\n| title = b\n}}", "{{Cite page|http://h.test/?a=b|title=x}}"),
    *("{{Cite page|url=http://h.test/a?b=c&d=e|title=b}}", "{{Cite page|title=b|url=http://h.test/x|url=}}"),
    *("{{Cite page|url=http://h.test/a{{!}}b|title=b}}", "{{Cite page|url=http://h.test/a{{=}}b|title=b}}"),
    *("{{Cite page|url=<!-- c -->http://h.test/<!-- d -->a|title=b}}", T[:-2], T[:-1], f"{T}}}"),
    *(T.replace("=b", "=[[b"), T.replace("=b", "=[[b|c]]"), T.replace("=b", "=<nowiki>}}</nowiki>")),
    *(T.replace("=b", "=<!-- }} -->b"), T.replace("=b", "=x<ref>}}</ref>"), T.replace("=b", "=a=b")),
    *(f"{{{{{{x|{H}}}}}}}", f"{{{{{{x|[{H} b]}}}}}}", f"{{{{{{x|{T}}}}}}}", T.replace("url=", "url\n=")),
    *(T.replace("|url", "|\n== x ==\n|url"), T.replace("|url", "\n=url"), f"{H}{{{{Nope}}}}"),
    *(f"{{{{#if:x|{H}}}}}", f"{{{{#if:x|{H}?q=a}}}}", f"{{{{#ifeq:a|a|{H}}}}}", f"{{{{#tag:ref|{H}}}}}"),
    *(f"{{{{#switch:a|a={H}|b=c}}}}", f"{{{{#tag:nowiki|{H}}}}}", f"{{{{lc:{H}}}}}", f"{{{{formatnum:{H}}}}}"),
    *(f"{{{{urlencode:{H}}}}}", f"{{{{fullurl:{H}}}}}", f"{{{{DEFAULTSORT:{H}}}}}", f"{{{{DISPLAYTITLE:{H}}}}}"),
    f"{{{{Article|title=T|source={H}|sections=1|paragraphs=2}}}}",
    # Tables, pictures, lists, headings.
    f'{{| class="wikitable"\n! {H} !! http://h.test/b\n|-\n| http://h.test/c || [http://h.test/d e]\n|}}',
    *(f"{{|\n|{H}||b\n|}}", f"{{|\n|{H}|b\n|}}", f"{{|\n! {H}!!b\n|}}", f"{{|\n|+ {H}\n|-\n| b\n|}}"),
    *(f'{{| style="{H}"\n| b\n|}}', f'{{|\n|- style="{H}"\n| b\n|}}', f'{{|\n! scope="row" | {H}\n|}}'),
    *(f'{{|\n| style="x {H}" | b\n|}}', f'{{|\n| x="{H}"\n|}}', f'{{|\n| <a href="{H}">b</a> || c\n|}}'),
    *(f"[[File:A.png|thumb|{H}]]", f"[[File:A.png|thumb|[{H} b]]]", f"[[File:A.png|link={H}|b]]"),
    *(f"[[File:A.png|thumb|x {T}]]", f"[[A|{H}]]", f"[[:File:A.png|{H}]]", f"[[Category:A|{H}]]"),
    *(f"[[{H}|b]]", f"[[A {H}", f"[[A|b {H} c]] d", f"<gallery>\nFile:A.png|{H}\n</gallery>"),
    *(f"* {H}\n# [{H}b c]\n: {H}d\n; {H}e : {H}f", f";{H}:b", f"== {H} ==", f"== [{H} b] ==", f"={H}="),
    *(f"<indicator name=x>{H}</indicator>", f"__NOTOC__ {H}", f"[https://web.archive.org/web/2015/{H} b]"),
]  # fmt: skip

# What stands together: pieces that change nothing for what follows them, in what may be around them.
WITHIN = [
    *("{}", "* {}", "<ref>{}</ref>", "{{|\n| a || {}\n|}}", "''{}'' b", "<div>\n{}\n</div>", "== {} =="),
    *("[[File:A.png|thumb|{}]]", "<small>{}</small>", "[[A|b]]: {}", "{{{{#if:x|{}}}}}"),
]  # fmt: skip
UNSETTLING = ("|", "{b}", "''''", "<ref", "[[Category", "[http://h.test/a)", "=http", "{{!}}")

# What we find and MediaWiki does not, or the other way round: (text, only ours, only MediaWiki's).
MEANT = {
    "code is not meant as a link (B03)": (f"<code>{H}</code>", [], [H]),
    "a tag of an extension that this wiki lacks": (f"<source>{H}</source>", [], [H]),
    "the same for formulas": (f"<math>{H}</math>", [], [H]),
    "a template that this wiki lacks": (f"{{{{Nope|url={H}}}}}", [H], []),
    "a parameter that the template does not show": (f"{{{{Cite page|quote={H}|title=b}}}}", [H], []),
    "both ways of a condition": (f"{{{{#if:x|{H}|{H}b}}}}", [f"{H}b"], []),
    "a URL that a template makes (malformed)": (
        "http://h.test/{{PAGENAME}}",
        ["http://h.test/"],
        ["http://h.test/Sandbox"],
    ),
    "substitution, which is done before a page is kept": (f"{{{{padleft:{H}|3}}}}", [], [H]),
    "only http, https and ftp": ("[mailto:a@h.test b] [irc://h.test/a b]", [], ["mailto:a@h.test", "irc://h.test/a"]),
    "what they take in": (f"mailto:{H} svn://b,{H}", [], [f"mailto:{H}", f"svn://b,{H}"]),
    "a picture's parameters that are no caption": (f"[[Image:A.png|{H}|b]]", [H], []),
    "four braces are an argument that is not given": (f"{{{{{T}}}}}", [H], [f"{H}%7D"]),
    "a switch directly in front of a URL": (f"__NOTOC__{H}", [], [H]),
}  # fmt: skip


def test_what_is_found_is_what_mediawiki_links_to(wiki: RunningWiki) -> None:
    """The same set of URLs, for each of some two hundred and fifty ways to write them."""
    wrong = {}
    for text, theirs in zip(SAME, _links(wiki, SAME), strict=True):
        ours = {_same(citation.address) for citation in read(text)}
        if ours != theirs:
            wrong[text] = (ours, theirs)
    assert wrong == {}
    assert len(SAME) > 190


def test_links_that_stand_together_are_found_as_mediawiki_finds_them(wiki: RunningWiki) -> None:
    """Pieces put together by chance, always the same: what is beside a link changes it for both alike."""
    chance = random.Random(7)
    pool = [each for each in SAME if not any(sign in each for sign in UNSETTLING)]
    texts = []
    for _ in range(MIXED):
        count = chance.choice((1, 2, 3))
        pieces = [chance.choice(pool).replace("//h.", f"//h{i}.") for i in range(count)]
        text = chance.choice((" ", "\n", "\n\n", ", ")).join(pieces)
        texts.append(chance.choice(WITHIN).format(text))
    wrong = {}
    for text, theirs in zip(texts, _links(wiki, texts), strict=True):
        ours = {_same(citation.address) for citation in read(text)}
        if ours != theirs:
            wrong[text] = (ours - theirs, theirs - ours)
    assert wrong == {}


def test_where_both_differ_it_is_meant(wiki: RunningWiki) -> None:
    """The differences that are known, each with its reason: no more, and no less."""
    texts = [text for text, _, _ in MEANT.values()]
    for (why, (text, only_ours, only_theirs)), theirs in zip(MEANT.items(), _links(wiki, texts), strict=True):
        ours = {_same(citation.address) for citation in read(text)}
        assert ours - theirs == set(map(_same, only_ours)), why
        assert theirs - ours == set(map(_same, only_theirs)), why


def test_the_articles_of_the_test_wiki_are_read_as_mediawiki_reads_them(wiki: RunningWiki) -> None:
    """Real prose, with tables, citations and pictures: the links that the page itself shows."""
    count = 0
    with httpx.Client(timeout=120) as client:
        for title in wiki.titles:
            page = client.get(
                wiki.api(),
                params={
                    "action": "parse",
                    "page": title,
                    "prop": "externallinks|wikitext",
                    "format": "json",
                    "formatversion": "2",
                },
            ).json()["parse"]
            text = page["wikitext"]
            theirs = set(map(_same, page["externallinks"]))
            assert {_same(each.address) for each in read(text)} == theirs, title
            count += len(theirs)
    assert count > 20


def _links(wiki: RunningWiki, texts: list[str]) -> list[set[str]]:
    with httpx.Client(timeout=120) as client:

        def ask(text: str) -> set[str]:
            document = client.post(
                wiki.api(),
                data={
                    "action": "parse",
                    "title": "Sandbox",
                    "contentmodel": "wikitext",
                    "text": text,
                    "prop": "externallinks",
                    "format": "json",
                    "formatversion": "2",
                },
            ).json()
            return set(map(_same, document["parse"]["externallinks"]))

        with ThreadPoolExecutor(4) as several:
            return list(several.map(ask, texts))


def _same(url: str) -> str:
    """Return a URL without the differences in spelling between MediaWiki and our parser."""
    url = f"https:{url}" if url.startswith("//") else url
    try:
        return identity_key(url)
    except BadUrlError:
        return url.translate({0x200B: None, 0xAD: None, 0x202E: "%E2%80%AE", 0x200E: "%E2%80%8E"})
