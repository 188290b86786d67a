"""Where the last `weboid wiki watch` of a collection served readers and listened, for `weboid wiki check`."""

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from core.layout import Layout


@dataclass(frozen=True)
class WatchNote:
    """Addresses, without secrets.

    Attributes:
        front: the origin of the pages; empty: nobody is served.
        replay: the origin of the copies.
        bell: the webhook, ``host:port``; empty: there is none.
        secret_files: by the wiki that each signs for; "" for the only one.
    """

    front: str = ""
    replay: str = ""
    bell: str = ""
    secret_files: dict[str, str] = field(default_factory=dict)

    def secret_of(self, wiki: str) -> str:
        """Return the file of the wiki's secret; empty without one."""
        return self.secret_files.get(wiki) or self.secret_files.get("", "")

    def changed(
        self, front: str | None, replay: str | None, bell: str | None, secret_file: str | None
    ) -> "WatchNote":
        """Return the note with what was said instead."""
        given: dict[str, Any] = {
            "front": front.rstrip("/") if front is not None else None,
            "replay": replay.rstrip("/") if replay is not None else None,
            "bell": bell,
            "secret_files": {"": secret_file} if secret_file is not None else None,
        }
        return replace(self, **{name: value for name, value in given.items() if value is not None})


def write_note(layout: Layout, note: WatchNote) -> None:
    """Keep the note in the collection."""
    place = _place(layout)
    scratch = place.with_suffix(".new")
    scratch.write_text(json.dumps(asdict(note), indent=1) + "\n", encoding="utf-8")
    scratch.replace(place)


def read_note(layout: Layout) -> WatchNote:
    """Return the collection's note; an empty one when there is none that can be read."""
    try:
        found = json.loads(_place(layout).read_text(encoding="utf-8"))
        return WatchNote(**found)
    except (OSError, ValueError, TypeError):
        return WatchNote()


def _place(layout: Layout) -> Path:
    return layout.databases / "watch.json"
