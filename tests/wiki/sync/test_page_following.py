"""Saves on a real wiki come into the registry, and on to the archive."""

import pytest

from links.registry.farm_queries import missing_targets_on
from links.registry.wikis import change_wiki, ensure_wiki, put_farm
from tests.support.sites.mediawiki import RunningWiki
from tests.support.wiki_writer import WikiWriter
from tests.wiki.sync.conftest import FedRegistry

pytestmark = pytest.mark.slow


def test_the_links_of_a_saved_page_are_archived(fed: FedRegistry, writer: WikiWriter) -> None:
    """A01: all external links of a page that is saved are taken on."""
    page_id, _ = writer.write("Saved", "[https://saved.net/a x] and https://saved.net/b")

    fed.rounds(sweeps=False)

    assert fed.links(page_id) == ["https://saved.net/a", "https://saved.net/b"]
    assert sorted(fed.taken(page_id)) == ["https://saved.net/a", "https://saved.net/b"]


def test_only_what_is_new_on_a_page_is_archived(fed: FedRegistry, writer: WikiWriter) -> None:
    """An edit hands on the links that it adds; what it takes away is gone from the page."""
    page_id, _ = writer.write("Edited", "https://edited.net/a https://edited.net/b")
    fed.rounds(sweeps=False)
    fed.archive.taken.clear()

    writer.write("Edited", "https://edited.net/b https://edited.net/c")
    fed.rounds(sweeps=False)

    assert fed.links(page_id) == ["https://edited.net/b", "https://edited.net/c"]
    assert fed.taken(page_id) == ["https://edited.net/c"]


def test_a_page_keeps_its_number_when_it_is_moved(fed: FedRegistry, writer: WikiWriter) -> None:
    """W33: a move changes the title, and nothing is archived again."""
    page_id, _ = writer.write("Old place", "https://moved.net/")
    fed.rounds(sweeps=False)

    writer.move("Old place", "New place")
    fed.rounds(sweeps=False)

    assert fed.title(page_id) == "New place"
    assert fed.links(page_id) == ["https://moved.net/"]
    assert fed.taken(page_id) == ["https://moved.net/"]


def test_a_deleted_page_leaves_and_a_restored_one_returns(fed: FedRegistry, writer: WikiWriter) -> None:
    """W25, W27: the registry has a page exactly as long as the wiki."""
    page_id, _ = writer.write("Deleted", "https://deleted.net/")
    fed.rounds(sweeps=False)

    writer.delete("Deleted")
    fed.rounds(sweeps=False)
    assert fed.title(page_id) is None

    writer.restore("Deleted")
    fed.rounds(sweeps=False)
    document = writer.ask(action="query", titles="Deleted")
    page_id = document["query"]["pages"][0]["pageid"]
    assert fed.links(page_id) == ["https://deleted.net/"]


def test_a_template_changes_the_links_of_the_pages_that_use_it(
    fed: FedRegistry, writer: WikiWriter, wiki: RunningWiki
) -> None:
    """Links that a template adds to other pages are found, although no change of these pages is reported."""
    writer.write("Template:Source", "https://template.net/old")
    page_id, _ = writer.write("User of it", "{{Source}}")
    fed.rounds(sweeps=False)
    assert fed.links(page_id) == ["https://template.net/old"]

    writer.write("Template:Source", "https://template.net/new")
    fed.rounds(sweeps=False)
    wiki.maintain("runJobs.php")
    fed.clock.advance(minutes=6)
    fed.rounds(sweeps=False)

    assert fed.links(page_id) == ["https://template.net/new"]
    assert "https://template.net/new" in fed.taken(page_id)


def test_vandalism_that_is_gone_within_the_grace_is_never_archived(fed: FedRegistry, writer: WikiWriter) -> None:
    """A link must stand there when the grace is over; one that was rolled back does not."""
    fed.set(grace_h=24)
    page_id, _ = writer.write("Guarded", "https://guarded.net/good")
    fed.rounds(sweeps=False)
    writer.write("Guarded", "https://guarded.net/good https://spam.net/pills")
    fed.rounds(sweeps=False)
    assert fed.taken(page_id) == []

    writer.write("Guarded", "https://guarded.net/good")
    fed.clock.advance(hours=25)
    fed.rounds(sweeps=False)

    assert fed.taken(page_id) == ["https://guarded.net/good"]
    assert fed.links(page_id) == ["https://guarded.net/good"]


def test_pages_of_other_namespaces_are_passed_over(fed: FedRegistry, writer: WikiWriter) -> None:
    """W35: without more being said, articles alone are observed; a page that moves in, is."""
    page_id, _ = writer.write("User:Admin/draft", "https://draft.net/")
    fed.rounds(sweeps=False)
    assert fed.title(page_id) is None

    writer.move("User:Admin/draft", "From a draft", noredirect=1)
    fed.rounds(sweeps=False)
    assert fed.links(page_id) == ["https://draft.net/"]


def test_interwiki_links_are_links_like_any_other(fed: FedRegistry, writer: WikiWriter) -> None:
    """W49: [[doi:…]] leads to a page, as the wiki's map says."""
    page_id, _ = writer.write("Interwiki", "[[doi:10.1000/182]]")
    fed.rounds(sweeps=False)

    (link,) = fed.links(page_id)
    assert link.endswith("doi.org/10.1000/182")
    assert fed.taken(page_id) == [link]


