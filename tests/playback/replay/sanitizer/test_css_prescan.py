"""Plain rules are read without a parser; the parser says the same of every sheet (P-13)."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.examples import examples

pytestmark = pytest.mark.playback

Call = Callable[[str, list[object]], Any]

_WORDS = st.sampled_from(
    ["p", ".a", "#b", "a:hover", "p::before", "*", "div > b", "i+b", "u+a", "U+26", "a~b", "a, b", "[x='}']",
     ":not(.c)", "@media x", "@import", "@layer a;", "{", "}", "{ color : red ; }", "{margin:0 auto}",
     "{position:fixed}", "{POSITION: Fixed!important}", "{color:#ABC;color:#12e}", "{x:1e3px}",
     "{width:1ex;top:-.5em}", "{cursor:pointer;cursor:url(x)}", "{font:italic 1em/1.5 a,b}", "{--a:b}",
     "{background:url(a;b.png)}", "{content:'}'}", "{a:b !important}", "{color:red !important }",
     "{color:red!IMPORTANT}", "{margin:1px  2px}", "{margin:1px,2px, 3px}", "/* } */", "/*", "*/", "'", '"',
     "(", ")", "[", "]", ";", ":", " ", "\n", "\t", "\r\n", "\f", "\\", "\x00", "<!--", "-->", "color:red",
     "{color:rgba(0, 0,0,.5);x:y}", "{background:#fff url(a/b.png?c) no-repeat}", "{--Ab:var(--c);--d:1px}",
     "{background:url('x.png'),url(#a)}", "{mask:URL(x)}", "{color:rgb(1 2 3)}", "{cursor:url(x.cur),auto}",
     "{position:var(--p)}", "{color:var(--x)var(--y)}", "{background:url(x)url(y)}", "{a:b(c)}",
     "{color:-a--b;z-index:-1}", "{margin:1.;padding:.5.5}", "{a b:c}", "{:c}", "{color:}", "é", "{color:é}",
     "url(", "url(x", "URL(a'b)", "{p{color:red}}", "{&:hover{color:red}}", "1e3", "-", "--", "_x", "-x"]
)  # fmt: skip


@settings(max_examples=examples(200))
@given(st.lists(_WORDS, max_size=10).map("".join))
@example("p{color:red}a{b:url(}x{color:red}")
@example("p{color:red}[x{color:red}")
@example("p{color:red};a{color:red}")
@example("@import 'x';p{color:red}")
@example("u+a{color:red}")
def test_what_is_read_quickly_is_what_the_parser_reads(in_replay: Call, css: str) -> None:
    """Sheets and style attributes, however broken."""
    quick, parsed = in_replay("style_both", [css])

    assert quick == parsed


@settings(max_examples=examples(150))
@given(
    st.lists(
        st.one_of(
            st.sampled_from(["color", "position", "MARGIN", "x", "-webkit-mask", "font-family", "cursor"]),
            st.sampled_from([":", ";", " ", "!important", ",", "-", ".", "#", "%", "\n", "(", "url(x)"]),
            st.sampled_from(["url(a.png)", "url('b?c')", "rgba(1,2,3,.4)", "var(--x)", "--y", "url(", "rgb("]),
            st.text("0123456789abcdefpxeEu%#.-+ ,", max_size=6),
        ),
        max_size=10,
    ).map("".join)
)
def test_declarations_read_quickly_are_what_the_parser_reads(in_replay: Call, css: str) -> None:
    """Numbers, units, colours and names in every order."""
    quick, parsed = in_replay("declarations_both", [css])

    assert quick == parsed
