"""An edit shown to a person before it is made: a unified diff of lines."""

import difflib


def diff_of(before: str, after: str, title: str = "", *, context: int = 2) -> str:
    r"""The unified diff from one text to the other; empty when they are the same.

    The same lines at both ends are skipped before lines are compared, so that a page of two megabytes
    with one change costs no more than reading it. Control characters are shown as ``\x1b``, so that a
    page cannot paint a terminal.

    Args:
        before: the page's text.
        after: the same, repaired.
        title: the page's, for the head.
        context: lines around a change.
    """
    if before == after:
        return ""
    old, new = before.split("\n"), after.split("\n")
    shortest = min(len(old), len(new))
    head = 0
    while head < shortest and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < shortest - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    start = max(head - context, 0)
    ends = [len(lines) - max(tail - context, 0) for lines in (old, new)]
    name = _visible(title) or "page"
    lines = difflib.unified_diff(
        old[start : ends[0]],
        new[start : ends[1]],
        name,
        f"{name} (repaired)",
        n=context,
        lineterm="",
    )
    return "\n".join(_moved(_visible(each), start) for each in lines)


def _moved(line: str, by: int) -> str:
    """A hunk's head with line numbers of the whole page."""
    if not by or not line.startswith("@@ -"):
        return line
    _, old, new, _ = line.split(" ", 3)
    return f"@@ {_added(old, by)} {_added(new, by)} @@"


def _added(place: str, by: int) -> str:
    number, comma, count = place[1:].partition(",")
    return f"{place[0]}{int(number) + by}{comma}{count}"


def _visible(text: str) -> str:
    return "".join(each if each.isprintable() or each == "\t" else _escape(each) for each in text)


def _escape(each: str) -> str:
    return each.encode("unicode_escape").decode("ascii")
