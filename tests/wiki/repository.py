"""A Wikidata item repository on loopback that imitates Wikibase's `wbgetentities`.

Wikibase cannot be installed here. The responses follow its source code: `claims` is an empty list if there
are none, ``missing`` an empty text, and a redirect is under the requested ID.

    with repository() as items:
        items.put("Q42", statement("P31", "Q5"))
        … items.api …
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.support.wiki_proxy import ProxiedRequest, ProxiedResponse, WikiProxy, running_wiki_proxy

MAX_IDS = 50  # per request, without special rights
MAX_ITEM_NUMBER = 2_147_483_647


@dataclass
class RepositoryServer:
    """A running repository.

    Attributes:
        proxy: its server.
        items: statements of items, by ID.
        redirects: targets of merged items, by ID.
        fits: maximum number of items in a response; further ones are omitted.
        instead: response to all requests.
    """

    proxy: WikiProxy
    items: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    fits: int = MAX_IDS
    instead: ProxiedResponse | None = None

    @property
    def api(self) -> str:
        """Return the address of its API."""
        return f"{self.proxy.base}/w/api.php"

    @property
    def id_lists(self) -> list[str]:
        """Return the requested IDs of each request, in order."""
        return [each.params.get("ids", "") for each in self.proxy.requests]

    def put(self, item: str, *statements: dict[str, Any]) -> None:
        """Set all statements of an item."""
        self.items[item] = list(statements)

    def answer(self, request: ProxiedRequest) -> ProxiedResponse:
        """Return the response to a request."""
        ids = request.params.get("ids", "").split("|")
        if self.instead is not None:
            return self.instead
        if request.path != "/w/api.php" or request.params.get("action") != "wbgetentities":
            return ProxiedResponse(404, b"Not here.")
        if len(ids) > MAX_IDS:
            return ProxiedResponse.api_error("toomanyvalues", f'Too many values supplied for "ids": {MAX_IDS}.')
        for each in ids:
            if int(each[1:]) > MAX_ITEM_NUMBER:
                info = f'Could not find an entity with the ID "{each}".'
                return ProxiedResponse.of_json({"error": {"code": "no-such-entity", "info": info, "id": each}})
        has_claims = "claims" in request.params.get("props", "").split("|")
        entities = {each: self._entity(each, has_claims=has_claims) for each in ids[: self.fits]}
        return ProxiedResponse.of_json({"entities": entities, "success": 1})

    def _entity(self, number: str, *, has_claims: bool) -> dict[str, Any]:
        target = self.redirects.get(number, number)
        if target not in self.items:
            return {"id": number, "missing": ""}
        entity: dict[str, Any] = {"type": "item", "id": target}
        if has_claims:
            entity["claims"] = claims(*self.items[target])
        if target != number:
            entity = {"redirects": {"from": number, "to": target}, **entity}
        return entity


def claims(*statements: dict[str, Any]) -> Any:
    """Return the statements by property; an empty list, as PHP encodes it, if there are none."""
    by_property: dict[str, list[dict[str, Any]]] = {}
    for each in statements:
        by_property.setdefault(each["mainsnak"]["property"], []).append(each)
    return by_property or []


def statement(name: str, value: Any = None, *, rank: str = "normal", snaktype: str = "value") -> dict[str, Any]:
    """Return a statement; a value like Q42 is an item."""
    snak: dict[str, Any] = {"snaktype": snaktype, "property": name, "hash": "0" * 40}
    is_item = isinstance(value, str) and value[:1] == "Q" and value[1:].isdigit()
    if snaktype == "value" and is_item:
        number = {"entity-type": "item", "numeric-id": int(value[1:]), "id": value}
        snak["datavalue"] = {"value": number, "type": "wikibase-entityid"}
    elif snaktype == "value":
        kind = "string" if isinstance(value, str) else "quantity"
        snak["datavalue"] = {"value": value, "type": kind}
    snak["datatype"] = "wikibase-item" if is_item else "external-id"
    return {"mainsnak": snak, "type": "statement", "id": f"Q1${name}", "rank": rank}


@contextmanager
def repository() -> Iterator[RepositoryServer]:
    """Run an empty repository within the block."""
    with running_wiki_proxy("http://127.0.0.1:9") as proxy:  # nothing is forwarded
        items = RepositoryServer(proxy)
        proxy.script = items.answer
        yield items
