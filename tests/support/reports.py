"""Failure reports that neither take minutes to make nor end the process that makes them.

Where output is not cut (``-vv``, or the variable CI), pytest writes the whole difference of two values,
which takes minutes for two pictures. Its time limit then raises in the midst of a loop, at a place
that has no line number, and the report of that ends pytest, or a worker of pytest-xdist.
"""

from collections.abc import Generator
from types import TracebackType

import pytest

_LONGEST = 50_000  # bytes or characters of which a whole difference is written


@pytest.hookimpl(wrapper=True)
def pytest_assertrepr_compare(left: object, right: object) -> Generator[None, list[list[str]], list[list[str]]]:
    """Cut what is said of two long byte strings or texts, also in CI."""
    is_long = any(isinstance(each, bytes | str) and len(each) > _LONGEST for each in (left, right))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("CI", "BUILD_NUMBER") if is_long else ():
            patch.delenv(name, raising=False)
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Give each place of a traceback a line before pytest reads it."""
    error = call.excinfo.value if call.excinfo is not None else None
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        error.__traceback__ = _with_lines(error.__traceback__)
        error = error.__cause__ or error.__context__
    if call.excinfo is not None:
        call.excinfo = pytest.ExceptionInfo.from_exception(call.excinfo.value)
    return (yield)


def _with_lines(traceback: TracebackType | None) -> TracebackType | None:
    entries = []
    while traceback is not None:
        entries.append(traceback)
        traceback = traceback.tb_next
    if all(each.tb_lineno is not None for each in entries):
        return entries[0] if entries else None
    made = None
    for each in reversed(entries):
        line: int | None = each.tb_lineno  # CPython 3.11 has None where typeshed has a number
        first = each.tb_frame.f_code.co_firstlineno
        made = TracebackType(made, each.tb_frame, each.tb_lasti, first if line is None else line)
    return made
