"""The timetable: no host is asked sooner than allowed, nothing is lost, doubled, or waits for ever."""

import math
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from core.errors import InvariantError
from links.check_result import CheckMethod, CheckResult, CheckVerdict, StatusCode
from links.checker.timetable import ALIKE, AddOutcome, CheckTurn, Timetable, TurnAction
from tests.support.examples import examples

GAP = 6.0
_OK = CheckResult(StatusCode.FINE, CheckVerdict.OK, CheckMethod.HEAD, http=200)
_LIMITED = CheckResult(StatusCode.TOO_MANY, CheckVerdict.UNDECIDED, CheckMethod.GET, http=429)
_NO_NAME = CheckResult(
    StatusCode.DNS_UNKNOWN, CheckVerdict.GONE, CheckMethod.HEAD, note="dns: NXDOMAIN", whole_host=True
)
_CLOSED = CheckResult(StatusCode.REFUSED, CheckVerdict.FAILING, CheckMethod.HEAD, note="tcp: refused", whole_host=True)
_GATEWAY = CheckResult(StatusCode.BAD_GATEWAY, CheckVerdict.FAILING, CheckMethod.GET, http=502)
_BROKEN = CheckResult(StatusCode.BAD_REQUEST, CheckVerdict.FAILING, CheckMethod.GET, http=500)

Table = Timetable[str]
ROOM = 50_000


def _table(hosts: dict[str, int], **options: int) -> Table:
    table: Table = Timetable(gaps=GAP, **options)
    number = 0
    for host, count in hosts.items():
        for _ in range(count):
            number += 1
            assert table.add(number, host, f"{host}/{number}") is AddOutcome.TAKEN
    return table


def _turn(table: Table, now: float) -> CheckTurn[str]:
    turn = table.next(now)
    assert isinstance(turn, CheckTurn)
    return turn


def _run_turn(table: Table, now: float, finding: CheckResult | None = _OK) -> CheckTurn[str]:
    """Take the next turn, which is to ask, and end it at the same moment."""
    turn = _turn(table, now)
    assert turn.move is TurnAction.ASK
    table.done(turn, now, finding)
    return turn


# Gaps


def test_a_host_is_asked_one_url_at_a_time() -> None:
    """While a look goes on, nothing else of the host has its turn."""
    table = _table({"a.test": 3})
    _turn(table, 0.0)
    assert table.next(1000.0) == math.inf


def test_the_gap_begins_with_the_end_of_a_look() -> None:
    """A host that answers slowly is not asked sooner for it."""
    table = _table({"a.test": 2})
    turn = _turn(table, 0.0)
    table.done(turn, 50.0, _OK)
    assert table.next(50.0) == 56.0
    assert table.next(55.9) == 56.0
    assert _turn(table, 56.0).url_id == 2


def test_hosts_do_not_wait_for_one_another() -> None:
    """In the order of adding, whoever is free."""
    table = _table({"a.test": 2, "b.test": 1, "c.test": 1})
    assert [_turn(table, 0.0).host for _ in range(3)] == ["a.test", "b.test", "c.test"]


def test_a_host_without_urls_keeps_its_gap() -> None:
    """A host whose last URL is done still keeps its gap when the next one comes."""
    table = _table({"a.test": 1})
    _run_turn(table, 0.0)
    table.next(3.0)
    table.add(9, "a.test", "again")
    assert table.next(3.0) == 6.0


def test_a_host_that_is_asked_too_often_is_asked_half_as_often() -> None:
    """429 doubles the gap, up to a minute; good answers in a row shorten it."""
    table = _table({"a.test": 60})
    now, gaps = 0.0, []
    for finding in [_LIMITED] * 4 + [_OK] * 30:
        _run_turn(table, now, finding)
        wake = table.next(now)
        assert isinstance(wake, float)
        gaps.append(wake - now)
        now = wake
    assert gaps[:4] == [12.0, 24.0, 48.0, 60.0]
    assert gaps[4:] == sorted(gaps[4:], reverse=True)
    assert gaps[10] == 60.0
    assert gaps[-1] < 12.0


def test_a_url_that_came_too_soon_comes_again() -> None:
    """With tries left, a 429 is no look."""
    table = _table({"a.test": 1, "b.test": 1}, tries=3)
    turn = _turn(table, 0.0)
    assert not table.done(turn, 0.0, _LIMITED)
    assert table.room == ROOM - 2
    again = _turn(table, 100.0) if _turn(table, 0.0).host == "b.test" else None
    assert again is not None
    assert (again.url_id, again.tries) == (turn.url_id, 1)
    assert not table.done(again, 100.0, _LIMITED)
    last = _turn(table, 200.0)
    assert table.done(last, 200.0, _LIMITED)


