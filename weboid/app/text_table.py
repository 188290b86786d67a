"""Plain-text tables and control-character-free text for terminals, where a row fills at most one line."""

import shutil
import sys
from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len, set_cell_size

from core.storable_text import replace_invisible

NARROWEST = 40
GAP = "  "
_BARS = "▁▂▃▄▅▆▇█"


clean: Final = replace_invisible  # text for a terminal


def width() -> int | None:
    """Return the terminal's columns; None when the output is not a terminal."""
    return max(shutil.get_terminal_size().columns, NARROWEST) if sys.stdout.isatty() else None


def fitted(text: str, columns: int | None) -> str:
    """Return the text, cut with an ellipsis when it is wider than that.

    >>> fitted("abcdef", 4), fitted("abcdef", None)
    ('abc…', 'abcdef')
    """
    text = clean(text)
    if columns is None or cell_len(text) <= columns:
        return text
    return set_cell_size(text, columns - 1).rstrip() + "…"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, columns: int | None, indent: str = "") -> list[str]:
    """Return the rows below their head; ``>`` at its end right-aligns. No column but the last exceeds a third.

    >>> table(["host", "n>"], [["a.example", "7"], ["b", "12"]], columns=None)
    ['host        n', 'a.example   7', 'b          12']
    """
    names = [name.removesuffix(">") for name in head]
    most = None if columns is None else columns // 3
    cells = [[fitted(cell, most) for cell in row[:-1]] + [clean(row[-1])] for row in rows]
    lines = [names, *cells]
    widths = [max(cell_len(line[place]) for line in lines) for place in range(len(names))]
    aligned = []
    for line in lines:
        parts = []
        for cell, wide, name in zip(line, widths, head, strict=True):
            blank = " " * (wide - cell_len(cell))
            parts.append(blank + cell if name.endswith(">") else cell + blank)
        aligned.append(fitted(indent + GAP.join(parts).rstrip(), columns))
    return aligned


def sparkline(values: Sequence[float]) -> str:
    """Return a bar for each value, scaled to the highest; zero is a dot.

    >>> sparkline([0, 1, 4, 8])
    '·▁▄█'
    """
    top = max(values, default=0)
    if top <= 0:
        return "·" * len(values)
    return "".join(_BARS[max(round(value / top * len(_BARS)) - 1, 0)] if value > 0 else "·" for value in values)
