"""States: what each look makes of where a link stands, by each preset."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ConfigError, InvariantError
from links import states
from links.check_result import CheckMethod, CheckResult, CheckVerdict, StatusCode
from links.states import (
    DEFAULT,
    DEWIKI,
    IABOT,
    MARKS,
    PRESETS,
    TRANSITIONS,
    CheckPreset,
    FailureProof,
    LinkHealth,
    LinkState,
    may_infer,
    needs_browser,
    next_health,
    preset_of,
)

_CODES = {
    CheckVerdict.OK: StatusCode.FINE,
    CheckVerdict.GONE: StatusCode.NOT_FOUND,
    CheckVerdict.FAILING: StatusCode.BAD_GATEWAY,
    CheckVerdict.REFUSED: StatusCode.NO_ACCESS,
    CheckVerdict.UNDECIDED: StatusCode.TOO_MANY,
    CheckVerdict.SUSPECT: StatusCode.TO_THE_ROOT,
    CheckVerdict.DEVIATED: StatusCode.OTHER_CONTENT,
    CheckVerdict.USURPED: StatusCode.PARKED,
    CheckVerdict.INVALID: StatusCode.INVALID,
}
_ALIVE = LinkHealth(LinkState.ALIVE)
_OPEN = [LinkState.UNKNOWN, LinkState.ALIVE, LinkState.DYING, LinkState.DEAD, LinkState.BLOCKED]
_SEEN = [LinkState.USURPED, LinkState.DEVIATED]


def _result(verdict: CheckVerdict, how: CheckMethod = CheckMethod.GET, *, wide: bool = False) -> CheckResult:
    return CheckResult(_CODES[verdict], verdict, how, whole_host=wide)


def _through(
    looks: list[tuple[int, CheckResult]],
    preset: CheckPreset = DEFAULT,
    *,
    browser: bool = False,
    start: LinkHealth = _ALIVE,
) -> LinkHealth:
    standing = start
    for day, finding in looks:
        standing = next_health(standing, finding, day, preset, browser=browser)
    return standing


def _every(
    verdict: CheckVerdict, days: int, until: int, how: CheckMethod = CheckMethod.GET
) -> list[tuple[int, CheckResult]]:
    return [(day, _result(verdict, how)) for day in range(0, until + 1, days)]


def _standing(state: LinkState) -> LinkHealth:
    fails = 2 if state is LinkState.DYING else 5 if state is LinkState.DEAD else 0
    return LinkHealth(state, fails, 0 if fails else None, 6 if fails else None, FailureProof.NONE)


# The table


def test_there_is_a_rule_for_every_state_and_verdict() -> None:
    """Nothing that a look can say of a link is without an answer."""
    assert set(TRANSITIONS) == {(state, verdict) for state in LinkState for verdict in CheckVerdict}


def test_a_pair_without_a_rule_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """A state or a verdict that the table does not know raises."""
    monkeypatch.setattr(states, "TRANSITIONS", {})
    with pytest.raises(InvariantError):
        next_health(LinkHealth(), _result(CheckVerdict.OK), 1, DEFAULT, browser=True)


_STANDINGS = st.builds(
    LinkHealth,
    st.sampled_from(LinkState),
    st.integers(0, 300),
    st.integers(0, 50),
    st.integers(50, 99),
    st.integers(0, 255).map(FailureProof),
)
_FINDINGS = st.builds(
    CheckResult,
    st.sampled_from([StatusCode.FINE, StatusCode.SOFT_404, StatusCode.STRANGE, StatusCode.DNS_UNKNOWN]),
    st.sampled_from(CheckVerdict),
    st.sampled_from(CheckMethod),
    whole_host=st.booleans(),
)


@given(_STANDINGS, _FINDINGS, st.integers(0, 200), st.sampled_from(list(PRESETS.values())), st.booleans())
def test_whatever_is_found_leads_to_a_state(
    standing: LinkHealth, finding: CheckResult, day: int, preset: CheckPreset, browser: bool
) -> None:
    """Nothing raises, numbers fit their columns, and what stays the same is the same object."""
    new = next_health(standing, finding, day, preset, browser=browser)
    assert 0 <= new.fails <= 300
    assert 0 <= new.proofs < 2**15
    if finding.verdict in (CheckVerdict.REFUSED, CheckVerdict.UNDECIDED, CheckVerdict.SUSPECT, CheckVerdict.OK):
        assert new.state is not LinkState.DEAD or standing.state is LinkState.DEAD
        assert new.fails <= standing.fails
    if standing.state in MARKS and finding.how is not CheckMethod.PERSON:
        assert new is standing
    needs_browser(new, preset, day)


# Single rules


@pytest.mark.parametrize("how", [CheckMethod.HEAD, CheckMethod.GET, CheckMethod.BROWSER])
@pytest.mark.parametrize("state", _OPEN)
@pytest.mark.parametrize("preset", PRESETS.values(), ids=list(PRESETS))
def test_any_good_look_resets_at_once(preset: CheckPreset, state: LinkState, how: CheckMethod) -> None:
    """B09: dead or dying, one answer is enough."""
    new = next_health(_standing(state), _result(CheckVerdict.OK, how), 7, preset, browser=True)
    assert new == _ALIVE


def test_a_living_link_that_works_stays_the_same_object() -> None:
    """Nothing is to be written then; nearly all looks are such."""
    for how in (CheckMethod.HEAD, CheckMethod.GET, CheckMethod.BROWSER):
        assert next_health(_ALIVE, _result(CheckVerdict.OK, how), 7, DEFAULT, browser=True) is _ALIVE


@pytest.mark.parametrize("state", _OPEN)
def test_who_is_refused_is_blocked_and_never_dead(state: LinkState) -> None:
    """It answers, but not to us: all failures are forgotten."""
    standing = _standing(state)
    for day in range(7, 400, 3):
        standing = next_health(standing, _result(CheckVerdict.REFUSED), day, DEFAULT, browser=False)
        assert standing == LinkHealth(LinkState.BLOCKED)


@pytest.mark.parametrize("state", list(LinkState))
def test_a_look_that_says_nothing_changes_nothing(state: LinkState) -> None:
    """429, 503 with Retry-After, a fault of ours."""
    standing = _standing(state)
    assert next_health(standing, _result(CheckVerdict.UNDECIDED), 9, DEFAULT, browser=True) is standing


@pytest.mark.parametrize("state", _OPEN + _SEEN)
def test_a_suspicion_is_nobodys_failure_but_asks_for_the_browser(state: LinkState) -> None:
    """It stays what it was; the browser looks, and its word ends the suspicion."""
    standing = next_health(_standing(state), _result(CheckVerdict.SUSPECT), 9, DEFAULT, browser=True)
    assert (standing.state, standing.fails) == (state, _standing(state).fails)
    assert needs_browser(standing, DEFAULT, 9)
    seen = next_health(standing, _result(CheckVerdict.OK, CheckMethod.BROWSER), 9, DEFAULT, browser=True)
    assert seen == _ALIVE
    assert not needs_browser(seen, DEFAULT, 9)


def test_a_browser_that_could_not_look_is_asked_again() -> None:
    """Its failure to look at all is no word."""
    standing = _through([(1, _result(CheckVerdict.SUSPECT))])
    again = next_health(standing, _result(CheckVerdict.UNDECIDED, CheckMethod.BROWSER), 1, DEFAULT, browser=True)
    assert needs_browser(again, DEFAULT, 1)


@pytest.mark.parametrize(
    ("verdict", "state"), [(CheckVerdict.USURPED, LinkState.USURPED), (CheckVerdict.DEVIATED, LinkState.DEVIATED)]
)
def test_only_the_browser_sees_another_owner_or_content(verdict: CheckVerdict, state: LinkState) -> None:
    """Anybody else's word for it is a suspicion."""
    suspected = next_health(_ALIVE, _result(verdict, CheckMethod.GET), 3, DEFAULT, browser=True)
    assert suspected.state is LinkState.ALIVE
    assert needs_browser(suspected, DEFAULT, 3)
    seen = next_health(suspected, _result(verdict, CheckMethod.BROWSER), 3, DEFAULT, browser=True)
    assert seen == LinkHealth(state)


