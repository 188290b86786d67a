"""Mend the ends of lines and of files: ``python -m scripts.whitespace FILE…``; 1 when it had to."""

import sys
from pathlib import Path


def mended(text: str) -> str:
    r"""Return the text without blanks at the ends of lines, and with one line end at its own end.

    >>> mended("a  \nb\t\n\n\n")
    'a\nb\n'
    >>> mended("")
    ''
    """
    lines = [line.rstrip(" \t") for line in text.split("\n")]
    whole = "\n".join(lines).rstrip("\n")
    return f"{whole}\n" if whole else ""


def main(names: list[str]) -> int:
    """Mend the files that need it, and say which."""
    changed = 0
    for name in names:
        path = Path(name)
        before = path.read_bytes().decode("utf-8")
        after = mended(before)
        if after != before:
            path.write_bytes(after.encode("utf-8"))
            print(f"mended {name}")
            changed = 1
    return changed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
