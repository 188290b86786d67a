"""The diagram of docs/reference/link-states.md draws what the rules do, and all of it."""

from itertools import product

from links.check_result import CheckMethod, CheckResult, CheckVerdict, StatusCode
from links.states import IABOT, MARKS, LinkHealth, LinkState, next_health
from scripts.link_state_diagram import picture
from scripts.link_states import edges

_RIPE = {LinkState.DYING: LinkHealth(LinkState.DYING, 9, 0, 90), LinkState.DEAD: LinkHealth(LinkState.DEAD, 9, 0, 90)}


def _led() -> set[tuple[LinkState, LinkState]]:
    """Return all changes of state (from, to) that a check by checker or browser can cause."""
    led = set()
    for state, verdict, how in product(LinkState, CheckVerdict, (CheckMethod.GET, CheckMethod.BROWSER)):
        for standing in (LinkHealth(state), _RIPE.get(state, LinkHealth(state))):
            new = next_health(standing, CheckResult(StatusCode.FINE, verdict, how), 99, IABOT, browser=False)
            led.add((state, new.state))
    return {(source, target) for source, target in led if source is not target}


def test_every_change_of_state_is_drawn_and_no_other() -> None:
    """The edges are those that `after` follows."""
    assert {(source, target) for source, target, _ in edges()} == _led()


def test_the_picture_has_every_state_and_no_transition_to_a_mark() -> None:
    """Marks are set by people: they are in the picture, and no check leads to them."""
    drawn = picture()
    for state in LinkState:
        assert f">{state.name}</text>" in drawn
    assert not {target for _, target, _ in edges()} & MARKS


def test_the_picture_describes_every_transition_in_words() -> None:
    """Its description, for those who cannot see it, has each pair of states."""
    drawn = picture()
    changed = {LinkState.USURPED, LinkState.DEVIATED}
    for source, target, _ in edges():
        assert f"{source.name} to {target.name}: " in drawn or {source, target} <= changed
