"""The acid pages through archive and playback: every cell is in the WARC and visible (issue 5)."""

import asyncio

import pytest

from core.page_manifest import VisitOutcome
from tests.support.acid_run import CellResult, archive, play, served, shared_share
from tests.support.commands import WeboidRunner, profile_for
from tests.support.sites.acid import CELLS
from tests.support.sites.acid_cell import AcidCell
from tests.support.sites.web import TestWeb
from tests.support.stored_records import check

pytestmark = [pytest.mark.browser, pytest.mark.proxy, pytest.mark.playback]
GREEN = 0.9  # of a mark's pixels; a lossy picture's edges may differ

each_cell = pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)


@pytest.fixture(scope="module")
def results(web: TestWeb, tmp_path_factory: pytest.TempPathFactory) -> dict[str, CellResult]:
    """Archive every cell with the default profile in shared contexts, once, and open it in `weboid serve`."""
    web.clear()
    folder = tmp_path_factory.mktemp("acid")
    weboid = WeboidRunner(folder, profile_for(web, folder / "profile.toml"))
    ran, cell_results = archive(weboid, CELLS)
    assert ran.code == 0, ran.err
    assert shared_share(web.requests(), CELLS) > 0.5  # the others open a context, or follow a page that ended theirs
    check(weboid.collection)
    with served(weboid) as address:
        asyncio.run(play(address, cell_results))
    return {each.cell.name: each for each in cell_results}


@each_cell
def test_a_cell_is_whole_in_the_warc_and_the_index(results: dict[str, CellResult], cell: AcidCell) -> None:
    """Each URL as a response, or as a revisit whose original is there; nothing that nobody saw."""
    result = results[cell.name]

    assert result.missing == []
    assert result.kept == []


@each_cell
def test_a_cell_was_seen_when_it_was_archived(results: dict[str, CellResult], cell: AcidCell) -> None:
    """Its marks are green in the screenshot, its words are in the text, and it is complete."""
    result = results[cell.name]

    assert result.page is not None
    assert (result.page.outcome, result.page.reason) == (VisitOutcome.COMPLETE, "")
    assert result.page.final_url == (cell.end or cell.url)
    assert [share > GREEN for share in result.seen] == [True] * cell.marks, result.seen
    assert cell.text in result.text


@each_cell
def test_a_cell_is_visible_in_playback(results: dict[str, CellResult], cell: AcidCell) -> None:
    """The same marks and words in a browser that reads the copy, which asks nobody else.

    A mark that playback cannot show is named by its cell with the reason; once it can, the cell
    must not name it any more.
    """
    result = results[cell.name]
    wanted = [number not in cell.dark for number in range(cell.marks)]

    assert [share > GREEN for share in result.played] == wanted, result.played
    assert cell.text in result.played_text
    assert result.strays == []


def test_what_playback_cannot_show_has_its_reason() -> None:
    """A cell with marks that stay dark says why."""
    assert [each.name for each in CELLS if bool(each.dark) != bool(each.short)] == []
