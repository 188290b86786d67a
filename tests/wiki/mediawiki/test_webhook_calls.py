"""What changes on a real wiki notifies the webhook, once, signed, and never in an editor's way (A01, A25)."""

import time

import pytest

from tests.support.http_listener import SECRET, Said, is_signed
from tests.support.mediawiki_extension import Extended
from tests.support.sites import hosts

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _empty_queue(extended: Extended) -> None:
    """The wiki is shared: what other tests wrote is not told here."""
    extended.drop_jobs()


def _pages(extended: Extended) -> list[dict[str, object]]:
    return [page for heard in extended.webhook.heard for page in heard.json()["pages"]]


def _flush(extended: Extended) -> list[dict[str, object]]:
    """What the job queue tells."""
    extended.webhook.heard.clear()
    extended.run_jobs()
    return _pages(extended)


def test_an_edit_tells_its_links(extended: Extended) -> None:
    """Added and removed links, the page and the revision; a second edit tells the difference alone."""
    page_id, rev = extended.writer.write("Edited", "[https://e.org/1 a] https://e.org/2")
    assert extended.webhook.heard == []  # nobody waited for it
    told = _flush(extended)
    assert [(page["page_id"], page["rev"]) for page in told] == [(page_id, rev)]
    assert sorted(told[0]["added"]) == ["https://e.org/1", "https://e.org/2"]  # type: ignore[call-overload]
    assert told[0]["removed"] == []
    _, rev = extended.writer.write("Edited", "https://e.org/2 [https://e.org/ü ü]")
    assert _flush(extended) == [
        {"page_id": page_id, "rev": rev, "added": ["https://e.org/%C3%BC"], "removed": ["https://e.org/1"]}
    ]


def test_a_request_is_signed(extended: Extended) -> None:
    """The webhook can tell who notifies, and when."""
    extended.writer.write("Signed", "[https://e.org/signed a]")
    extended.run_jobs()
    (heard,) = extended.webhook.heard
    assert heard.path == "/changes"
    assert heard.json()["wiki"] == "library@example"
    assert is_signed(heard, SECRET, time.time())
    assert not is_signed(heard, SECRET + "x", time.time())


def test_levels_of_the_wiki_are_told_with_its_changes(extended: Extended) -> None:
    """A18: what LocalSettings.php says of all copies; what it leaves out is left to the archive."""
    told = []
    for number, settings in enumerate(({}, {"Store": "text"}, {"Level": "html"})):
        extended.say(**settings)
        extended.webhook.heard.clear()
        extended.writer.write(f"Levels {number}", f"[https://e.org/levels/{number} a]")
        extended.run_jobs()
        told += [heard.json()["wiki_levels"] for heard in extended.webhook.heard]
    assert told == [
        {"shown": None, "stored": None},
        {"shown": None, "stored": "text"},
        {"shown": "html", "stored": None},
    ]


def test_an_edit_without_new_links_is_not_told(extended: Extended) -> None:
    """The same links in other words are no change."""
    extended.writer.write("Same", "https://e.org/same")
    _flush(extended)
    extended.writer.write("Same", "See https://e.org/same")
    extended.writer.write("Same", "See https://e.org/same")
    assert _flush(extended) == []


def test_a_template_tells_of_each_page_that_uses_it(extended: Extended) -> None:
    """Links that come with a template are no edit of the page, and told all the same."""
    extended.writer.write("Template:Source", "[https://e.org/old s]")
    first, _ = extended.writer.write("Uses it", "{{Source}}")
    second, _ = extended.writer.write("Uses it, too", "{{Source}}")
    _flush(extended)
    extended.writer.write("Template:Source", "[https://e.org/new s]")
    told = {page["page_id"]: (page["added"], page["removed"]) for page in _flush(extended)}
    change = (["https://e.org/new"], ["https://e.org/old"])
    assert told == {first: change, second: change}


