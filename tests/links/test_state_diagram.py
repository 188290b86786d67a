"""The diagram of docs/reference/link-states.md draws what the rules do, and all of it."""

from itertools import product

from links.check_result import CheckMethod, CheckResult, CheckVerdict, StatusCode
from links.states import IABOT, MARKS, LinkHealth, LinkState, next_health
from scripts.link_states import edges, page

_RIPE = {
    LinkState.DYING: LinkHealth(LinkState.DYING, 9, 0, 90),
    LinkState.DEAD: LinkHealth(LinkState.DEAD, 9, 0, 90),
}


def _led() -> set[tuple[LinkState, LinkState]]:
    """From which state to which any look by checker or browser leads."""
    led = set()
    for state, verdict, how in product(
        LinkState, CheckVerdict, (CheckMethod.GET, CheckMethod.BROWSER)
    ):
        for standing in (LinkHealth(state), _RIPE.get(state, LinkHealth(state))):
            new = next_health(
                standing, CheckResult(StatusCode.FINE, verdict, how), 99, IABOT, browser=False
            )
            led.add((state, new.state))
    return {(source, target) for source, target in led if source is not target}


def test_every_change_of_state_is_drawn_and_no_other() -> None:
    """The edges are those that `after` follows."""
    assert {(source, target) for source, target, _ in edges()} == _led()


def test_marks_are_drawn_as_peoples() -> None:
    """No look leads to what people decide."""
    drawn = page()
    for mark in MARKS:
        assert f"[*] --> {mark.name}: people" in drawn
    assert not {target for _, target, _ in edges()} & MARKS
