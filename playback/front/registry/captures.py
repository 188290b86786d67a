"""Which of many URLs were captured by ourselves: all of them in one question to the captures index."""

from collections.abc import Iterator, Sequence

from core.errors import BadUrlError, TransientError
from core.replay_keys import replay_key
from playback.choosing import OFFERED, WITHHELD, twin_of
from playback.database import Database, key_values
from playback.front.pages import COLUMNS, PageStore

_AT_ONCE = 100
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
        queries, values = [], {}
        for number, url in enumerate(urls):
            try:
                own = {**key_values(replay_key(url)), "url": url, "twin": twin_of(url)}
            except BadUrlError:
                continue
            where = f"{self._database.has_key} AND url IN (:url, :twin) AND {OFFERED}"
            where += f" AND NOT {WITHHELD}"
            # The longest names first: one may begin with another.
            for name in sorted(own, key=len, reverse=True):
                where = where.replace(f":{name}", f":{name.upper()}_{number}")
                values[f"{name.upper()}_{number}"] = own[name]
            queries.append(
                f"SELECT * FROM (SELECT {COLUMNS} FROM pages WHERE {where}"  # noqa: S608 constants of ours
                f" ORDER BY captured_ms DESC LIMIT 1) AS newest_{number}"
            )
        if not queries:
            return
        asked = {twin_of(url): url for url in urls} | {url: url for url in urls}
        for page in self._store.pages_of(self._database.rows(" UNION ALL ".join(queries), values)):
            if page.taken_down is None and (page.has_copy or page.is_download):
                yield asked[page.url], page.timestamp