def test_a_link_to_a_page_of_the_farm_that_is_not_there_is_noted(fed: FedRegistry, writer: WikiWriter) -> None:
    """W50: the wiki that it leads to is asked when the page is read."""
    place = "https://other.farm.net/wiki/"
    with fed.store.writing() as rows:
        put_farm(rows, fed.wiki.name.farm, internal=r"(?:^|\.)farm\.net$")
        other = ensure_wiki(rows, fed.wiki.name._replace(dbname="other"), day=0)
        change_wiki(rows, other, url=fed.address, pages_url=f"{place}$1")
    page_id, _ = writer.write("Linking", f"[{place}No_such_target a] [{place}Linking b] https://a.net/")
    fed.rounds(sweeps=False)

    with fed.store.reading() as rows:
        targets = missing_targets_on(rows, fed.wiki.id, page_id)
    assert list(targets) == [f"{place}No_such_target"]
    assert fed.links(page_id) == ["https://a.net/"]


def test_a_page_of_another_content_model_is_passed_over(fed: FedRegistry, writer: WikiWriter) -> None:
    """W25: only wikitext has citations."""
    page_id, _ = writer.write(
        "Data", '{"a": "https://json.net/"}', contentmodel="json", contentformat="application/json"
    )
    fed.rounds(sweeps=False)

    assert fed.title(page_id) is None


def test_a_rollback_within_the_grace_leaves_nothing_to_archive(fed: FedRegistry, writer: WikiWriter) -> None:
    """The link of a vandal whom somebody rolls back is gone from the page and from what is wanted."""
    fed.set(grace_h=48)
    page_id, good = writer.write("Rolled", "https://rolled.net/good")
    fed.rounds(sweeps=False)
    writer.write("Rolled", "https://rolled.net/bad")
    fed.rounds(sweeps=False)
    assert fed.links(page_id) == ["https://rolled.net/bad"]
    document = writer.ask(action="query", titles="Rolled", prop="revisions", rvlimit=1, rvprop="ids")
    newest = document["query"]["pages"][0]["revisions"][0]["revid"]
    writer.act(action="edit", title="Rolled", undo=newest, undoafter=good)

    fed.clock.advance(hours=49)
    fed.rounds(sweeps=False)

    assert fed.taken(page_id) == ["https://rolled.net/good"]


def test_a_page_comes_and_goes_with_its_category(fed: FedRegistry, writer: WikiWriter) -> None:
    """W27, W35: put into a category below the one that is named, and taken out again."""
    writer.write("Category:Observed", "")
    writer.write("Category:Below", "[[Category:Observed]]")
    fed.set(categories=["Observed"])
    page_id, _ = writer.write("Sorted", "https://sorted.net/a")
    fed.rounds(sweeps=False)
    assert fed.title(page_id) is None

    writer.write("Sorted", "https://sorted.net/a [[Category:Below]]")
    fed.rounds(sweeps=False)
    assert fed.links(page_id) == ["https://sorted.net/a"]

    writer.write("Sorted", "https://sorted.net/a https://sorted.net/b")
    fed.rounds(sweeps=False)
    assert fed.taken(page_id) == ["https://sorted.net/a"]
    assert fed.title(page_id) == "Sorted"


def test_a_move_over_a_page_leaves_one_of_them(fed: FedRegistry, writer: WikiWriter) -> None:
    """W33: the page that is overwritten leaves, the one that moved keeps its links."""
    gone_id, _ = writer.write("Target", "https://target.net/")
    page_id, _ = writer.write("Source", "https://source.net/")
    fed.rounds(sweeps=False)

    writer.delete("Target")
    writer.move("Source", "Target", noredirect=1)
    fed.rounds(sweeps=False)

    assert (fed.title(gone_id), fed.title(page_id)) == (None, "Target")
    assert fed.links(page_id) == ["https://source.net/"]


def test_pages_that_scripts_wrote_are_found_by_the_sweep(
    fed: FedRegistry, writer: WikiWriter, wiki: RunningWiki
) -> None:
    """B01, W36: what no change tells of is read with all pages; deletions that nobody told, too."""
    gone_id, _ = writer.write("To be purged", "https://purged.net/")
    fed.rounds()
    wiki.maintain("edit.php", "--no-rc", "Imported", text="https://imported.net/")
    wiki.maintain("deleteBatch.php", text="To be purged\n")
    document = writer.ask(action="query", titles="Imported")
    page_id = document["query"]["pages"][0]["pageid"]
    fed.clock.advance(days=8)
    done = fed.rounds()

    assert fed.links(page_id) == ["https://imported.net/"]
    assert fed.title(gone_id) is None
    assert done[-1].sweep is not None
    assert done[-1].sweep.is_done


def test_a_feeder_that_was_away_for_a_week_goes_on_at_its_cursor(fed: FedRegistry, writer: WikiWriter) -> None:
    """Nothing that happened meanwhile is lost, in whatever order."""
    gone_id, _ = writer.write("Week gone", "https://week.net/gone")
    fed.rounds(sweeps=False)
    ids = [writer.write(f"Week {number}", f"https://week.net/{number}")[0] for number in range(5)]
    writer.delete("Week gone")
    writer.move("Week 3", "Week three")
    fed.clock.advance(days=7)

    fed.rounds(sweeps=False)

    assert [fed.links(each) for each in ids] == [[f"https://week.net/{n}"] for n in range(5)]
    assert (fed.title(gone_id), fed.title(ids[3])) == (None, "Week three")