def test_a_host_for_which_a_minute_is_too_short_is_left_alone() -> None:
    """Its URLs are handed back for another run."""
    table = _table({"a.test": 7})
    now = 0.0
    for _ in range(4):
        _run_turn(table, now, _LIMITED)
        wake = table.next(now)
        assert isinstance(wake, float)
        now = wake
    _run_turn(table, now, _LIMITED)
    left = [_turn(table, now), _turn(table, now)]
    assert [turn.move for turn in left] == [TurnAction.LATER] * 2
    assert left[0].until >= now + 600
    assert table.room == ROOM


# Putting off


def test_retry_after_within_patience_is_waited_for() -> None:
    """The host's URLs stay."""
    table = _table({"a.test": 2})
    _run_turn(table, 0.0, replace(_LIMITED, retry_after_s=40.0))
    assert table.next(0.0) == 40.0


def test_retry_after_beyond_patience_hands_urls_back() -> None:
    """Those that wait, and those that are added before it is over."""
    table = _table({"a.test": 3, "b.test": 1})
    _run_turn(table, 0.0, replace(_LIMITED, retry_after_s=7200.0))
    moved = [_turn(table, 0.0) for _ in range(3)]
    assert [(turn.move, turn.host) for turn in moved] == [
        (TurnAction.LATER, "a.test"),
        (TurnAction.LATER, "a.test"),
        (TurnAction.ASK, "b.test"),
    ]
    assert moved[0].until == 7200.0
    table.add(9, "a.test", "late")
    assert _turn(table, 100.0).move is TurnAction.LATER
    table.next(7200.0)
    table.add(10, "a.test", "after")
    assert _turn(table, 7200.0).move is TurnAction.ASK


@pytest.mark.parametrize("retry", [-5.0, 0.0, 1e-9])
def test_a_retry_after_that_is_over_changes_nothing(retry: float) -> None:
    """The gap holds."""
    table = _table({"a.test": 2})
    _run_turn(table, 0.0, replace(_LIMITED, code=StatusCode.UNAVAILABLE, retry_after_s=retry))
    assert table.next(0.0) == GAP


# Condemning


def test_a_name_that_does_not_exist_condemns_its_host_at_once() -> None:
    """W46: all its other URLs have the same finding, marked as inferred, without being asked."""
    table = _table({"a.test": 3, "b.test": 1})
    _run_turn(table, 0.0, _NO_NAME)
    inferred = [_turn(table, 0.0), _turn(table, 0.0)]
    for turn in inferred:
        assert turn.move is TurnAction.INFER
        assert turn.finding is not None
        assert turn.finding.how is CheckMethod.INFERRED
        assert turn.finding.code == StatusCode.DNS_UNKNOWN
        assert turn.finding.note == "inferred: dns: NXDOMAIN"
    assert _turn(table, 0.0).host == "b.test"
    table.add(9, "a.test", "late")
    assert _turn(table, 0.0).move is TurnAction.INFER


@pytest.mark.parametrize("finding", [_CLOSED, _GATEWAY], ids=["refused", "502"])
def test_other_failures_condemn_when_three_urls_failed_alike(finding: CheckResult) -> None:
    """W46: a single 502 proves nothing about its host."""
    table = _table({"a.test": ALIKE + 2})
    for number in range(ALIKE):
        _run_turn(table, number * GAP, finding)
    assert [_turn(table, 20.0).move for _ in range(2)] == [TurnAction.INFER] * 2


@pytest.mark.parametrize("between", [_OK, _BROKEN, _NO_NAME], ids=["good", "500", "another"])
def test_what_comes_between_restarts_the_count(between: CheckResult) -> None:
    """Three in a row must fail alike."""
    table = _table({"a.test": 9})
    if between is _NO_NAME:
        between = replace(_CLOSED, code=StatusCode.NO_ROUTE)
    for number, finding in enumerate([_CLOSED, _CLOSED, between, _CLOSED, _CLOSED]):
        _run_turn(table, number * GAP, finding)
    assert _turn(table, 100.0).move is TurnAction.ASK


def test_one_url_that_fails_again_and_again_is_one() -> None:
    """Different URLs must fail."""
    table = _table({"a.test": 1})
    for number in range(5):
        _run_turn(table, number * GAP, _CLOSED)
        table.add(1, "a.test", "again")
    table.add(2, "a.test", "other")
    assert _turn(table, 100.0).move is TurnAction.ASK


