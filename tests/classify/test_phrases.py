"""Tests of the phrases of `classify.evidence`."""

import re
from pathlib import Path

import re2

from classify import evidence

_CALL = re.compile(r'(?:entries|expressions?)\(\s*"(\w+)", "(\w+)"')
_SECTION = re.compile(r'(\w+) = PhraseExpressions\("(\w+)"\)')


def test_every_entry_is_read_by_a_module() -> None:
    """The file holds nothing that no judge looks for, and judges look for nothing else."""
    sources = [path.read_text("utf-8") for path in Path(evidence.__file__).parent.glob("*.py")]
    used = {match.groups() for source in sources for match in _CALL.finditer(source)}
    for source in sources:
        for variable, section in _SECTION.findall(source):
            used |= {(section, name) for name in re.findall(rf"\b{variable}\.(\w+)", source)}

    assert used == {(section, name) for section, table in evidence._document().items() for name in table}


def test_each_line_of_a_text_is_an_expression() -> None:
    """A line can be moved or taken out alone: no group begins in one and ends in another."""
    for section, table in evidence._document().items():
        for name in (name for name, value in table.items() if isinstance(value, str)):
            for line in evidence.expressions(section, name):
                assert line == line.strip()
                assert line
                (re if "\\u" in line else re2).compile(line.replace("{names}", "x"))


def test_indented_lines_continue_an_expression() -> None:
    """A long expression is written on several lines; the space after the indent belongs to it."""
    first = evidence.expressions("soft_404", "names")[0]

    assert "\n" not in first
    assert re.fullmatch(first, "the page you requested could not be found")