def test_a_deleted_page_has_no_links_and_a_restored_one_has(extended: Extended) -> None:
    """Deleting removes all, restoring adds all."""
    page_id, _ = extended.writer.write("Fleeting", "https://e.org/fleeting")
    _flush(extended)
    extended.writer.delete("Fleeting")
    (told,) = _flush(extended)
    assert (told["page_id"], told["removed"]) == (page_id, ["https://e.org/fleeting"])
    extended.writer.restore("Fleeting")
    (told,) = _flush(extended)
    assert told["added"] == ["https://e.org/fleeting"]


def test_a_move_is_told(extended: Extended) -> None:
    """The page has another name now, with the links that it had."""
    page_id, _ = extended.writer.write("Wanderer", "https://e.org/wanderer")
    _flush(extended)
    extended.writer.move("Wanderer", "Wayfarer")
    told = _flush(extended)
    assert [(page["page_id"], page["added"], page["removed"]) for page in told] == [(page_id, [], [])]


def test_other_namespaces_are_not_told(extended: Extended) -> None:
    """Those with content are told, unless the setting names others."""
    extended.writer.write("Talk:Edited", "https://e.org/talk")
    assert _flush(extended) == []
    extended.say(Namespaces=[1])
    extended.writer.write("Talk:Edited", "https://e.org/talk2")
    extended.writer.write("Not covered", "https://e.org/main")
    assert [page["added"] for page in _flush(extended)] == [["https://e.org/talk2"]]


def test_thousands_of_links_are_told_in_parts(extended: Extended) -> None:
    """A page's links fit into jobs of a size that every database keeps."""
    urls = [f"https://e.org/{'x' * 80}/{number}" for number in range(1_200)]
    extended.writer.write("Huge", " ".join(urls))
    told = _flush(extended)
    assert len(told) > 1
    assert sorted(url for page in told for url in page["added"]) == sorted(urls)  # type: ignore[attr-defined]
    assert max(len(heard.body) for heard in extended.webhook.heard) < 65_535


def test_what_was_not_heard_is_told_again(extended: Extended) -> None:
    """A silent webhook keeps the job in the queue, and others from trying for a while."""
    extended.say(Pause=600)
    extended.webhook.answer = lambda heard: Said(503)
    extended.writer.write("Unheard", "https://e.org/unheard")
    extended.writer.write("Unheard, too", "https://e.org/unheard-too")
    # The wiki takes its jobs by chance, and may end a run before the last.
    said = "".join(extended.run_jobs() for _ in range(2))
    assert len(extended.webhook.heard) == 1
    assert said.count("error=the webhook") == 2
    extended.forget()
    assert sorted(str(page["added"]) for page in _flush(extended)) == [
        "['https://e.org/unheard']",
        "['https://e.org/unheard-too']",
    ]


def test_a_wiki_without_secret_tells_nothing(extended: Extended) -> None:
    """What nobody could believe is not sent; the job says what is missing."""
    extended.say(Secret="short")
    extended.writer.write("Unsigned", "https://e.org/unsigned")
    assert "$wgWeboidSecretFile" in extended.run_jobs()
    assert extended.webhook.heard == []
    extended.forget()
    extended.run_jobs()


def test_the_secret_may_be_in_a_file(extended: Extended) -> None:
    """Without its line end."""
    file = extended.wiki.folder / "secret"
    file.write_text(f"{SECRET}-of-the-file\n")
    extended.say(SecretFile=str(file))
    extended.writer.write("By file", "https://e.org/by-file")
    extended.run_jobs()
    assert is_signed(extended.webhook.heard[0], f"{SECRET}-of-the-file", time.time())


def test_the_wikis_own_name_is_its_database_at_its_host(extended: Extended) -> None:
    """Without a setting the name is one that the registry takes."""
    extended.say(Wiki="")
    extended.writer.write("Named", "https://e.org/named")
    extended.run_jobs()
    assert extended.webhook.heard[0].json()["wiki"] == f"my_wiki@{hosts.WIKI}"


def test_a_wiki_without_bell_makes_no_jobs(extended: Extended) -> None:
    """Nothing waits in the queue for somebody who does not exist."""
    extended.say(Webhook="")
    extended.writer.write("Quiet", "https://e.org/quiet")
    assert "weboid" not in extended.run_jobs()