@pytest.mark.parametrize("state", _SEEN)
@pytest.mark.parametrize("verdict", [CheckVerdict.OK, CheckVerdict.GONE])
def test_only_the_browser_takes_back_what_only_it_saw(state: LinkState, verdict: CheckVerdict) -> None:
    """A parked page answers 200 as well."""
    plain = next_health(LinkHealth(state), _result(verdict), 3, DEFAULT, browser=True)
    assert plain.state is state
    assert needs_browser(plain, DEFAULT, 3)
    seen = next_health(plain, _result(verdict, CheckMethod.BROWSER), 3, DEFAULT, browser=True)
    assert seen.state is (LinkState.ALIVE if verdict is CheckVerdict.OK else LinkState.DYING)


def test_only_what_is_gone_every_time_makes_a_blocked_link_dead() -> None:
    """A host that refuses us may as well hang: only GONE counts from then on."""
    blocked = LinkHealth(LinkState.BLOCKED)
    assert next_health(blocked, _result(CheckVerdict.FAILING), 1, DEFAULT, browser=False) is blocked
    dying = next_health(blocked, _result(CheckVerdict.GONE), 1, DEFAULT, browser=False)
    assert (dying.state, dying.fails) == (LinkState.DYING, 1)
    hanging = _through(_every(CheckVerdict.FAILING, 3, 90), start=dying)
    assert (hanging.state, hanging.fails) == (LinkState.DYING, 1)
    gone = _through([(day, _result(CheckVerdict.GONE)) for day in (1, 4, 7, 10)], start=blocked)
    assert gone.state is LinkState.DEAD


