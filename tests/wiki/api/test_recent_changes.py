"""Recent changes: each once, in whatever way they come, and a gap told."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ConfigError
from tests.support.sites.mediawiki import ADMIN, RunningWiki
from tests.support.wiki_proxy import ProxiedRequest, ProxiedResponse, WikiProxy
from tests.support.wiki_writer import WikiWriter
from tests.wiki.api.conftest import ApiAt
from wiki.api.models import ChangeKind, WikiAwayError, WikiRefusedError
from wiki.api.recent_changes import OVERLAP, ChangeBatch, ChangesCursor, changes_since, parse_change

NOW = datetime(2026, 11, 21, 20, 0, tzinfo=UTC)
MOMENTS = st.integers(10**9, 4 * 10**9).map(lambda each: datetime.fromtimestamp(each, UTC))
slow = pytest.mark.slow


def _of(batch: ChangeBatch) -> list[tuple[str, str, str]]:
    return [(str(each.kind), each.title, each.target_title) for each in batch.changes]


@slow
async def test_the_first_time_nothing_is_told_but_a_gap(proxy: WikiProxy, api_at: ApiAt) -> None:
    """Every page is to be read once; from then on what changes."""
    async with api_at(proxy.api) as api:
        batch = await changes_since(api)
        again = await changes_since(api, batch.cursor)
    assert (batch.changes, batch.is_gap, batch.is_end) == ((), True, True)
    assert (again.is_gap, again.is_end) == (False, True)


@slow
async def test_each_way_in_which_a_page_changes_is_told_once(
    proxy: WikiProxy, api_at: ApiAt, writer: WikiWriter
) -> None:
    """Edits, moves with and without a redirect, deletion, restoring, import, merging; page ids stay."""
    async with api_at(proxy.api) as api:
        start = (await changes_since(api)).cursor
        start = (await changes_since(api, start)).cursor
        a, _ = writer.write("Chg A", "x")
        writer.write("Chg A", "[https://example.com/ y]")
        b, _ = writer.write("Chg B", "x")
        writer.move("Chg A", "Chg A2")
        writer.move("Chg B", "Chg B2", noredirect=1)
        writer.delete("Chg B2")
        writer.restore("Chg B2")
        writer.act(action="protect", title="Chg A2", protections="edit=sysop")
        source, _ = writer.write("Chg source", "older")
        writer.write("Chg target", "newer")
        writer.act(action="mergehistory", **{"from": "Chg source", "to": "Chg target"})
        batch = await changes_since(api, start)
        again = await changes_since(api, batch.cursor)
    changes = _of(batch)
    assert (
        changes[:4] == [("new", "Chg A", ""), ("edit", "Chg A", ""), ("new", "Chg B", ""), ("move", "Chg A", "Chg A2")]
        or ("new", "Chg B", "") not in changes
    )  # its row goes with the page when that is deleted
    assert ("move", "Chg B", "Chg B2") in changes
    assert ("delete", "Chg B2", "") in changes
    assert ("restore", "Chg B2", "") in changes
    assert ("merge", "Chg source", "Chg target") in changes
    ids = {each.kind: each.page_id for each in batch.changes if each.title != "Chg A"}
    assert (ids[ChangeKind.DELETE], ids[ChangeKind.RESTORE]) == (b, b)
    moved = {each.title: each.page_id for each in batch.changes if each.kind is ChangeKind.MOVE}
    assert moved == {"Chg A": a, "Chg B": b}
    assert {each.kind for each in batch.changes if each.title == "Chg A2"} <= {ChangeKind.OTHER}
    assert source
    assert again.changes == ()


@slow
async def test_older_versions_leave_page_ids_out_of_the_log(
    proxy: WikiProxy, api_at: ApiAt, writer: WikiWriter
) -> None:
    """They are found by the title; a page that is gone keeps none."""

    def transform(request: ProxiedRequest, document: dict[str, Any]) -> Any:
        for row in document.get("query", {}).get("recentchanges", []):
            if row.get("type") == "log":
                row["pageid"] = 0
        return document

    proxy.transform = transform
    async with api_at(proxy.api) as api:
        start = (await changes_since(api)).cursor
        moved, _ = writer.write("Old A", "x")
        writer.move("Old A", "Old A2")
        writer.write("Old B", "x")
        writer.delete("Old B")
        batch = await changes_since(api, start)
    ids = {each.title: each.page_id for each in batch.changes if each.kind is ChangeKind.MOVE}
    gone = {each.title: each.page_id for each in batch.changes if each.kind is ChangeKind.DELETE}
    assert ids["Old A"] == moved
    assert gone["Old B"] == 0


@slow
async def test_what_is_hidden_is_passed_over(
    wiki: RunningWiki, proxy: WikiProxy, api_at: ApiAt, writer: WikiWriter
) -> None:
    """A hidden log entry has neither title nor page, a hidden user no name."""
    wiki.maintain("createAndPromote.php", "--force", "--custom-groups", "suppress", ADMIN)
    async with api_at(proxy.api) as api:
        start = (await changes_since(api)).cursor
        page, rev = writer.write("Hidden", "x")
        writer.write("Hidden", "y")
        writer.move("Hidden", "Hidden away", noredirect=1)
        logs = writer.ask(action="query", list="logevents", leaction="move/move", lelimit=1)
        writer.act(
            action="revisiondelete", type="logging", ids=logs["query"]["logevents"][0]["logid"], hide="content|user"
        )
        writer.act(action="revisiondelete", type="revision", ids=rev, hide="user", target="Hidden away")
        batch = await changes_since(api, start)
    hidden = [each for each in batch.changes if not each.title]
    assert [each.kind for each in hidden] == [ChangeKind.OTHER]
    assert page in {each.page_id for each in batch.changes}


def _row(number: int, moment: datetime, **more: Any) -> dict[str, Any]:
    return {
        "type": "edit",
        "ns": 0,
        "title": f"Page {number}",
        "pageid": number,
        "revid": number,
        "old_revid": 0,
        "rcid": number,
        "user": "X",
        "bot": False,
        "timestamp": f"{moment:%Y-%m-%dT%H:%M:%SZ}",
        **more,
    }


class ListedChanges:
    """A list of recent changes as the API answers it, which tests change as time passes."""

    def __init__(self) -> None:
        self.now = NOW
        self.rows: list[dict[str, Any]] = []
        self.at_once = 3

    def __call__(self, request: ProxiedRequest) -> ProxiedResponse | None:
        """Return the API's response to the request."""
        document: dict[str, Any] = {"curtimestamp": f"{self.now:%Y-%m-%dT%H:%M:%SZ}", "query": {}}
        if request.params.get("list") != "recentchanges":
            return ProxiedResponse.of_json(document)
        start = request.params.get("rcstart", "")
        rows = sorted(
            (row for row in self.rows if row["timestamp"] >= start), key=lambda row: (row["timestamp"], row["rcid"])
        )
        if further := request.params.get("rccontinue"):
            moment, _, number = further.partition("|")
            rows = [row for row in rows if (row["timestamp"], row["rcid"]) >= (moment, int(number))]
        some = rows[: min(self.at_once, int(request.params["rclimit"].replace("max", "500")))]
        document["query"]["recentchanges"] = some
        if rest := rows[len(some) :]:
            place = f"{rest[0]['timestamp']}|{rest[0]['rcid']}"
            document["continue"] = {"rccontinue": place, "continue": "-||"}
        return ProxiedResponse.of_json(document)