def test_a_finding_of_one_page_condemns_nobody() -> None:
    """A 500 or a 404 is a page's."""
    table = _table({"a.test": 9})
    for number in range(5):
        _run_turn(table, number * GAP, _BROKEN)
    assert _turn(table, 100.0).move is TurnAction.ASK


def test_what_must_be_seen_itself_is_asked() -> None:
    """A link that is dying is never inferred (`links.states.may_infer`)."""
    table = _table({"a.test": 1})
    table.add(8, "a.test", "dying", inferable=False)
    table.add(9, "a.test", "well")
    _run_turn(table, 0.0, _NO_NAME)
    assert (_turn(table, 0.0).url_id, _turn(table, GAP).url_id) == (9, 8)


def test_a_host_that_answers_is_acquitted() -> None:
    """A link's own look is stronger than an inference."""
    table = _table({"a.test": 1})
    _run_turn(table, 0.0, _NO_NAME)
    table.add(8, "a.test", "dying", inferable=False)
    _run_turn(table, GAP, _OK)
    table.add(9, "a.test", "well")
    assert _turn(table, 2 * GAP).move is TurnAction.ASK


def test_the_next_pass_is_unbiased() -> None:
    """W46: what was inferred is forgotten, and so are failures on the way to it; gaps are not."""
    table = _table({"a.test": 1, "b.test": 9})
    _run_turn(table, 0.0, _NO_NAME)
    _run_turn(table, 0.0, _CLOSED)
    _run_turn(table, GAP, _CLOSED)
    table.new_pass()
    table.add(99, "a.test", "new")
    assert {_run_turn(table, 2 * GAP, _CLOSED).host for _ in range(2)} == {"a.test", "b.test"}
    assert table.next(2 * GAP) == 3 * GAP
    assert _turn(table, 3 * GAP).move is TurnAction.ASK


def test_condemned_hosts_are_remembered_within_bounds() -> None:
    """Of more, the first are asked again."""
    table = _table({}, memory=2)
    for number, host in enumerate(["a.test", "b.test", "c.test"]):
        table.condemn(host, _NO_NAME)
        table.add(number, host, host)
    moves = {turn.host: turn.move for turn in (_turn(table, 0.0) for _ in range(3))}
    assert moves == {"a.test": TurnAction.INFER, "b.test": TurnAction.INFER, "c.test": TurnAction.INFER}
    table.add(7, "a.test", "again")
    assert _turn(table, 0.0).move is TurnAction.ASK


# Bounds


def test_the_table_is_bounded() -> None:
    """In all, and for each host; what is in here already is not taken twice."""
    table = _table({"a.test": 2}, room=4, host_room=2)
    assert table.add(1, "a.test", "same") is AddOutcome.HELD
    assert table.add(7, "a.test", "more") is AddOutcome.HOST_FULL
    assert table.add(8, "b.test", "other") is AddOutcome.TAKEN
    assert table.room == 1
    assert table.add(9, "c.test", "other") is AddOutcome.TAKEN
    assert table.add(10, "d.test", "other") is AddOutcome.FULL
    assert table.room == 0
    turn = _turn(table, 0.0)
    assert table.room == 0
    assert table.add(turn.url_id, turn.host, "same") is AddOutcome.HELD
    table.done(turn, 0.0, _OK)
    assert table.room == 1


def test_hosts_without_urls_are_forgotten() -> None:
    """A pass over a million hosts remembers those of the last seconds."""
    table: Table = Timetable(gaps=GAP)
    for number in range(2000):
        table.add(number, f"host{number}.test", "")
        _run_turn(table, number * 0.1)
    assert len(table._hosts) < 100
    assert len(table._idle) < 200


def test_a_look_that_was_nobodys_turn_is_a_mistake() -> None:
    """Saying done twice, or of what was inferred."""
    table = _table({"a.test": 1})
    turn = _run_turn(table, 0.0)
    with pytest.raises(InvariantError):
        table.done(turn, 1.0, _OK)


# Everything at once, against a plain model

_FINDINGS = st.sampled_from(
    [
        None,
        _OK,
        _LIMITED,
        replace(_LIMITED, retry_after_s=30.0),
        replace(_LIMITED, retry_after_s=500.0),
        _NO_NAME,
        _CLOSED,
        _GATEWAY,
        _BROKEN,
    ]
)
_HOSTS = st.sampled_from(["a.test", "b.test", "c.test"])


