"""Tests of `links.registry.citations`."""

import pytest

from core.config.settings import LinksSettings
from links.check_result import CheckMethod, CheckResult, CheckVerdict, StatusCode
from links.checker.check_leases import ALL_HOSTS
from links.checker.check_worker import plan_from_settings
from links.checker.result_store import UrlCheckResult, record_results
from links.registry.citations import CitationFlag, CitationRow, put_citations
from links.registry.database import RegistryStore
from links.registry.pages import LinkRef
from links.states import LinkState
from tests.support.check_farm import Days
from tests.support.check_rows import watch

FINE = CheckResult(StatusCode.FINE, CheckVerdict.OK, CheckMethod.GET, http=200, mime="text/html")


GONE = CheckResult(StatusCode.NOT_FOUND, CheckVerdict.GONE, CheckMethod.GET, http=404)


URL = "http://a.example/x"


@pytest.mark.parametrize(
    ("trusts", "said", "state"),
    [
        (True, CitationFlag.DEAD | CitationFlag.REFERENCE, LinkState.DEAD),
        (True, CitationFlag.LIVE | CitationFlag.REFERENCE, LinkState.DYING),
        (False, CitationFlag.DEAD, LinkState.DYING),
    ],
)
def test_a_pages_dead_link_tag_counts_where_it_is_trusted(
    store: RegistryStore, trusts: bool, said: CitationFlag, state: LinkState
) -> None:
    """B10: at the link's first own failure; a look that finds it alive says otherwise."""
    url_id = watch(store, [URL])[URL]
    said_so = LinksSettings(preset="iabot", trust_tags=trusts, browser=False)
    rules = plan_from_settings(said_so, ALL_HOSTS).rules
    with store.writing() as rows:
        put_citations(rows, [1], [CitationRow(LinkRef(1, url_id), "citation", flags=said)], day=100)
        fine, gone = (
            record_results(rows, [UrlCheckResult(url_id, each, Days(day).now())], rules)[0]
            for day, each in ((100, FINE), (107, GONE))
        )

    assert (fine.after, gone.after) == (LinkState.ALIVE, state)
