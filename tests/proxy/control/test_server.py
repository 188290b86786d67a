"""Tests of `proxy.control.server`."""

import asyncio
import socket
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from core.config.settings import EgressSettings
from core.errors import ProxyUnavailableError
from core.layout import Layout
from proxy.control.client import ProxyClient
from proxy.control.server import MAX_UNAUTHENTICATED
from proxy.process import RunningProxy, run_proxy
from proxy.request_log import RequestOutcome
from tests.support.control_proxy import SECRET, SETTINGS, address
from tests.support.polling import wait_until
from tests.support.proxy_fixtures import ProxyBrowser

pytestmark = pytest.mark.proxy


def test_too_many_strangers_at_once_are_not_heard(stands: RunningProxy) -> None:
    """They cost a bounded number of threads; a worker is served when they are gone."""
    before = threading.active_count()
    crowd = [socket.create_connection(address(stands)) for _ in range(MAX_UNAUTHENTICATED + 50)]
    extra = crowd[-1]
    extra.settimeout(120)
    assert extra.recv(1) == b""
    assert threading.active_count() - before <= MAX_UNAUTHENTICATED + 10
    for sock in crowd:
        sock.close()

    def is_served() -> bool:
        with suppress(ProxyUnavailableError):
            return bool(asyncio.run(ProxyClient(address(stands), SECRET).status())["pid"])
        return False

    wait_until(is_served)


@pytest.mark.parametrize("listen", ["127.0.0.1", "0.0.0.0"])
async def test_a_page_gets_nothing_from_the_proxys_own_ports(tmp_path: Path, listen: str) -> None:
    """Its network is allowed, and yet no way leads to control or to the proxy itself (C-01)."""
    everything = replace(SETTINGS, egress=EgressSettings(allow=("127.0.0.0/8", "0.0.0.0/8", "::1/128")))
    control = (listen, 0, SECRET)
    with run_proxy(Layout(tmp_path), everything, control=control) as started:
        client = ProxyClient(address(started), SECRET)
        hosts = ["127.0.0.1", "localhost", "0.0.0.0", "[::ffff:127.0.0.1]"]
        hosts += ["127.0.0.9"] if listen == "0.0.0.0" else []
        async with client.visit("page", bucket="default") as visit:
            given_ = visit.credentials
            statuses = await asyncio.to_thread(
                lambda: [
                    _ask(given_.port, given_.username, given_.password, f"http://{host}:{port}/")
                    for host in hosts
                    for port in (started.control.port, given_.port if host != "127.0.0.9" else 1)
                ]
            )
            entries = await visit.seal(grace_s=1)
        refused = started.control.refused

    assert set(statuses) == {403}
    assert {entry.kept for entry in entries} == {RequestOutcome.BLOCKED}
    assert refused == 0


def _ask(port: int, username: str, password: str, url: str) -> int:
    browser = ProxyBrowser(port, username, password)
    try:
        return browser.get(url).status
    finally:
        browser.close()
