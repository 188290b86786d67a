"""Pages of wikitext made by chance: well-formed ones, broken ones, and plain garbage."""

from hypothesis import strategies as st

_URLS = st.sampled_from(
    [
        "http://a.test/x",
        "https://b.test/?q=1&amp;r=2",
        "http://c.test/a_(b)",
        "https://web.archive.org/web/20150102030405/http://d.test/",
        "https://archive.today/2015/http://e.test/é",
        "//f.test/",
        "http://g.test/<!-- c -->h",
        "http://xn--mnchen-3ya.test/",
        "http://i.test/{{PAGENAME}}",
        "ftp://j.test/",
        "http://k.test:8o8o/",
    ]
)
_WORDS = st.text(alphabet="ab cd.,é猫\u200e\u05d0'=\n*#:;", max_size=12)
_PIECES = st.sampled_from(
    [
        *("{{", "}}", "{{{", "}}}", "[[", "]]", "[", "]", "|", "=", "\n", "''", "<", ">", "&", " "),
        *("<ref>", "</ref>", "<ref name=a />", "<nowiki>", "</nowiki>", "<!--", "-->", "<pre>"),
        *("</pre>", "<code>", "</code>", "<gallery>", "</gallery>", "{|", "|}", "||", "\n|-\n"),
        *("cite web", "dead link", "webarchive", "url", "title", "archive-url", "http://", "//"),
        *("{{!}}", "{{=}}", "{{dead link}}", "{{cbignore}}", "{{#if:", "{{URL|", "<includeonly>"),
        *("\x00", "\x7f", "\ufffd", "\u3000", "\ud800", "&lt;", "\n==", "File:", "<span title="),
    ]
)


@st.composite
def _template(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    name = draw(st.sampled_from(["cite web", "Cite_news", "Internetquelle", "webarchive", "x", "URL"]))
    parts = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["url=", "title=", "archive-url=", "access-date=", "url-status=", "", "x = "]), inner
            ),
            max_size=4,
        )
    )
    space = draw(st.sampled_from(["", " ", "\n"]))
    return "{{" + name + "".join(f"{space}|{key}{value}" for key, value in parts) + space + "}}"


def _nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        _template(inner),
        st.builds("[{} {}]".format, _URLS, inner),
        st.builds("<ref>{}</ref>".format, inner),
        st.builds("[[File:A.png|thumb|{}]]".format, inner),
        st.builds("* {}\n".format, inner),
        st.builds("<nowiki>{}</nowiki>".format, inner),
        st.builds("<!-- {} -->".format, _WORDS),
        st.lists(inner, max_size=4).map("".join),
    )


pages = st.recursive(st.one_of(_URLS, _WORDS, _PIECES), _nested, max_leaves=25)
garbage = st.lists(st.one_of(_PIECES, _PIECES, _URLS, st.text(max_size=4)), max_size=60).map("".join)
