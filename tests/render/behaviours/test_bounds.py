"""No page makes its behaviours cost more than their limit, or lose what was there."""

from pathlib import Path

import pytest

from core.page_manifest import VisitOutcome
from render.behaviours.catalog import NAMES
from tests.render.behaviours.conftest import Act

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_what_a_page_redefines_is_not_what_behaviours_use(act: Act) -> None:
    """Getters that throw, elements named like methods: every behaviour comes to its end."""
    acted = await act("traps.html", *NAMES)

    assert [done.name for done in acted.visit.behaviours if done.error] == []
    assert acted.done["scroll"].done >= 4
    assert acted.done["details"].done == 1


async def test_a_page_without_anything_to_do_is_left_as_it_is(act: Act) -> None:
    """Every behaviour ends without acting, so nothing is waited for afterwards."""
    acted = await act("user.html", *NAMES)

    assert {done.name for done in acted.visit.behaviours if done.done} == set()
    assert len(acted.visit.behaviours) == len(NAMES)


async def test_details_without_number_are_opened_up_to_a_bound(act: Act) -> None:
    """A count that no page of a reader has is cut."""
    acted = await act("many-details.html", "details")

    assert acted.done["details"].done == 1_000


async def test_a_loop_in_a_listener_costs_the_limit_and_is_ended(act: Act) -> None:
    """The behaviour is given up, and the page is still kept."""
    acted = await act("looping.html", "scroll", "details", limit_s=0.5)

    assert acted.done["scroll"].error == "did not end"
    assert acted.done.keys() == {"scroll"}
    assert {str(artifact.kind) for artifact in acted.visit.artifacts} >= {"dom", "text"}


async def test_dialogs_without_end_cost_the_limit_and_are_ended(act: Act) -> None:
    """Each is dismissed, and then the script that opens them is stopped."""
    acted = await act("dialogs.html", "expand", limit_s=0.5)

    assert acted.done["expand"].error == "did not end"
    assert {str(artifact.kind) for artifact in acted.visit.artifacts} >= {"dom", "text"}


async def test_growth_without_end_is_left_at_the_limit(act: Act) -> None:
    """A page that grows with every look is left when the time for all behaviours is used up."""
    acted = await act("growing.html", "scroll", limit_s=1.0, scroll_rounds=10_000, scroll_px=10**9)

    assert acted.visit.outcome is VisitOutcome.COMPLETE
    assert acted.done["scroll"].done > 0


async def test_a_users_script_runs_on_the_hosts_that_it_names(act: Act, tmp_path: Path) -> None:
    """It has the same tools, after the profile's behaviours; elsewhere it does not run."""
    here, elsewhere = tmp_path / "here.js", tmp_path / "elsewhere.js"
    text = "async (options, tools) => {\n  tools.press(tools.find('#go')[0]);\n"
    text += "  return { found: 1, done: 1, again: true, notes: ['pressed'] };\n};\n"
    here.write_text("// hosts: a.example, 127.0.0.1\n" + text, encoding="utf-8")
    elsewhere.write_text("// hosts: *.example\n" + text, encoding="utf-8")

    acted = await act("user.html", scripts=(str(here), str(elsewhere)))

    assert acted.done.keys() == {"here"}
    assert acted.done["here"].notes == ("pressed",)
    assert "by-user" in acted.requested


async def test_a_users_script_that_fails_is_told_and_ends_nothing(act: Act, tmp_path: Path) -> None:
    """Its error is in the answer; the visit is complete."""
    script = tmp_path / "wrong.js"
    script.write_text("// hosts: *\n() => { throw new Error('so it is'); }", encoding="utf-8")

    acted = await act("user.html", scripts=(str(script),))

    assert "so it is" in acted.done["wrong"].error
    assert acted.visit.outcome is VisitOutcome.COMPLETE
