"""Tests of `core.config.stored_level`."""

from core.config.settings import BehaviourSettings, MediaSettings, Settings, VisitSettings
from core.config.stored_level import StoredLevel
from crawler.capture.page_capture import limit_settings


def test_settings_of_a_level_make_nothing_that_it_leaves_out() -> None:
    """No pictures of a page whose images are missing, and nobody plays what is not recorded."""
    full = Settings(
        visit=VisitSettings(pdf=True),
        behaviours=BehaviourSettings(run=("consent", "scroll", "lazy", "media", "play")),
        media=MediaSettings(players=True),
    )
    assert limit_settings(full, StoredLevel.EVERYTHING) == full

    no_media = limit_settings(full, StoredLevel.NO_MEDIA)
    assert no_media.visit == full.visit
    assert (no_media.media.players, no_media.behaviours.run) == (False, ("consent", "scroll", "lazy"))

    text = limit_settings(full, StoredLevel.TEXT)
    made = (text.visit.view, text.visit.full_page, text.visit.thumbnail, text.visit.pdf)
    assert not any((*made, text.visit.favicon, text.media.players))
    assert (text.visit.dom, text.visit.text) == (True, True)
    assert text.behaviours.run == ("consent", "scroll")
