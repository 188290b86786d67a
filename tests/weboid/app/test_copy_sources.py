"""Pages that are not captured again, and runs beside which copies cannot be checked."""

from contextlib import closing

import pytest

from playback.access import takedowns
from playback.access.decision_store import open_decisions
from playback.access.takedowns import Takedown, TakedownEffect, TakedownKind
from qa.snapshot_reader import open_snapshots
from tests.support.playback_fixtures import NOW, CollectionBuilder, collection  # noqa: F401 fixtures


@pytest.mark.parametrize("effect", list(TakedownEffect))
def test_of_what_was_taken_down_nothing_may_be_shown(
    collection: CollectionBuilder,  # noqa: F811 a fixture
    effect: TakedownEffect,
) -> None:
    """Nor of what is not in the index at all; of the others it may."""
    taken = collection.page("https://a.example/taken", "<p>a</p>")
    other = collection.page("https://a.example/other", "<p>b</p>")
    with closing(open_decisions(collection.layout)) as decisions:
        down = Takedown(0, TakedownKind.URL, "https://a.example/taken", "", effect, "", "", "test", NOW, None)
        takedowns.add_takedowns(decisions, [down])

    with open_snapshots(collection.layout, "") as snapshots:
        withheld_by_id = {each: snapshots.is_withheld(each) for each in (taken, other, "erased")}

    assert withheld_by_id == {taken: True, other: False, "erased": True}
