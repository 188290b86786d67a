"""Not one packet goes to a private address, whatever a page names (C-03, C-04).

The whole proxy runs in a network namespace of its own, with a resolver and a name server of the
test's own, a default route into a cable that leads nowhere, and a raw socket that sees
every packet. This needs root (or rights over namespaces); without, the test fails and says so.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.proxy

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Run `hostile_net` in a network namespace and return its report."""
    folder = tmp_path_factory.mktemp("namespace")
    command = ["unshare", "--net", "--mount", sys.executable, "-m", "tests.proxy.hostile_net"]
    result = subprocess.run([*command, str(folder)], capture_output=True, text=True, check=False, cwd=ROOT, timeout=120)
    assert result.returncode == 0, (
        f"The network namespace does not work (it takes root): {result.stderr}{result.stdout}"
    )
    document: dict[str, object] = json.loads(result.stdout)
    return document


def test_no_packet_goes_to_a_private_address(seen: dict[str, object]) -> None:
    """Zero SYNs, over every hostile URL, while public addresses get theirs."""
    assert seen["missed"] == 0
    assert seen["private"] == {}
    assert seen["public"] == ["93.184.216.34:80", "[2606:4700::1111]:80"]


def test_every_hostile_url_is_blocked_and_says_why(seen: dict[str, object]) -> None:
    """The ledger begins with address, port or host; a name without an address with dns."""
    assert seen["let_through"] == []


def test_a_name_that_flips_is_refused_when_it_has_flipped(seen: dict[str, object]) -> None:
    """First public, then loopback: the first answer holds for a minute, the second is checked."""
    assert seen["flipped"] == ["connect", "address"]


def test_this_machines_public_address_is_refused(seen: dict[str, object]) -> None:
    """The namespace has 8.8.4.4 as its own; a server listens there and hears nothing."""
    assert seen["own"] == "address"
    assert seen["heard"] == 0
