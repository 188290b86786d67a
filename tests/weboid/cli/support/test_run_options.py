"""Tests of `weboid.cli.support.run_options`."""

from dataclasses import replace

import pytest

from core.config.settings import FrontierSettings, QualitySettings, Settings
from core.errors import InputError
from tests.support.playback_fixtures import NOW, CollectionBuilder, collection  # noqa: F401 fixtures
from weboid.cli.support.run_options import background_checks

SHARED = Settings(frontier=FrontierSettings(url="redis://127.0.0.1:1/0?frontier=a"))


def test_copies_of_a_shared_frontiers_pages_are_looked_at_elsewhere() -> None:
    """Asking for it is refused; a profile that says it is for other runs is not."""
    with pytest.raises(InputError, match="weboid qa"):
        background_checks(SHARED, qa=True)

    assert background_checks(replace(SHARED, quality=QualitySettings(check=True)), qa=None) is None


@pytest.mark.parametrize(
    ("profile", "option", "is_there"),
    [(False, None, False), (False, True, True), (True, None, True), (True, False, False)],
)
def test_an_option_goes_before_the_profile(*, profile: bool, option: bool | None, is_there: bool) -> None:
    """Without an option and a setting, copies are not checked."""
    settings = Settings(quality=QualitySettings(check=profile))

    assert (background_checks(settings, qa=option) is not None) is is_there
