"""What checks of copies cost, and how right they are: comparing pictures and texts, verdicts, whole checks.

Each part is a module of its own with `figures`: `bench.qa_compare` compares pictures of pages (baseline: the
share of pixels that match, which is what others score by), `bench.qa_texts` their texts (baseline: edit
distance), `bench.qa_labelled` judges the labelled pairs of pages (baseline: matching pixels alone, with the
threshold that suits it best), and `bench.qa_pages` checks the copies of real sites from end to end.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from importlib import import_module

from bench import report

PARTS = ("compare", "texts", "labelled", "pages")


def main() -> None:
    """Run the parts and print their figures."""
    parser = report.parser(__doc__ or "")
    parser.add_argument("--part", choices=PARTS, action="append", help="only this part; all")
    asked = parser.parse_args()
    found: dict[str, float] = {}
    for part in asked.part or PARTS:
        figures: dict[str, float] = import_module(f"bench.qa_{part}").figures(quick=asked.quick)
        found |= figures
        print(flush=True)
    report.figures("qa", found)


if __name__ == "__main__":
    main()
