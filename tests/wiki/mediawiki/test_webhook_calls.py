"""What changes on a real wiki notifies the webhook, once, signed, and never in an editor's way (A01, A25)."""

import time

import pytest

from tests.support.http_listener import SECRET, StubResponse, is_signed
from tests.support.mediawiki_extension import ExtensionWiki
from tests.support.sites import hosts

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _empty_queue(extended: ExtensionWiki) -> None:
    """The wiki is shared: what other tests wrote is not told here."""
    extended.drop_jobs()


def _pages(extended: ExtensionWiki) -> list[dict[str, object]]:
    return [page for request in extended.webhook.requests for page in request.json()["pages"]]


def _flush(extended: ExtensionWiki) -> list[dict[str, object]]:
    """What the job queue tells."""
    extended.webhook.requests.clear()
    extended.run_jobs()
    return _pages(extended)


def test_an_edit_tells_its_links(extended: ExtensionWiki) -> None:
    """Added and removed links, the page and the revision; a second edit tells the difference alone."""
    page_id, rev = extended.writer.write("Edited", "[https://e.org/1 a] https://e.org/2")
    assert extended.webhook.requests == []  # nobody waited for it
    pages = _flush(extended)
    assert [(page["page_id"], page["rev"]) for page in pages] == [(page_id, rev)]
    assert sorted(pages[0]["added"]) == ["https://e.org/1", "https://e.org/2"]  # type: ignore[call-overload]
    assert pages[0]["removed"] == []
    _, rev = extended.writer.write("Edited", "https://e.org/2 [https://e.org/ü ü]")
    assert _flush(extended) == [
        {"page_id": page_id, "rev": rev, "added": ["https://e.org/%C3%BC"], "removed": ["https://e.org/1"]}
    ]


def test_a_request_is_signed(extended: ExtensionWiki) -> None:
    """The webhook can tell who notifies, and when."""
    extended.writer.write("Signed", "[https://e.org/signed a]")
    extended.run_jobs()
    (request,) = extended.webhook.requests
    assert request.path == "/changes"
    assert request.json()["wiki"] == "library@example"
    assert is_signed(request, SECRET, time.time())
    assert not is_signed(request, SECRET + "x", time.time())


def test_levels_of_the_wiki_are_told_with_its_changes(extended: ExtensionWiki) -> None:
    """A18: what LocalSettings.php says of all copies; what it leaves out is left to the archive."""
    pages = []
    for number, settings in enumerate(({}, {"Store": "text"}, {"Level": "html"})):
        extended.configure(**settings)
        extended.webhook.requests.clear()
        extended.writer.write(f"Levels {number}", f"[https://e.org/levels/{number} a]")
        extended.run_jobs()
        pages += [request.json()["wiki_levels"] for request in extended.webhook.requests]
    assert pages == [
        {"shown": None, "stored": None},
        {"shown": None, "stored": "text"},
        {"shown": "html", "stored": None},
    ]


def test_an_edit_without_new_links_is_not_told(extended: ExtensionWiki) -> None:
    """The same links in other words are no change."""
    extended.writer.write("Same", "https://e.org/same")
    _flush(extended)
    extended.writer.write("Same", "See https://e.org/same")
    extended.writer.write("Same", "See https://e.org/same")
    assert _flush(extended) == []


def test_a_template_tells_of_each_page_that_uses_it(extended: ExtensionWiki) -> None:
    """Links that come with a template are no edit of the page, and told all the same."""
    extended.writer.write("Template:Source", "[https://e.org/old s]")
    first, _ = extended.writer.write("Uses it", "{{Source}}")
    second, _ = extended.writer.write("Uses it, too", "{{Source}}")
    _flush(extended)
    extended.writer.write("Template:Source", "[https://e.org/new s]")
    pages = {page["page_id"]: (page["added"], page["removed"]) for page in _flush(extended)}
    change = (["https://e.org/new"], ["https://e.org/old"])
    assert pages == {first: change, second: change}


