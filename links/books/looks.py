"""Single looks at a URL that changed something or failed: the evidence beside its state."""

from typing import NamedTuple

from sqlalchemy import select

from links.findings import How
from links.store.schema import observations
from links.store.statements import Reader, Statement, one


class Look(NamedTuple):
    """A look.

    Attributes:
        moment: seconds since 1970 UTC.
        how: how it was looked at.
        code: the status byte.
        verdict: what that said, a `links.findings.Verdict`'s text.
        http: the HTTP status; None when no answer came.
        final_url: where redirects led; empty when there were none.
        note: the evidence in a few words; empty when nothing was to be said.
        similarity: how much of the copy's text was there, in percent; None when nobody compared.
    """

    moment: int
    how: How
    code: int
    verdict: str
    http: int | None
    final_url: str
    note: str
    similarity: int | None


_COLUMNS = (
    *(observations.c.moment, observations.c.how, observations.c.code, observations.c.verdict),
    *(observations.c.http, observations.c.final_url, observations.c.note),
    observations.c.similarity,
)
OF_URL = Statement(
    select(*_COLUMNS)
    .where(observations.c.url_id == one("url"))
    .order_by(observations.c.moment.desc(), observations.c.how.desc())
    .limit(one("most"))
)


def latest_looks(reader: Reader, url_id: int, *, limit: int = 8) -> list[Look]:
    """The URL's latest looks that are kept, the newest first."""
    rows = OF_URL.rows(reader, {"url": url_id, "most": limit})
    return [Look(row[0], How(row[1]), *row[2:]) for row in rows]
