"""Tests of `render.site_session`."""

from typing import Any

import pytest
from hypothesis import given, strategies

from core.config.settings import VisitSettings
from core.errors import ConfigError
from render.browser import Browser
from render.site_session import SiteSession, check_hosts, confine_to_hosts, covers_host_of
from render.visit import VisitRequest, visit


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="session")
async def test_no_other_host_is_sent_a_login(proxy: Any, browser: Browser, settings: VisitSettings, clock: Any) -> None:
    """Of a domain's cookie the named host alone is sent its share; frames of others get nothing.

    A cookie that the browser does not take leaves the others be.
    """
    cookies = [{"name": "sid", "value": "secret", "domain": ".test", "path": "/"}]
    session = confine_to_hosts(
        [{"name": "sid", "value": "secret", "domain": ".site.test", "path": "/"}, *cookies], {}, ["site.test"]
    )
    bad = {"name": "__Host-a;b", "value": "\x00", "domain": "site.test", "path": "no path"}
    session = SiteSession((bad, *session.cookies, bad))
    request = VisitRequest("http://site.test/told.html", proxy.endpoint(), session)
    await visit(browser, request, settings, clock=clock)

    sent = {asked.url: asked.headers.get("cookie", "") for asked in proxy.asked}
    assert "sid=secret" in sent["http://site.test/told.html"]
    assert sent["http://other.test/told-frame.html"] == ""
    assert [each["domain"] for each in session.cookies[1:-1]] == ["site.test"]


NAMES = strategies.sampled_from(["example.org", "a.example.org", "b.a.example.org", "org", "c.org"])


@given(
    NAMES,
    strategies.booleans(),
    strategies.lists(
        strategies.builds(lambda wide, name: f"*.{name}" if wide else name, strategies.booleans(), NAMES),
        min_size=1,
        max_size=3,
    ),
    NAMES,
)
def test_a_confined_cookie_is_for_named_hosts_only(domain: str, below: bool, hosts: list[str], asked: str) -> None:
    """Whatever a site had set it for: a host that it would be sent to is one that is named."""
    cookie = {"name": "a", "value": "b", "domain": f".{domain}" if below else domain, "path": "/"}
    for kept in confine_to_hosts([cookie], {}, hosts).cookies:
        goes_to = kept["domain"]
        inside = asked == goes_to.removeprefix(".") or (goes_to.startswith(".") and asked.endswith(goes_to))
        if inside:
            assert covers_host_of(hosts, f"https://{asked}/")
            assert asked == domain or (below and asked.endswith(f".{domain}"))


def test_a_login_is_never_for_every_host() -> None:
    """The pattern that stands for all hosts, and none at all, are refused."""
    for hosts in ([], ["*"], ["example.org", "*"], ["ex*mple.org"]):
        with pytest.raises(ConfigError):
            check_hosts(hosts)