def test_strange_answers_are_shown_to_the_browser() -> None:
    """W53: 19 and 20 are always re-examined, though they block."""
    strange = CheckResult(StatusCode.STRANGE, CheckVerdict.REFUSED, CheckMethod.GET)
    standing = next_health(_ALIVE, strange, 1, DEFAULT, browser=True)
    assert standing.state is LinkState.BLOCKED
    assert needs_browser(standing, DEFAULT, 1)
    seen = next_health(standing, replace(strange, how=CheckMethod.BROWSER), 1, DEFAULT, browser=True)
    assert not needs_browser(seen, DEFAULT, 1)


def test_a_page_that_says_with_a_200_that_there_is_none_dies_by_the_browser() -> None:
    """A soft 404 answers every HEAD well; the browser is asked each time, and believed."""
    soft = CheckResult(StatusCode.SOFT_404, CheckVerdict.GONE, CheckMethod.BROWSER)
    standing = next_health(_ALIVE, _result(CheckVerdict.SUSPECT), 0, DEFAULT, browser=True)
    for day in range(0, 10, 3):
        standing = next_health(standing, _result(CheckVerdict.OK, CheckMethod.HEAD), day, DEFAULT, browser=True)
        if day:
            assert standing.state is LinkState.DYING
            assert needs_browser(standing, DEFAULT, day)
        else:
            standing = next_health(_ALIVE, _result(CheckVerdict.SUSPECT), 0, DEFAULT, browser=True)
        standing = next_health(standing, soft, day, DEFAULT, browser=True)
    assert standing.state is LinkState.DEAD
    assert next_health(standing, _result(CheckVerdict.OK, CheckMethod.BROWSER), 10, DEFAULT, browser=True) == _ALIVE


def test_what_nobody_can_ask_for_is_invalid() -> None:
    """W48; but what was looked at before is not made invalid by one look."""
    invalid = _result(CheckVerdict.INVALID, CheckMethod.HEAD)
    assert next_health(LinkHealth(), invalid, 1, DEFAULT, browser=True) == LinkHealth(LinkState.INVALID)
    assert next_health(_ALIVE, invalid, 1, DEFAULT, browser=True) is _ALIVE


