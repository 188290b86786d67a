"""Verdicts on every behaviour of servers that checkers of links have stumbled over."""

from collections.abc import Iterable

import pytest

from links.check_result import CheckResult, CheckVerdict
from tests.links.behaviours.alive import ALIVE
from tests.links.behaviours.certificates import CertificateKinds
from tests.links.behaviours.others import GONE, INVALID, REFUSED, SUSPECT, TEMPORARY, UNDECIDED
from tests.support.behaviour_servers import ServerBehaviour, closed_port, prober_for, serving, settings_for

pytestmark = pytest.mark.slow  # servers of its own: seconds, not milliseconds

HELD_AGAINST_A_LINK = (CheckVerdict.GONE, CheckVerdict.FAILING)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> CertificateKinds:
    return CertificateKinds(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def unused_port() -> Iterable[int]:
    yield from closed_port()


def each(behaviours: Iterable[ServerBehaviour]) -> pytest.MarkDecorator:
    cases = tuple(behaviours)
    return pytest.mark.parametrize("behaviour", cases, ids=[one.name for one in cases])


async def seen(behaviour: ServerBehaviour, certificates: CertificateKinds, unused_port: int) -> CheckResult:
    def context(host: str):  # type: ignore[no-untyped-def]
        return None if behaviour.tls == "none" else certificates.context(behaviour.tls, host)

    closed = {
        f"{host}:{port}": f"127.0.0.1:{unused_port}" for host in ("site.test", "other.test") for port in (80, 443)
    }
    async with serving(behaviour.servers, context) as resolve:
        settings = settings_for(closed | resolve, timeout_s=behaviour.timeout_s, ca_file=certificates.ca_file)
        async with prober_for(settings) as prober:
            return await prober.probe(behaviour.url, get_only=behaviour.get_only)


def agrees(finding: CheckResult, behaviour: ServerBehaviour) -> None:
    assert finding.verdict is behaviour.verdict, finding
    assert finding.note.startswith(behaviour.note), finding
    assert {name: getattr(finding, name) for name in behaviour.facts} == behaviour.facts, finding
    assert finding.seconds < behaviour.timeout_s + 60, finding


@each(ALIVE)
async def test_what_is_alive_is_never_held_against_a_link(
    behaviour: ServerBehaviour, certificates: CertificateKinds, unused_port: int
) -> None:
    """A page that readers get is OK, however the server says so."""
    finding = await seen(behaviour, certificates, unused_port)
    assert finding.verdict not in HELD_AGAINST_A_LINK, finding
    agrees(finding, behaviour)


@each(GONE)
async def test_what_is_gone_is_seen_to_be_gone(
    behaviour: ServerBehaviour, certificates: CertificateKinds, unused_port: int
) -> None:
    """A page that the server denies is GONE, by the word of a GET."""
    agrees(await seen(behaviour, certificates, unused_port), behaviour)


@each(TEMPORARY)
async def test_what_may_pass_is_failing(
    behaviour: ServerBehaviour, certificates: CertificateKinds, unused_port: int
) -> None:
    """No answer, or an error of the server, is FAILING and no more."""
    agrees(await seen(behaviour, certificates, unused_port), behaviour)


@each(REFUSED)
async def test_who_refuses_us_is_not_held_against_a_link(
    behaviour: ServerBehaviour, certificates: CertificateKinds, unused_port: int
) -> None:
    """An answer that is kept from us says nothing of the page."""
    agrees(await seen(behaviour, certificates, unused_port), behaviour)


@each(UNDECIDED)
async def test_what_says_nothing_decides_nothing(
    behaviour: ServerBehaviour, certificates: CertificateKinds, unused_port: int
) -> None:
    """A host that asks to wait, and what we ourselves refuse, is UNDECIDED."""
    agrees(await seen(behaviour, certificates, unused_port), behaviour)


@each(SUSPECT)
async def test_what_may_be_no_page_is_suspected_only(
    behaviour: ServerBehaviour, certificates: CertificateKinds, unused_port: int
) -> None:
    """A good answer that may be an error page is SUSPECT: the browser decides."""
    agrees(await seen(behaviour, certificates, unused_port), behaviour)


@each(INVALID)
async def test_what_nobody_can_ask_for_is_invalid(
    behaviour: ServerBehaviour, certificates: CertificateKinds, unused_port: int
) -> None:
    """A URL that breaks the rules of URLs is never requested (W48)."""
    agrees(await seen(behaviour, certificates, unused_port), behaviour)
