"""Page classes of labelled pages: ``python -m bench.classes``.

A row is what a page is, a column what it was taken for. The pages are those of
`tests.support.labelled_pictures`, judged without a browser. The last line is ``{"bench": "classes", "figures": {…}}``.
Exit code 1 when a page was taken for another class.
"""

import sys
import time
from collections import Counter
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench import report
from classify.page_classifier import classify
from core.page_classes import PageClass
from tests.support.labelled_pictures import LABELLED

_KINDS = tuple(each for each in PageClass if each is not PageClass.UNJUDGED)
_WIDTH = 13


def confusion() -> Counter[tuple[PageClass, PageClass]]:
    """Count the labelled pages by (labelled class, assigned class)."""
    return Counter((each.kind, classify(each.evidence).kind) for each in LABELLED)


def table(counts: Counter[tuple[PageClass, PageClass]]) -> str:
    """Return the confusion table as text."""
    head = " " * _WIDTH + "".join(f"{kind:>{_WIDTH}}" for kind in _KINDS)
    rows = (
        f"{kind:<{_WIDTH}}" + "".join(f"{counts[kind, other] or '.':>{_WIDTH}}" for other in _KINDS) for kind in _KINDS
    )
    return "\n".join((head, *rows))


def main() -> int:
    """Judge the pages, and print what came of it."""
    began = time.perf_counter()
    counts = confusion()
    each_ms = (time.perf_counter() - began) / len(LABELLED) * 1_000
    right = sum(count for (kind, taken), count in counts.items() if kind is taken)
    print(table(counts))
    figures = {"pages": len(LABELLED), "right": right, "judge_ms": each_ms}
    report.figures("classes", figures)
    return 0 if right == len(LABELLED) else 1


if __name__ == "__main__":
    sys.exit(main())