# Presets: how much it takes


def _died(verdict: CheckVerdict, preset: CheckPreset, every: int, *, wide: bool = False) -> int | None:
    """Return the day of the failure that makes it dead, the first being on day 0; None within 60 days."""
    standing = _ALIVE
    for day in range(0, 61, every):
        standing = next_health(standing, _result(verdict, wide=wide), day, preset, browser=False)
        if standing.state is LinkState.DEAD:
            return day
    return None


def test_the_default_calls_what_is_gone_dead_after_nine_days() -> None:
    """At least 3 failures over at least 9 days."""
    assert _died(CheckVerdict.GONE, DEFAULT, 3) == 9
    assert _died(CheckVerdict.GONE, DEFAULT, 1) == 9
    assert _died(CheckVerdict.GONE, DEFAULT, 7) == 14


@pytest.mark.parametrize(("verdict", "wide"), [(CheckVerdict.FAILING, False), (CheckVerdict.GONE, True)])
def test_the_default_is_patient_with_what_may_pass(verdict: CheckVerdict, wide: bool) -> None:
    """Errors, and names that do not resolve: at least 5 failures over at least 18 days."""
    assert _died(verdict, DEFAULT, 3, wide=wide) == 18
    assert _died(verdict, DEFAULT, 1, wide=wide) == 18
    assert _died(verdict, DEFAULT, 7, wide=wide) == 28


@given(st.lists(st.integers(0, 14), min_size=1, max_size=15), st.booleans())
def test_no_outage_of_two_weeks_kills(days: list[int], browser: bool) -> None:
    """However often it is looked at, by whatever means."""
    standing = _ALIVE
    for day in sorted(days):
        for how in (CheckMethod.HEAD, CheckMethod.GET, CheckMethod.BROWSER):
            standing = next_health(standing, _result(CheckVerdict.FAILING, how), day, DEFAULT, browser=browser)
            assert standing.state is LinkState.DYING


def test_one_failure_that_may_pass_makes_all_of_the_run_patient() -> None:
    """A 404 after a 503 may be a server that is being set up again."""
    looks = [(0, _result(CheckVerdict.FAILING)), *((day, _result(CheckVerdict.GONE)) for day in range(3, 18, 3))]
    assert _through(looks).state is LinkState.DYING
    assert _through([*looks, (18, _result(CheckVerdict.GONE))]).state is LinkState.DEAD


def test_iabot_needs_three_failures_and_nine_days() -> None:
    """B09 as written, whatever the failure; no GET, no browser."""
    for verdict in (CheckVerdict.GONE, CheckVerdict.FAILING):
        assert _through(_every(verdict, 3, 6, CheckMethod.HEAD), IABOT, browser=True).state is LinkState.DYING
        assert _through(_every(verdict, 3, 9, CheckMethod.HEAD), IABOT, browser=True).state is LinkState.DEAD


def test_dewiki_needs_four_failures_two_weeks_apart() -> None:
    """Failures in between do not count."""
    weekly = _every(CheckVerdict.GONE, 7, 35)
    assert (_through(weekly, DEWIKI).state, _through(weekly, DEWIKI).fails) == (LinkState.DYING, 3)
    assert _through([*weekly, (42, _result(CheckVerdict.GONE))], DEWIKI).state is LinkState.DEAD


def test_two_failures_of_a_day_are_one() -> None:
    """HEAD, GET and browser of one day, or a person who asks again and again."""
    standing = _through([(5, _result(CheckVerdict.GONE))] * 10)
    assert standing.fails == 1
    assert _through([(5, _result(CheckVerdict.GONE)), (6, _result(CheckVerdict.GONE))]).fails == 1


def test_without_a_get_nothing_is_dead() -> None:
    """HEAD lies: one failure at least is seen by GET."""
    assert _through(_every(CheckVerdict.GONE, 3, 30, CheckMethod.HEAD)).state is LinkState.DYING
    looks = [*_every(CheckVerdict.GONE, 3, 30, CheckMethod.HEAD), (33, _result(CheckVerdict.GONE))]
    assert _through(looks).state is LinkState.DEAD