class TimetableModel(RuleBasedStateMachine):
    """A timetable beside sets of what it was given and gave back."""

    def __init__(self) -> None:
        super().__init__()
        self.table: Timetable[float] = Timetable(gaps=GAP, room=12, host_room=5, tries=2)
        self.now = 0.0
        self.number = 0
        self.held: dict[int, str] = {}
        self.running: dict[str, CheckTurn[float]] = {}
        self.free: dict[str, float] = {}  # when a host may be asked again at the earliest
        self.own: set[int] = set()
        self.gaps: dict[str, float] = {}
        self.given: Counter[int] = Counter()

    @rule(host=_HOSTS, inferable=st.booleans())
    def add(self, host: str, inferable: bool) -> None:
        """Add a URL; it is taken unless there is no room."""
        self.number += 1
        added = self.table.add(self.number, host, self.now, inferable=inferable)
        if added is AddOutcome.TAKEN:
            self.held[self.number] = host
            if not inferable:
                self.own.add(self.number)
        elif added is AddOutcome.FULL:
            assert len(self.held) >= 12
        else:
            assert added is AddOutcome.HOST_FULL
            assert sum(other == host for other in self.held.values()) >= 5

    @rule(number=st.integers(1, 60))
    def add_again(self, number: int) -> None:
        """Assert that a URL that is already held is not taken again."""
        if number in self.held:
            assert self.table.add(number, "a.test", self.now) is AddOutcome.HELD

    @rule(seconds=st.sampled_from([0.0, 0.5, 3.0, 6.0, 30.0, 61.0, 600.0]))
    def wait(self, seconds: float) -> None:
        """Let time go by."""
        self.now += seconds

    @rule()
    def take(self) -> None:
        """Take the next turn; it must be allowed, new, and of a URL that was added."""
        turn = self.table.next(self.now)
        if isinstance(turn, float):
            assert turn > self.now
            return
        assert self.held[turn.url_id] == turn.host
        if turn.move is TurnAction.ASK:
            assert turn.host not in self.running
            assert self.now >= self.free.get(turn.host, -math.inf)
            self.running[turn.host] = turn
            return
        if turn.move is TurnAction.INFER:
            assert turn.url_id not in self.own
            assert turn.finding is not None
            assert turn.finding.how is CheckMethod.INFERRED
        self.leave(turn)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), finding=_FINDINGS)
    def done(self, data: st.DataObject, finding: CheckResult | None) -> None:
        """End a check; its host rests."""
        host = data.draw(st.sampled_from(sorted(self.running)))
        turn = self.running.pop(host)
        counts = self.table.done(turn, self.now, finding)
        rest = max(GAP, self.gaps.get(host, 0.0))
        if finding is not None and finding.code == StatusCode.TOO_MANY:
            rest = max(2 * GAP, finding.retry_after_s or 0.0)
        self.free[host] = max(self.free.get(host, 0.0), self.now + rest)
        if counts:
            self.leave(turn)
        else:
            assert finding is not None
            assert finding.code == StatusCode.TOO_MANY

    @rule(host=_HOSTS)
    def condemn(self, host: str) -> None:
        """Report that a host is gone."""
        self.table.condemn(host, _NO_NAME)

    @rule()
    def new_pass(self) -> None:
        """Begin a new pass, which forgets what was inferred."""
        self.table.new_pass()

    def leave(self, turn: CheckTurn[float]) -> None:
        """Assert that the URL comes out for the first time, and remove it from the model."""
        self.given[turn.url_id] += 1
        assert self.given[turn.url_id] == 1
        del self.held[turn.url_id]

    @invariant()
    def nothing_is_lost(self) -> None:
        """Assert that all URLs that were taken and did not come out are still held."""
        assert self.table.room == 12 - len(self.held)

    def teardown(self) -> None:
        """Assert that everything comes out in the end: no URL waits for ever."""
        for host in list(self.running):
            turn = self.running.pop(host)
            if self.table.done(turn, self.now, None):
                self.leave(turn)
        for _ in range(500):
            turn_or_moment = self.table.next(self.now)
            if isinstance(turn_or_moment, float):
                if math.isinf(turn_or_moment):
                    break
                assert turn_or_moment > self.now
                self.now = turn_or_moment
                continue
            if turn_or_moment.move is TurnAction.ASK:
                assert self.now >= self.free.get(turn_or_moment.host, -math.inf)
                self.free[turn_or_moment.host] = self.now + GAP
                assert self.table.done(turn_or_moment, self.now, _OK)
            self.leave(turn_or_moment)
        assert not self.held
        assert self.table.room == 12


TestTimetableModel = TimetableModel.TestCase
TestTimetableModel.settings = settings(max_examples=examples(60), stateful_step_count=40)
