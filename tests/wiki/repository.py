"""A repository of Wikidata items on loopback, which answers in the form of Wikibase's `wbgetentities`.

Wikibase itself cannot be installed here. Its answers have their keys from its source: `claims` as an
empty list where there are none, ``missing`` as an empty text, a redirect under the number asked for.

    with repository() as items:
        items.put("Q42", statement("P31", "Q5"))
        … items.api …
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.support.wiki_front import Answer, Asked, Front, fronting

MOST = 50  # of one question, for whoever is nobody in particular
LARGEST = 2_147_483_647  # number of an item


@dataclass
class Repository:
    """The repository.

    Attributes:
        front: its server.
        items: the statements of items, by their numbers.
        redirects: of items that were merged into others.
        fits: how many items an answer has room for; the others are left out of it.
        instead: what is answered in the place of anything else.
    """

    front: Front
    items: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    fits: int = MOST
    instead: Answer | None = None

    @property
    def api(self) -> str:
        """The address of its API."""
        return f"{self.front.base}/w/api.php"

    @property
    def asked(self) -> list[str]:
        """The items of each question, in order."""
        return [each.params.get("ids", "") for each in self.front.seen]

    def put(self, item: str, *statements: dict[str, Any]) -> None:
        """Say all that an item says."""
        self.items[item] = list(statements)

    def answer(self, asked: Asked) -> Answer:
        """Answer a question."""
        ids = asked.params.get("ids", "").split("|")
        if self.instead is not None:
            return self.instead
        if asked.path != "/w/api.php" or asked.params.get("action") != "wbgetentities":
            return Answer(404, b"Not here.")
        if len(ids) > MOST:
            return Answer.refusing("toomanyvalues", f'Too many values supplied for "ids": {MOST}.')
        for each in ids:
            if int(each[1:]) > LARGEST:
                said = f'Could not find an entity with the ID "{each}".'
                return Answer.of_json({"error": {"code": "no-such-entity", "info": said, "id": each}})
        has_claims = "claims" in asked.params.get("props", "").split("|")
        told = {each: self._entity(each, has_claims=has_claims) for each in ids[: self.fits]}
        return Answer.of_json({"entities": told, "success": 1})

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
    """The statements by their properties; in PHP's form when there are none."""
    found: dict[str, list[dict[str, Any]]] = {}
    for each in statements:
        found.setdefault(each["mainsnak"]["property"], []).append(each)
    return found or []


def statement(name: str, value: Any = None, *, rank: str = "normal", snaktype: str = "value") -> dict[str, Any]:
    """A statement: of an item when the value is the number of one, else of that text."""
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
def repository() -> Iterator[Repository]:
    """A repository without items, until the block ends."""
    with fronting("http://127.0.0.1:9") as front:  # nothing is passed on
        made = Repository(front)
        front.script = made.answer
        yield made
