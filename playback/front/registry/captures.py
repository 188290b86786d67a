"""Which of many URLs were captured by ourselves: all of them in one question to the captures index."""

import re
from collections.abc import Iterator, Sequence

from core.errors import BadUrlError, TransientError
from core.replay_keys import replay_key
from playback.choosing import OFFERED, WITHHELD, twin_of
from playback.database import Database, key_values
from playback.front.pages import COLUMNS, PageStore

_AT_ONCE = 100
_VALUE = re.compile(r":(key_start|key|url|twin)\b")
_LOOKED_AT = 32  # captures of a URL, for one that no check found broken
_MOST = 1_000  # URLs of one answer; what is beyond has no link to its copy


class OwnCopies:
    """Asks the captures index. From any thread."""

    def __init__(self, database: Database, store: PageStore) -> None:
        self._database = database
        self._store = store

    def newest(self, urls: Sequence[str]) -> dict[str, str]:
        """The timestamp of the newest copy that may be shown, for those URLs that have one.

        An index that is away is no reason to say nothing of the links: none has a copy then.
        """
        wanted = list(dict.fromkeys(urls))[:_MOST]
        try:
            return dict(
                each
                for start in range(0, len(wanted), _AT_ONCE)
                for each in self._part(wanted[start : start + _AT_ONCE])
            )
        except TransientError:
            return {}

    def _part(self, urls: Sequence[str]) -> Iterator[tuple[str, str]]:
        queries: list[str] = []
        values: dict[str, str] = {}
        for number, url in enumerate(urls):
            try:
                own = {**key_values(replay_key(url)), "url": url, "twin": twin_of(url)}
            except BadUrlError:
                continue
            where = f"{self._database.has_key} AND url IN (:url, :twin) AND {OFFERED}"
            query = (
                f"SELECT * FROM (SELECT {COLUMNS} FROM pages WHERE {where} AND NOT {WITHHELD}"  # noqa: S608 constants of ours
                f" ORDER BY captured_ms DESC LIMIT {_LOOKED_AT}) AS newest"
                " ORDER BY CASE WHEN quality > 0 THEN 1 ELSE 0 END, captured_ms DESC LIMIT 1"
            )
            numbered = _VALUE.sub(rf":\1_{number}", query)
            queries.append(f"SELECT * FROM ({numbered}) AS newest_{number}")  # noqa: S608 as above
            values |= {f"{name}_{number}": value for name, value in own.items()}
        if not queries:
            return
        rows = self._database.rows(" UNION ALL ".join(queries), values)
        found = {
            page.url: page.timestamp
            for page in self._store.pages_of(rows)
            if page.taken_down is None and (page.has_copy or page.is_download)
        }
        for url in urls:
            timestamp = max(found.get(url, ""), found.get(twin_of(url), ""))
            if timestamp:
                yield url, timestamp
