"""`weboid archive` and answers by which a site would have its pages left out."""

import pytest

from tests.crawler.conftest import Weboid
from tests.crawler.test_archive_command import check, index, records
from tests.sites import hosts

pytestmark = [pytest.mark.browser, pytest.mark.proxy]

RULES = f"http://{hosts.RULES}"


def test_a_sites_407_is_kept_and_fails_its_own_page_only(weboid: Weboid) -> None:
    """It is in the archive as it came; no browser takes it from a site, so there is no page."""
    url = f"{RULES}/status/407"
    ran = weboid.archive(url, f"{RULES}/page/plain")
    check(weboid.collection)
    page = ran.pages[url]
    query = f"SELECT status FROM captures WHERE url = '{url}'"

    assert (page["outcome"], page["reason"], page["attempts"]) == ("failed", "origin: 407", 1)
    assert index(weboid.collection, query) == [(407,)]
    assert ran.pages[f"{RULES}/page/plain"]["outcome"] == "complete"
    assert not [payload for *_, payload in records(weboid.collection) if b"Weboid-Proxy" in payload]
