"""How pages of one wiki are read and repaired: what the bot needs of `wiki.wikitext`.

A `Craft` is bound to a wiki's language, templates and bot; the bot itself knows none of these.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from core.errors import BadUrlError
from core.urls import fetch_key, identity_key
from wiki.wikitext.citations import Citation
from wiki.wikitext.repairing_types import Remedy, Repaired
from wiki.wikitext.telling import Message


class Craft(Protocol):
    """Reads and repairs the wikitext of one wiki; pure."""

    def read(self, text: str) -> Sequence[Citation]:
        """The citations in the text, in its order."""
        ...

    def repair(self, text: str, remedies: Mapping[str, Remedy]) -> Repaired:
        """The text, with the remedies (by `Citation.url`) applied."""
        ...

    def may_edit(self, text: str) -> bool:
        """Whether the page lets this bot edit it ({{bots}}, {{nobots}})."""
        ...

    def may_write(self, text: str) -> bool:
        """Whether a talk page lets this bot write on it ({{bots|optout=…}}, too)."""
        ...

    def summary(self, repaired: Repaired, job: str) -> str:
        """The summary of the edit."""
        ...

    def message(self, repaired: Repaired, job: str, *, is_done: bool) -> Message:
        """What is said on the talk page; `is_done`: the page was edited, else it is proposed."""
        ...


def key_of(url: str) -> str:
    """The key by which the registry has a URL; empty when it is none."""
    try:
        return identity_key(fetch_key(url, allow_single_label=True))
    except BadUrlError:
        return ""