def test_a_deleted_page_has_no_links_and_a_restored_one_has(extended: ExtensionWiki) -> None:
    """Deleting removes all, restoring adds all."""
    page_id, _ = extended.writer.write("Fleeting", "https://e.org/fleeting")
    _flush(extended)
    extended.writer.delete("Fleeting")
    (pages,) = _flush(extended)
    assert (pages["page_id"], pages["removed"]) == (page_id, ["https://e.org/fleeting"])
    extended.writer.restore("Fleeting")
    (pages,) = _flush(extended)
    assert pages["added"] == ["https://e.org/fleeting"]


def test_a_move_is_told(extended: ExtensionWiki) -> None:
    """The page has another name now, with the links that it had."""
    page_id, _ = extended.writer.write("Wanderer", "https://e.org/wanderer")
    _flush(extended)
    extended.writer.move("Wanderer", "Wayfarer")
    pages = _flush(extended)
    assert [(page["page_id"], page["added"], page["removed"]) for page in pages] == [(page_id, [], [])]


def test_other_namespaces_are_not_told(extended: ExtensionWiki) -> None:
    """Those with content are told, unless the setting names others."""
    extended.writer.write("Talk:Edited", "https://e.org/talk")
    assert _flush(extended) == []
    extended.configure(Namespaces=[1])
    extended.writer.write("Talk:Edited", "https://e.org/talk2")
    extended.writer.write("Not covered", "https://e.org/main")
    assert [page["added"] for page in _flush(extended)] == [["https://e.org/talk2"]]


def test_thousands_of_links_are_told_in_parts(extended: ExtensionWiki) -> None:
    """A page's links fit into jobs of a size that every database keeps."""
    urls = [f"https://e.org/{'x' * 80}/{number}" for number in range(1_200)]
    extended.writer.write("Huge", " ".join(urls))
    pages = _flush(extended)
    assert len(pages) > 1
    assert sorted(url for page in pages for url in page["added"]) == sorted(urls)  # type: ignore[attr-defined]
    assert max(len(request.body) for request in extended.webhook.requests) < 65_535


def test_changes_that_the_webhook_did_not_accept_are_sent_again(extended: ExtensionWiki) -> None:
    """A silent webhook keeps the job in the queue, and others from trying for a while."""
    extended.configure(Pause=600)
    extended.webhook.answer = lambda request: StubResponse(503)
    extended.writer.write("Unheard", "https://e.org/unheard")
    extended.writer.write("Unheard, too", "https://e.org/unheard-too")
    # The wiki takes its jobs by chance, and may end a run before the last.
    output = "".join(extended.run_jobs() for _ in range(2))
    assert len(extended.webhook.requests) == 1
    assert output.count("error=the webhook") == 2
    extended.reset()
    assert sorted(str(page["added"]) for page in _flush(extended)) == [
        "['https://e.org/unheard']",
        "['https://e.org/unheard-too']",
    ]


def test_a_wiki_without_secret_tells_nothing(extended: ExtensionWiki) -> None:
    """What nobody could believe is not sent; the job says what is missing."""
    extended.configure(Secret="short")
    extended.writer.write("Unsigned", "https://e.org/unsigned")
    assert "$wgWeboidSecretFile" in extended.run_jobs()
    assert extended.webhook.requests == []
    extended.reset()
    extended.run_jobs()


def test_the_secret_may_be_in_a_file(extended: ExtensionWiki) -> None:
    """Without its line end."""
    file = extended.wiki.folder / "secret"
    file.write_text(f"{SECRET}-of-the-file\n")
    extended.configure(SecretFile=str(file))
    extended.writer.write("By file", "https://e.org/by-file")
    extended.run_jobs()
    assert is_signed(extended.webhook.requests[0], f"{SECRET}-of-the-file", time.time())


def test_the_wikis_own_name_is_its_database_at_its_host(extended: ExtensionWiki) -> None:
    """Without a setting the name is one that the registry takes."""
    extended.configure(Wiki="")
    extended.writer.write("Named", "https://e.org/named")
    extended.run_jobs()
    assert extended.webhook.requests[0].json()["wiki"] == f"my_wiki@{hosts.WIKI}"


def test_a_wiki_without_webhook_makes_no_jobs(extended: ExtensionWiki) -> None:
    """Nothing waits in the queue for somebody who does not exist."""
    extended.configure(Webhook="")
    extended.writer.write("Quiet", "https://e.org/quiet")
    assert "weboid" not in extended.run_jobs()
