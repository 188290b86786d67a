"""Every finding of `weboid doctor` and `weboid wiki check` is explained in docs/troubleshooting.md."""

import ast
import re
from pathlib import Path

import pytest

from weboid.app import setup_check
from weboid.app.setup_check import SetupHealth, bad, good, unset, warn
from weboid.app.wiki import wiki_setup_check

PAGE = Path(__file__).resolve().parents[2] / "docs" / "troubleshooting.md"
MAKERS = {"good", "warn", "bad", "unset", "SetupFinding"}


def sections() -> set[str]:
    """Return the page's headings of findings."""
    return set(re.findall(r"^### (.+)$", PAGE.read_text(), re.MULTILINE))


def subjects(module: object) -> set[str]:
    """Return the subjects of all findings that a module makes."""
    tree = ast.parse(Path(str(getattr(module, "__file__", ""))).read_text())
    calls = [each for each in ast.walk(tree) if isinstance(each, ast.Call) and each.args]
    named = [each.args[0] for each in calls if isinstance(each.func, ast.Name) and each.func.id in MAKERS]
    # Shared stores are listed with their subjects, then checked alike.
    listed = (each.args[0] for each in calls if ast.unparse(each.func) == "stores.append")
    named += [each.elts[0] for each in listed if isinstance(each, ast.Tuple)]
    return {each.value for each in named if isinstance(each, ast.Constant)}  # type: ignore[misc]


def test_each_finding_has_a_section_and_no_section_is_without_one() -> None:
    """By the subject that the finding names."""
    made = subjects(setup_check) | subjects(wiki_setup_check)

    assert {"browser", "sandbox", "webhook"} <= made
    assert made == sections()


@pytest.mark.parametrize("make", [warn, bad])
def test_a_problem_names_its_section(make: type) -> None:
    """As the address of its anchor in the documentation."""
    assert make("level full", "text", "remedy").see == "docs/troubleshooting.md#level-full"


def test_a_finding_in_order_names_none() -> None:
    """Nor does one that is not needed."""
    assert {good("disk", "text").see, unset("disk", "text").see} == {""}
    assert {good("disk", "").health, unset("disk", "").health} == {SetupHealth.GOOD, SetupHealth.UNSET}
