"""What a script of ours answered, read as what it is: data from a page's process."""

from dataclasses import dataclass, replace
from typing import Any, Self

NOTES = 10
NOTE_CHARS = 200
COUNT_LIMIT = 1_000_000


@dataclass(frozen=True, slots=True)
class Told:
    """An answer.

    Attributes:
        found, done, again, notes: as in `render.behaviours.running.Done`.
        css: rules for pictures.
        stays: selectors of what could not be dismissed.
        frames: how many frames the page has.
        more: what else it said.
    """

    found: int = 0
    done: int = 0
    again: bool = False
    notes: tuple[str, ...] = ()
    css: tuple[str, ...] = ()
    stays: tuple[str, ...] = ()
    frames: int = 0
    more: dict[str, Any] | None = None

    def with_frames(self, others: list[Self]) -> Self:
        """Together with what was done in frames."""
        return replace(
            self,
            found=self.found + sum(other.found for other in others),
            done=self.done + sum(other.done for other in others),
            again=self.again or any(other.again for other in others),
        )

    def number(self, name: str) -> float:
        """A number among what else it said; zero when it is none."""
        value = (self.more or {}).get(name)
        return float(value) if isinstance(value, int | float) else 0.0


def read_told(answer: object) -> Told:
    """An answer, whatever it is; what is missing or of a wrong type counts as nothing.

    >>> read_told({"found": 3, "done": "many", "again": 1}).found
    3
    >>> read_told(None)
    Told(found=0, done=0, again=False, notes=(), css=(), stays=(), frames=0, more={})
    """
    said = answer if isinstance(answer, dict) else {}
    css = said.get("css")
    return Told(
        found=_count(said.get("found")),
        done=_count(said.get("done")),
        again=bool(said.get("again")),
        notes=_texts(said.get("notes")),
        css=(css[:1000],) if isinstance(css, str) and css else (),
        stays=_texts(said.get("stays")),
        frames=_count(said.get("frames")),
        more=said,
    )


def _count(value: object) -> int:
    return max(0, min(int(value), COUNT_LIMIT)) if isinstance(value, int | float) else 0


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(each[:NOTE_CHARS] for each in value[:NOTES] if isinstance(each, str))