def test_the_browser_has_the_last_word() -> None:
    """With a browser, a link is dead only after it failed there, too; success there resets everything."""
    looks = _every(CheckVerdict.GONE, 3, 9)
    ripe = _through(looks, browser=True)
    assert ripe.state is LinkState.DYING
    assert needs_browser(ripe, DEFAULT, 9)
    gone = next_health(ripe, _result(CheckVerdict.GONE, CheckMethod.BROWSER), 9, DEFAULT, browser=True)
    assert gone.state is LinkState.DEAD
    assert next_health(ripe, _result(CheckVerdict.OK, CheckMethod.BROWSER), 9, DEFAULT, browser=True) == _ALIVE
    blocked = next_health(ripe, _result(CheckVerdict.REFUSED, CheckMethod.BROWSER), 9, DEFAULT, browser=True)
    assert blocked.state is LinkState.BLOCKED


def test_the_browser_is_not_asked_before_its_word_counts() -> None:
    """Not at the first failures, not of the living, never by `iabot`."""
    assert not needs_browser(_ALIVE, DEFAULT, 9)
    for until in (0, 3, 6):
        assert not needs_browser(_through(_every(CheckVerdict.GONE, 3, until)), DEFAULT, until)
    dying = _through(_every(CheckVerdict.GONE, 3, 6), IABOT)
    assert not needs_browser(dying, IABOT, 9)


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from([CheckVerdict.GONE, CheckVerdict.FAILING])), max_size=20))
def test_the_browser_is_asked_exactly_when_its_failure_would_kill(steps: list[tuple[int, CheckVerdict]]) -> None:
    """`needs_browser` and `after` are of one mind."""
    standing, day = _ALIVE, 0
    for step, verdict in steps:
        day += step
        standing = next_health(standing, _result(verdict), day, DEFAULT, browser=True)
        word = next_health(standing, _result(CheckVerdict.GONE, CheckMethod.BROWSER), day, DEFAULT, browser=True)
        assert (word.state is LinkState.DEAD) == needs_browser(standing, DEFAULT, day)


# Inference


def test_an_inferred_failure_begins_a_run_and_no_more() -> None:
    """W46: however long the host fails, what is inferred never adds up."""
    guess = _result(CheckVerdict.GONE, CheckMethod.INFERRED, wide=True)
    standing = _through([(day, guess) for day in range(0, 90, 3)])
    assert (standing.state, standing.fails, standing.first_fail) == (LinkState.DYING, 1, 0)
    assert FailureProof.INFERRED in standing.proofs
    assert not may_infer(standing)


def test_an_inferred_failure_never_makes_a_link_dead() -> None:
    """Not even as the last one of a run."""
    ripe = _through(_every(CheckVerdict.GONE, 3, 6), browser=False)
    guess = _result(CheckVerdict.GONE, CheckMethod.INFERRED, wide=True)
    assert next_health(ripe, guess, 30, DEFAULT, browser=False) is ripe


def test_an_inferred_failure_is_undone_by_the_links_own_look() -> None:
    """The next pass is unbiased."""
    guessed = next_health(_ALIVE, _result(CheckVerdict.FAILING, CheckMethod.INFERRED), 0, DEFAULT, browser=True)
    assert next_health(guessed, _result(CheckVerdict.OK), 3, DEFAULT, browser=True) == _ALIVE


@pytest.mark.parametrize("state", list(LinkState))
def test_only_of_the_living_and_the_dead_anything_is_inferred(state: LinkState) -> None:
    """Those that are dying, blocked, usurped or deviated are looked at themselves."""
    inferable = may_infer(_standing(state))
    assert inferable == (state in (LinkState.UNKNOWN, LinkState.ALIVE, LinkState.DEAD))
    if not inferable:
        guess = _result(CheckVerdict.FAILING, CheckMethod.INFERRED)
        assert next_health(_standing(state), guess, 9, DEFAULT, browser=True) is _standing(state) or (
            next_health(_standing(state), guess, 9, DEFAULT, browser=True) == _standing(state)
        )


