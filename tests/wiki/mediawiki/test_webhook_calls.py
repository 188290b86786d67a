"""Changed links of a real wiki are sent to the webhook: once, signed, without delaying editors (A01, A25)."""

import time

import pytest

from tests.support.http_listener import SECRET, StubResponse, is_signed
from tests.support.mediawiki_extension import ExtensionWiki
from tests.support.sites import hosts

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _empty_queue(extended: ExtensionWiki) -> None:
    """Delete jobs of other tests."""
    extended.drop_jobs()


def _pages(extended: ExtensionWiki) -> list[dict[str, object]]:
    return [page for request in extended.webhook.requests for page in request.json()["pages"]]


def _flush(extended: ExtensionWiki) -> list[dict[str, object]]:
    """Run the queued jobs; return the pages that were sent."""
    extended.webhook.requests.clear()
    extended.run_jobs()
    return _pages(extended)


def test_edits_send_changed_links(extended: ExtensionWiki) -> None:
    """With page and revision; a second edit sends only the difference."""
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


def test_requests_are_signed(extended: ExtensionWiki) -> None:
    """With the secret and the time."""
    extended.writer.write("Signed", "[https://e.org/signed a]")
    extended.run_jobs()
    (request,) = extended.webhook.requests
    assert request.path == "/changes"
    assert request.json()["wiki"] == "library@example"
    assert is_signed(request, SECRET, time.time())
    assert not is_signed(request, SECRET + "x", time.time())


def test_changes_contain_the_levels_of_the_wiki(extended: ExtensionWiki) -> None:
    """A18: levels of LocalSettings.php, or null."""
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


def test_edits_that_change_no_links_are_not_sent(extended: ExtensionWiki) -> None:
    """The same links in another text."""
    extended.writer.write("Same", "https://e.org/same")
    _flush(extended)
    extended.writer.write("Same", "See https://e.org/same")
    extended.writer.write("Same", "See https://e.org/same")
    assert _flush(extended) == []


def test_changed_template_sends_all_pages_that_use_it(extended: ExtensionWiki) -> None:
    """Although the pages are not edited."""
    extended.writer.write("Template:Source", "[https://e.org/old s]")
    first, _ = extended.writer.write("Uses it", "{{Source}}")
    second, _ = extended.writer.write("Uses it, too", "{{Source}}")
    _flush(extended)
    extended.writer.write("Template:Source", "[https://e.org/new s]")
    pages = {page["page_id"]: (page["added"], page["removed"]) for page in _flush(extended)}
    change = (["https://e.org/new"], ["https://e.org/old"])
    assert pages == {first: change, second: change}


def test_deletions_and_restorations_send_all_links(extended: ExtensionWiki) -> None:
    """As removed and as added."""
    page_id, _ = extended.writer.write("Fleeting", "https://e.org/fleeting")
    _flush(extended)
    extended.writer.delete("Fleeting")
    (pages,) = _flush(extended)
    assert (pages["page_id"], pages["removed"]) == (page_id, ["https://e.org/fleeting"])
    extended.writer.restore("Fleeting")
    (pages,) = _flush(extended)
    assert pages["added"] == ["https://e.org/fleeting"]


def test_moves_are_sent(extended: ExtensionWiki) -> None:
    """Without changed links."""
    page_id, _ = extended.writer.write("Wanderer", "https://e.org/wanderer")
    _flush(extended)
    extended.writer.move("Wanderer", "Wayfarer")
    pages = _flush(extended)
    assert [(page["page_id"], page["added"], page["removed"]) for page in pages] == [(page_id, [], [])]


def test_other_namespaces_are_not_sent(extended: ExtensionWiki) -> None:
    """Content namespaces, unless the setting names others."""
    extended.writer.write("Talk:Edited", "https://e.org/talk")
    assert _flush(extended) == []
    extended.configure(Namespaces=[1])
    extended.writer.write("Talk:Edited", "https://e.org/talk2")
    extended.writer.write("Not covered", "https://e.org/main")
    assert [page["added"] for page in _flush(extended)] == [["https://e.org/talk2"]]


def test_many_links_are_sent_in_several_jobs(extended: ExtensionWiki) -> None:
    """Each within the size limit of all databases."""
    urls = [f"https://e.org/{'x' * 80}/{number}" for number in range(1_200)]
    extended.writer.write("Huge", " ".join(urls))
    pages = _flush(extended)
    assert len(pages) > 1
    assert sorted(url for page in pages for url in page["added"]) == sorted(urls)  # type: ignore[attr-defined]
    assert max(len(request.body) for request in extended.webhook.requests) < 65_535


def test_failed_jobs_are_retried(extended: ExtensionWiki) -> None:
    """After a failure other jobs do not send requests for a while."""
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


def test_nothing_is_sent_without_a_secret(extended: ExtensionWiki) -> None:
    """The job's error names the setting."""
    extended.configure(Secret="short")
    extended.writer.write("Unsigned", "https://e.org/unsigned")
    assert "$wgWeboidSecretFile" in extended.run_jobs()
    assert extended.webhook.requests == []
    extended.reset()
    extended.run_jobs()


def test_the_secret_may_be_in_a_file(extended: ExtensionWiki) -> None:
    """A trailing line break is ignored."""
    file = extended.wiki.folder / "secret"
    file.write_text(f"{SECRET}-of-the-file\n")
    extended.configure(SecretFile=str(file))
    extended.writer.write("By file", "https://e.org/by-file")
    extended.run_jobs()
    assert is_signed(extended.webhook.requests[0], f"{SECRET}-of-the-file", time.time())


def test_default_name_consists_of_database_and_host(extended: ExtensionWiki) -> None:
    """In a form that the registry accepts."""
    extended.configure(Wiki="")
    extended.writer.write("Named", "https://e.org/named")
    extended.run_jobs()
    assert extended.webhook.requests[0].json()["wiki"] == f"my_wiki@{hosts.WIKI}"


def test_a_wiki_without_webhook_makes_no_jobs(extended: ExtensionWiki) -> None:
    """They could not be run."""
    extended.configure(Webhook="")
    extended.writer.write("Quiet", "https://e.org/quiet")
    assert "weboid" not in extended.run_jobs()
