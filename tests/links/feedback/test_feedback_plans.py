"""Query plans of feedback: every statement costs the same in a large registry."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, event, insert

from core.url_patterns import parse_pattern
from links.check_result import CheckMethod, CheckResult, CheckVerdict
from links.feedback.replacements import (
    propose_replacement,
    record_replacement_test,
    remove_replacement,
    replacements_of,
    replacements_to_test,
)
from links.feedback.reporter_limits import forget_acts
from links.feedback.reports import add_report, expire_reports, reachability_reports, withdraw_reports
from links.registry.database import RegistryStore
from links.registry.schema import hosts
from links.registry.urls import hosts_of
from tests.links.registry.test_statements import _scans_on_postgresql, _scans_on_sqlite
from tests.support.feedback_reports import NOW, TODAY, watch

SITE = "https://www.example.org"
SMALL = {"link_marks", "link_acts"}  # a row a mark; a row a day and kind
ONE, TWO = b"1" * 16, b"2" * 16
Asked = list[tuple[str, Any]]


@contextmanager
def noting(connection: Connection) -> Iterator[Asked]:
    """Yield the statements that run on the connection within the block."""
    statements: Asked = []

    def note(_connection: object, _cursor: object, text: str, given: Any, _context: object, many: bool) -> None:
        statements.append((text, given[0] if many and given else given))

    event.listen(connection, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        event.remove(connection, "before_cursor_execute", note)


def scans(connection: Connection, statements: Asked) -> set[str]:
    """Return ``table: statement`` for each table that a statement reads as a whole, small ones excepted."""
    explain = _scans_on_sqlite if connection.dialect.name == "sqlite" else _scans_on_postgresql
    full_scans = set()
    for text, given in statements:
        if re.match(r"(?:SELECT|INSERT|UPDATE|DELETE)\b", text):
            full_scans |= {f"{table}: {text}" for table in explain(connection, text, given)}
    return {each for each in full_scans if each.partition(":")[0] not in SMALL}


def test_nothing_that_is_said_reads_a_table_as_a_whole(unknown_store: RegistryStore) -> None:
    """Reports, withdrawals, proposals, their tests, and what is shown of them."""
    with unknown_store.writing() as rows:
        ids = watch(rows, *(f"{SITE}/a/{n}" for n in range(30)))
        rows.execute(
            insert(hosts),
            [
                {"name": f"h{n}.net", "domain_index": f"net.h{n}.",
                 "domain": f"h{n}.net", "bucket": n}
                for n in range(200)
            ],
        )  # fmt: skip
        with noting(rows) as statements:
            add_report(rows, [f"{SITE}/a/1"], ONE, NOW)
            add_report(rows, ["www.example.org/a/"], TWO, NOW, is_pattern=True)
            add_report(rows, ["example.org"], ONE, NOW + timedelta(minutes=2), is_pattern=True)
            reachability_reports(rows, ids, TODAY)
            withdraw_reports(rows, [f"{SITE}/a/1"], ONE, NOW)
            withdraw_reports(rows, ["=www.example.org"], TWO, NOW, is_pattern=True)
            expire_reports(rows, TODAY, limit=9)
            propose_replacement(rows, f"{SITE}/a/1", "https://new.example.net/", ONE, NOW)
            (waiting,) = replacements_to_test(rows, TODAY, 9)
            record_replacement_test(rows, waiting, CheckResult(1, CheckVerdict.OK, CheckMethod.GET), TODAY)
            replacements_to_test(rows, TODAY + 40, 9)
            replacements_of(rows, ids)
            remove_replacement(rows, f"{SITE}/a/1", ONE, NOW)
            forget_acts(rows, NOW + timedelta(days=9))
        assert scans(rows, statements) == set()
        assert len(statements) > 40


def test_a_walk_through_all_hosts_is_told_from_a_question(unknown_store: RegistryStore) -> None:
    """Only operators' marks may look through all hosts; the test above would see it."""
    with unknown_store.writing() as rows:
        watch(rows, f"{SITE}/")
        pattern = parse_pattern("example.org")
        with noting(rows) as narrow:
            assert len(list(hosts_of(rows, pattern, wide=False))) == 1
        assert scans(rows, narrow) == set()
        assert len(list(hosts_of(rows, pattern))) == 1
        assert list(hosts_of(rows, parse_pattern("org"), wide=False)) == []
        assert len(list(hosts_of(rows, parse_pattern("org")))) == 1
