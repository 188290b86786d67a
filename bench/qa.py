"""Cost and accuracy of checks of copies: comparing pictures and texts, verdicts, whole checks.

Each part is a module of its own with `figures`: `bench.qa_compare` compares pictures of pages (baseline: the
share of pixels that match, which is what others score by), `bench.qa_texts` their texts (baseline: edit
distance), `bench.qa_labelled` judges the labelled pairs of pages (baseline: matching pixels alone, with the
threshold that suits it best), and `bench.qa_pages` checks the copies of real sites from end to end.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench import report

PARTS = ("compare", "texts", "labelled", "pages")


if __name__ == "__main__":
    report.parts("qa", __doc__ or "", PARTS)
