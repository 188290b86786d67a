"""A proxy whose control server listens on TCP, and the secret that its workers hold."""

from collections.abc import Iterator

import pytest

from core.config.settings import EgressSettings, ProxySettings, Settings
from core.layout import Layout
from proxy.control.handshake import ClusterSecret
from proxy.process import RunningProxy, run_proxy

SECRET, OTHER = ClusterSecret.of("s" * 32), ClusterSecret.of("t" * 32)
SETTINGS = Settings(egress=EgressSettings(allow=("127.0.0.0/8",)), proxy=ProxySettings(disk_reserve_bytes=0))


@pytest.fixture(scope="module")
def stands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningProxy]:
    """Yield a running proxy whose control server listens on TCP."""
    layout = Layout(tmp_path_factory.mktemp("collection"))
    with run_proxy(layout, SETTINGS, control=("127.0.0.1", 0, SECRET)) as started:
        yield started


def address(stands: RunningProxy) -> tuple[str, int]:
    """Return the host and port of the proxy's control server."""
    return "127.0.0.1", stands.control.port
