"""The tree of a page's wikitext follows MediaWiki's preprocessor."""

import pytest

from wiki.wikitext.parser import NodeKind, WikitextNode, parse


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("{{a|b=c|d}}", "T(a,b=c,d)"),
        ("{{{a|b}}}", "A(a,b)"),
        ("{{{{a}}}}", "A(a)"),  # three before two
        ("{{{{{a}}}}}", "T(A(a))"),
        ("{{{{{a}}}|b}}", "T(A(a),b)"),
        ("{{a|{{b|c}}|d}}", "T(a,T(b,c),d)"),
        ("{{a|[[b|c]]|d}}", "T(a,[[b|c]],d)"),
        ("{{a|[[b|c|d}}", ""),  # an open link hides what would close the template
        ("{{a|[[b|{{c}}", "T(c)"),
        ("{{a|{{b}}", "T(b)"),
        ("{{a}}}", "T(a)"),
        ("{{a|<nowiki>}}</nowiki>|b}}", "T(a,V,b)"),
        ("{{a|<!-- }} -->|b}}", "T(a,-,b)"),
        ("{{a|<ref>}}{{b}}</ref>|c}}", "T(a,C(T(b)),c)"),
        ("{{a|\n== b | c\n|d}}", "T(a,\n== b | c\n,d)"),  # a heading's line hides a bar
        ("{{a|\n== b\n== c | d\n|e}}", "T(a,\n== b\n== c | d\n,e)"),
        ("{{a\n|b\n=c}}", "T(a\n,b\n=c)"),  # a single sign at a line's start is the parameter's
        ("=={{a|b}}\n{{c|d}}", "T(a,b) T(c,d)"),
        ("<nowiki>{{a}}", "T(a)"),  # a tag without its end is text
        ("<nowiki/>{{a}}", "V T(a)"),
        ("<includeonly>{{a}}</includeonly>{{b}}", "- T(b)"),
        ("<noinclude>{{a}}</noinclude>", "- T(a) -"),
        ("<ref name=<a>{{b}}</ref>", "C(T(b))"),
        ("<ref>{{a}}<ref>{{b}}</ref>", "C(T(a) T(b))"),
        ("<!-- {{a}}", "-"),
    ],
)
def test_what_closes_what(text: str, tree: str) -> None:
    """Braces, links, headings, tags and comments."""
    assert shown(text, parse(text).children) == tree


def shown(text: str, nodes: list[WikitextNode]) -> str:
    """Return nodes as a line: T a template, A an argument, C and V tags, - what vanishes."""
    return " ".join(_shown(text, node) for node in nodes)


def _shown(text: str, node: WikitextNode) -> str:
    if node.kind in (NodeKind.TEMPLATE, NodeKind.ARGUMENT):
        sign = "T" if node.kind is NodeKind.TEMPLATE else "A"
        parts = (shown(text, part.children) if part.children else text[part.start : part.end] for part in node.parts)
        return f"{sign}({','.join(parts)})"
    if node.kind is NodeKind.CONTENT:
        return f"C({shown(text, node.children)})"
    return "V" if node.kind is NodeKind.VERBATIM else "-"
