"""A page behind a login is captured again by a run that stays, as whom it was captured: run for real."""

import asyncio
import json
import os
import signal
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from core.clock import SystemClock
from core.layout import Layout
from core.playback_check import QaVerdict
from crawler.capture.site_logins import make_key_file, write_login
from links.registry.database import open_registry_store
from qa.check_store import record_review
from render.sign_in import Login, SiteSession
from tests.crawler.capture.test_logged_in_visits import (
    SECRET,
    make_collection,
    members,  # noqa: F401 a fixture
    weboid_for,
)

pytestmark = [pytest.mark.browser, pytest.mark.proxy, pytest.mark.playback, pytest.mark.slow, pytest.mark.timeout(900)]

URL = "http://members.test/private"


def test_a_run_that_stays_captures_a_members_page_again_as_a_member(
    members: Any,  # noqa: F811 a fixture
    tmp_path: Path,
) -> None:
    """A person finds the copy bad while the run goes on; nobody starts anything for its repair."""
    login = f'login = {{ names = ["club"], key_file = "{tmp_path / "key"}" }}\n'
    weboid = weboid_for(members, tmp_path, login)
    cookie = {"name": "sid", "value": SECRET, "domain": "members.test", "path": "/"}
    club = Login("club", ("members.test",), datetime.now(UTC), session=SiteSession((cookie,)))
    asyncio.run(make_collection(weboid.collection))
    write_login(weboid.collection / "logins", club, make_key_file(tmp_path / "key"))
    process = weboid.start(*("archive", "--stay", "--qa", "--json", "--profile", str(weboid.profile)), URL)
    try:
        assert process.stdout is not None
        events = map(json.loads, process.stdout)
        checked = next(each for each in events if each["event"] == "checked")
        with closing(open_registry_store(Layout(weboid.collection))) as store, store.writing() as rows:
            page_id, now = checked["page_id"], SystemClock().now()
            assert record_review(rows, page_id, "images", QaVerdict.BROKEN, by="Ada", now=now)
        repaired = next(each for each in events if each["event"] == "repaired")
        process.terminate()
        process.communicate()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()

    assert (repaired["url"], repaired["page_id"]) == (URL, checked["page_id"])
    assert repaired["state"] == "done-better", repaired
    visits = [headers for host, path, headers in members.requests if path == "/private"]
    assert len(visits) == 2
    assert all(SECRET in headers.get("Cookie", "") for headers in visits)
