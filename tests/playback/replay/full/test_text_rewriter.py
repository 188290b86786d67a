"""Modules of full copies: what imports from where."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playback.replay.full.text_rewriter import (
    find_pywb_python,
    is_module,
    rewrite_dynamic_imports,
    rewrite_import_map,
    rewrite_module,
)
from tests.support.playback_fixtures import ROOT


def mark(url: str) -> str:
    """Mark what was rewritten."""
    return f"<{url}>"


@pytest.mark.parametrize(
    "text",
    ['import a from "./a.js"', 'import{a as b}from"./a.js";b()', "import * as x from '/x'",
     'import "./side.js"', "x();export{x as default}", "export default 1", "export const a=1",
     "/* c */\nexport * from './b'", "}import a,{b}from'./c'"],
)  # fmt: skip
def test_a_module_is_known_by_what_it_imports_or_exports(text: str) -> None:
    """Such a text is a syntax error anywhere else, so it must not be wrapped."""
    assert is_module(text)


@pytest.mark.parametrize(
    "text",
    ["import('./a.js')", "var important = 1", "exports.a = 1", "module.exports={}", "x.import(1)",
     "let s='we import goods'", "// import nothing", "imported(a)", "x = {export: 1}"],
)  # fmt: skip
def test_a_script_that_only_speaks_of_importing_is_none(text: str) -> None:
    """It is wrapped as pywb does."""
    assert not is_module(text)


@pytest.mark.parametrize(
    ("text", "made"),
    [('import a from "./a.js"', 'import a from "<./a.js>"'),
     ("import{a}from'/b.js';export*from'https://x.example/c.js'",
      "import{a}from'</b.js>';export*from'<https://x.example/c.js>'"),
     ('import "./s.js"', 'import "<./s.js>"'), ('import a from "react"', 'import a from "react"'),
     ("export const from='./a.js'", "export const from='./a.js'")],
)  # fmt: skip
def test_addresses_of_imports_are_rewritten_and_bare_names_are_not(text: str, made: str) -> None:
    """A bare name is the import map's to resolve (HTML, 8.1.6.2)."""
    assert rewrite_module(text, mark, "M") == made


def test_a_module_imports_our_names_for_those_that_pywb_wraps() -> None:
    """Unless it has such a name of its own; on the first line, so that line numbers stay."""
    text = "const top=1;export default window.location.href+top+self.x\nf()"

    made = rewrite_module(text, mark, "/m.js")

    assert made == f'import {{window,self}} from "/m.js";{text}'


def test_a_dynamic_import_asks_wombat() -> None:
    """A method of that name does not."""
    assert rewrite_dynamic_imports("import(x);a.import(y)", "null") == ("____wb_rewrite_import__(null,x);a.import(y)")


def test_an_import_map_leads_into_the_archive() -> None:
    """Keys that are addresses too, and scopes; nothing in it ends its script element."""
    text = '{"imports":{"a":"/a.js","/b":"./b.js","n":null},"scopes":{"/s/":{"a":"/</script>"}}}'

    made = rewrite_import_map(text, mark)

    assert "</script" not in made
    assert json.loads(made) == {
        "imports": {"a": "</a.js>", "</b>": "<./b.js>", "n": None},
        "scopes": {"</s/>": {"a": "</</script>>"}},
    }


@given(st.text())
def test_any_text_survives(text: str) -> None:
    """Any text is accepted, and a rewritten module contains its source unchanged."""
    assert isinstance(rewrite_import_map(text, mark), str)
    assert text in rewrite_module(text, str, "M")
    is_module(text)


@pytest.mark.parametrize("piece", ["import ", "import{a,", "export {", ";", "import a,", "let {", "import*"])
def test_a_long_hostile_script_is_read_in_time(piece: str) -> None:
    """No pattern takes time that grows with the square of a script (P-21)."""
    text = piece * (100_000 // len(piece))

    is_module(text)
    rewrite_module(text, mark, "M")


@pytest.mark.playback
def test_pywb_is_found_beside_the_project() -> None:
    """Nothing has to be set where `make setup-full` has run."""
    assert find_pywb_python() == ROOT / ".venv-replay" / "bin" / "python"
