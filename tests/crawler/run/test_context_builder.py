"""Whose turn a URL takes."""

from core.config.settings import EgressSettings, PolitenessSettings, Settings
from core.errors import TransientError
from crawler.frontier.base import NewItem
from crawler.frontier.host_slots import SlotAssigner
from crawler.run.context_builder import make_slot_assigner


async def test_hosts_of_one_address_take_one_turn() -> None:
    """With `politeness.per_address`; a host that does not resolve keeps its own."""
    known = {"a.test": "192.0.2.1", "b.test": "192.0.2.1", "c.test": "192.0.2.2"}

    def resolve(host: str) -> str:
        if host not in known:
            raise TransientError(f"{host} does not resolve.")
        return known[host]

    items = [NewItem(f"https://{name}.test/") for name in "abcd"]
    assigned_items = await SlotAssigner(resolve).assign(items)

    assert [item.host for item in assigned_items] == ["192.0.2.1", "192.0.2.1", "192.0.2.2", "d.test"]


async def test_each_host_is_looked_up_once() -> None:
    """A page links to one host a thousand times."""
    lookups = []

    def resolve(host: str) -> str:
        lookups.append(host)
        return "192.0.2.1"

    items = [NewItem(f"https://a.test/{number}") for number in range(100)]
    await SlotAssigner(resolve).assign(items)

    assert lookups == ["a.test"]


async def test_hosts_take_their_own_turns_unless_the_settings_say_otherwise() -> None:
    """Nothing is looked up."""
    item = NewItem("https://a.test/")

    assert await make_slot_assigner(Settings()).assign([item]) == [item]


async def test_the_setting_resolve_is_asked_before_the_system() -> None:
    """As the proxy does; the port plays no part."""
    settings = Settings(
        egress=EgressSettings(resolve={"a.test": "192.0.2.7:8443"}), politeness=PolitenessSettings(per_address=True)
    )
    (item,) = await make_slot_assigner(settings).assign([NewItem("https://a.test/")])

    assert item.host == "192.0.2.7"