# People


@pytest.mark.parametrize("mark", sorted(MARKS))
@pytest.mark.parametrize("verdict", list(CheckVerdict))
def test_a_mark_overrides_every_look(mark: LinkState, verdict: CheckVerdict) -> None:
    """B10, B11: what people decided stays until they take it back."""
    standing = LinkHealth(mark)
    for how in (CheckMethod.GET, CheckMethod.BROWSER):
        assert next_health(standing, _result(verdict, how), 3, DEFAULT, browser=True) is standing


_TAG = CheckResult(StatusCode.NOT_FOUND, CheckVerdict.GONE, CheckMethod.PERSON)
_TRUSTING = replace(IABOT, trusts_tags=True)


def test_a_wikis_tag_counts_only_where_it_is_trusted() -> None:
    """Else what a page says of a link changes nothing."""
    for state in LinkState:
        standing = _standing(state)
        assert next_health(standing, _TAG, 3, DEFAULT, browser=True) is standing


def test_a_trusted_tag_makes_the_first_failure_the_last() -> None:
    """A tag alone proves nothing; with one failure of its own the link is dead at once."""
    tagged = next_health(_ALIVE, _TAG, 3, _TRUSTING, browser=False)
    assert tagged.state is LinkState.ALIVE
    assert next_health(tagged, _result(CheckVerdict.FAILING), 4, _TRUSTING, browser=False).state is LinkState.DEAD
    assert next_health(tagged, _result(CheckVerdict.OK), 4, _TRUSTING, browser=False) == _ALIVE
    untagged = next_health(tagged, replace(_TAG, verdict=CheckVerdict.OK), 4, _TRUSTING, browser=False)
    assert next_health(untagged, _result(CheckVerdict.FAILING), 5, _TRUSTING, browser=False).state is LinkState.DYING


def test_an_inferred_failure_does_not_bear_a_tag_out() -> None:
    """The failure must be the link's own."""
    tagged = next_health(_ALIVE, _TAG, 3, _TRUSTING, browser=False)
    guess = _result(CheckVerdict.GONE, CheckMethod.INFERRED, wide=True)
    guessed = next_health(tagged, guess, 4, _TRUSTING, browser=False)
    assert guessed.state is LinkState.DYING
    assert next_health(guessed, _result(CheckVerdict.GONE), 5, _TRUSTING, browser=False).state is LinkState.DEAD


def test_a_trusted_tag_ends_always_alive() -> None:
    """B10: always alive, unless tagged and the tag is trusted; always dead stays."""
    permalive = LinkHealth(LinkState.PERMALIVE)
    assert next_health(permalive, _TAG, 3, _TRUSTING, browser=False).state is LinkState.DEAD
    permadead = LinkHealth(LinkState.PERMADEAD)
    assert next_health(permadead, _TAG, 3, _TRUSTING, browser=False) is permadead


def test_a_trusted_tag_still_waits_for_the_browser() -> None:
    """It waits where there is a browser and the preset requires it."""
    trusting = replace(DEFAULT, trusts_tags=True)
    tagged = next_health(_ALIVE, _TAG, 3, trusting, browser=True)
    dying = next_health(tagged, _result(CheckVerdict.GONE), 4, trusting, browser=True)
    assert dying.state is LinkState.DYING
    assert needs_browser(dying, trusting, 4)


# Presets by name


@pytest.mark.parametrize("name", ["default", "iabot", "dewiki"])
def test_a_preset_is_found_by_its_name(name: str) -> None:
    """As the setting says it."""
    assert preset_of(name).name == name


def test_an_unknown_preset_is_refused_with_those_there_are() -> None:
    """The message says what may be written."""
    with pytest.raises(ConfigError, match="default, dewiki, iabot"):
        preset_of("strict")
