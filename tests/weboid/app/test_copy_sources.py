"""What is not captured again, and where copies cannot be looked at beside a run."""

from contextlib import closing
from dataclasses import replace

import pytest

from core.clock import SystemClock
from core.config.settings import FrontierSettings, QualitySettings, Settings
from core.errors import InputError
from playback.access import takedowns
from playback.access.decision_store import open_decisions
from playback.access.takedowns import Takedown, TakedownEffect, TakedownKind
from tests.support.playback_fixtures import NOW, CollectionBuilder, collection  # noqa: F401 fixtures
from weboid.app.live_check_tools import open_withheld_lookup
from weboid.cli.support.run_options import background_checks

SHARED = Settings(frontier=FrontierSettings(url="redis://127.0.0.1:1/0?frontier=a"))


@pytest.mark.parametrize("effect", list(TakedownEffect))
def test_of_what_was_taken_down_nothing_may_be_shown(
    collection: CollectionBuilder,  # noqa: F811 a fixture
    effect: TakedownEffect,
) -> None:
    """Nor of what is not in the index at all; of the others it may."""
    taken = collection.page("https://a.example/taken", "<p>a</p>")
    other = collection.page("https://a.example/other", "<p>b</p>")
    with closing(open_decisions(collection.layout)) as decisions:
        down = Takedown(
            0, TakedownKind.URL, "https://a.example/taken", "", effect, "", "", "test", NOW, None
        )
        takedowns.add_takedowns(decisions, [down])

    with open_withheld_lookup(collection.layout, "", SystemClock()) as is_withheld:
        found = {each: is_withheld(each) for each in (taken, other, "erased")}

    assert found == {taken: True, other: False, "erased": True}


def test_copies_of_a_shared_frontiers_pages_are_looked_at_elsewhere() -> None:
    """Asking for it is refused; a profile that says it is for other runs is not."""
    with pytest.raises(InputError, match="weboid qa"):
        background_checks(SHARED, qa=True)

    assert background_checks(replace(SHARED, quality=QualitySettings(check=True)), qa=None) is None


@pytest.mark.parametrize(
    ("profile", "option", "is_there"),
    [
        (False, None, False),
        (False, True, True),
        (True, None, True),
        (True, False, False),
    ],
)
def test_an_option_goes_before_the_profile(
    *, profile: bool, option: bool | None, is_there: bool
) -> None:
    """Where nothing is said, copies are not looked at."""
    settings = Settings(quality=QualitySettings(check=profile))

    assert (background_checks(settings, qa=option) is not None) is is_there