@pytest.fixture
def listed(proxy: WikiProxy) -> ListedChanges:
    """Set a list of changes as the proxy's script, in the wiki's place; return the list."""
    listed = ListedChanges()
    proxy.script = listed
    return listed


@slow
async def test_entries_that_appear_late_are_told_once(proxy: WikiProxy, api_at: ApiAt, listed: ListedChanges) -> None:
    """A transaction's entry has the moment when it began."""
    rc_ids: list[int] = []
    async with api_at(proxy.api) as api:
        cursor = ChangesCursor(NOW).text()
        for step in range(12):
            listed.now = NOW + timedelta(seconds=10 * step)
            listed.rows.append(_row(step * 2 + 1, listed.now))
            if step >= 5:  # it began fifty seconds ago, and its number is lower than others seen
                listed.rows.append(_row((step - 5) * 2 + 2, listed.now - timedelta(seconds=50)))
            batch = await changes_since(api, cursor)
            cursor = batch.cursor
            rc_ids.extend(each.rc_id for each in batch.changes)
    assert sorted(rc_ids) == sorted(row["rcid"] for row in listed.rows)
    assert len(ChangesCursor.parse(cursor).seen) <= len(listed.rows)


@slow
async def test_a_long_list_comes_in_parts_each_entry_once(
    proxy: WikiProxy, api_at: ApiAt, listed: ListedChanges
) -> None:
    """Even when all of it has one moment; the cursor in between survives as text."""
    listed.rows = [_row(number, NOW - timedelta(hours=number // 40)) for number in range(1, 81)]
    rc_ids: list[int] = []
    parts = 0
    async with api_at(proxy.api) as api:
        cursor = ChangesCursor(NOW - timedelta(hours=3)).text()
        is_end = False
        while not is_end:
            batch = await changes_since(api, cursor, most=10)
            cursor, is_end = batch.cursor, batch.is_end
            rc_ids.extend(each.rc_id for each in batch.changes)
            parts += 1
            assert parts < 30
        assert (await changes_since(api, cursor)).changes == ()
    assert sorted(rc_ids) == list(range(1, 81))
    assert parts > 3


@slow
async def test_a_clock_that_goes_back_loses_nothing_and_repeats_nothing(
    proxy: WikiProxy, api_at: ApiAt, listed: ListedChanges
) -> None:
    """New entries are then older than known ones; their numbers distinguish them."""
    listed.rows = [_row(number, NOW - timedelta(minutes=30 - number)) for number in range(1, 29)]
    async with api_at(proxy.api) as api:
        first = await changes_since(api, ChangesCursor(NOW - timedelta(hours=1)).text())
        listed.now = NOW - timedelta(minutes=20)
        listed.rows.append(_row(40, listed.now))
        second = await changes_since(api, first.cursor)
        listed.now += timedelta(seconds=30)
        listed.rows.append(_row(41, listed.now))
        third = await changes_since(api, second.cursor)
    assert len(first.changes) == 28
    assert [each.rc_id for each in second.changes] == [40]
    assert [each.rc_id for each in third.changes] == [41]


@slow
@pytest.mark.parametrize(
    ("away", "oldest", "last_id", "is_gap"),
    [
        (timedelta(hours=1), 500, 10, False),  # nobody keeps so little
        (timedelta(days=7), 11, 10, False),  # the next entry is there
        (timedelta(days=100), 500, 10, True),  # those between are not
        (timedelta(days=100), None, 10, True),  # nothing is there any more
        (timedelta(days=20), None, 10, False),  # nothing happened
    ],
    ids=["an-hour", "a-week", "purged", "empty-for-long", "quiet"],
)
async def test_a_cursor_older_than_what_the_wiki_keeps_is_a_gap(
    proxy: WikiProxy,
    api_at: ApiAt,
    listed: ListedChanges,
    away: timedelta,
    oldest: int | None,
    last_id: int,
    is_gap: bool,
) -> None:
    """Every page is then to be read again."""
    if oldest is not None:
        listed.rows = [_row(oldest + each, NOW - timedelta(hours=2)) for each in range(3)]
    async with api_at(proxy.api) as api:
        batch = await changes_since(api, ChangesCursor(NOW - away, last_id=last_id).text())
    assert batch.is_gap is is_gap


@slow
@pytest.mark.parametrize(
    "rows", [[5], {"a": 5}, "x", [{"rcid": 1, "type": "edit"}], [{"rcid": 1, "timestamp": "soon"}]], ids=str
)
async def test_what_is_no_list_of_changes_is_an_error(proxy: WikiProxy, api_at: ApiAt, rows: Any) -> None:
    """The cursor then stays where it was."""
    answer = ProxiedResponse.of_json({"curtimestamp": "2026-11-21T20:00:00Z", "query": {"recentchanges": rows}})
    proxy.script = lambda _: answer
    async with api_at(proxy.api, attempts=1) as api:
        with pytest.raises(WikiAwayError):
            await changes_since(api, ChangesCursor(NOW).text())


@slow
async def test_a_list_without_end_is_an_error(proxy: WikiProxy, api_at: ApiAt) -> None:
    """The same place twice."""
    document = {
        "curtimestamp": "2026-11-21T20:00:00Z",
        "query": {"recentchanges": []},
        "continue": {"rccontinue": "x|1"},
    }
    proxy.script = lambda _: ProxiedResponse.of_json(document)
    async with api_at(proxy.api) as api:
        with pytest.raises(WikiRefusedError, match="endless"):
            await changes_since(api, ChangesCursor(NOW).text())


@given(
    st.builds(
        ChangesCursor,
        MOMENTS,
        st.frozensets(st.tuples(st.integers(0, 2**40), st.integers(0, 2**33)), max_size=5),
        st.integers(0, 2**40),
        st.integers(0, 2**40),
        st.text(max_size=30),
    )
)
def test_a_cursor_is_read_as_it_was_written(cursor: ChangesCursor) -> None:
    """Its text is all that is kept."""
    assert ChangesCursor.parse(cursor.text()) == cursor


@pytest.mark.parametrize("text", ["x", "[]", "{}", '{"moment": 5}', "[" * 100_000, "null"], ids=len)
def test_what_is_no_cursor_is_an_error_that_says_what_to_do(text: str) -> None:
    """A cursor of another feed, or spoilt."""
    with pytest.raises(ConfigError, match="sweep"):
        ChangesCursor.parse(text)


@pytest.mark.parametrize(
    ("log", "kind"),
    [
        ("move/move_redir", ChangeKind.MOVE),
        ("delete/delete_redir", ChangeKind.DELETE),
        ("delete/revision", ChangeKind.OTHER),
        ("import/interwiki", ChangeKind.IMPORT),
        ("merge/merge", ChangeKind.MERGE),
        ("upload/overwrite", ChangeKind.EDIT),
        ("upload/upload", ChangeKind.NEW),
        ("contentmodel/change", ChangeKind.EDIT),
        ("rights/rights", ChangeKind.OTHER),
        ("thanks/thank", ChangeKind.OTHER),
    ],
)
def test_entries_of_the_log_are_told_apart(log: str, kind: ChangeKind) -> None:
    """By type and action."""
    type_, _, action = log.partition("/")
    row = _row(1, NOW, type="log", logtype=type_, logaction=action)
    row["logparams"] = {"target_ns": 4, "target_title": "T", "dest_title": "D"}
    change = parse_change(row)
    assert (change.kind, change.target_title, change.target_namespace) == (kind, "T", 4)


@given(
    st.dictionaries(
        st.sampled_from(list(_row(1, NOW))), st.one_of(st.none(), st.integers(), st.text(), st.lists(st.integers()))
    )
)
def test_any_row_is_a_change_or_an_error(row: dict[str, Any]) -> None:
    """Whatever stands in it."""
    try:
        change = parse_change({**_row(1, NOW), **row})
    except WikiAwayError:
        return
    assert isinstance(change.title, str)
    assert isinstance(change.page_id, int)


def test_the_overlap_is_longer_than_a_lagging_replica() -> None:
    """Maxlag lets none lag by more than seconds; a transaction takes up to a minute or so."""
    assert timedelta(seconds=60) <= OVERLAP
