"""Rows of the registry, written directly: what other parts would have brought there."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, insert, select

from links.registry.database import RegistryStore
from links.registry.schema import farms, hosts, pages, refs, urls, wikis
from links.states import LinkState
from links.url_parts import SCHEMES, bucket_of, domain_index, url_parts_of

TODAY = 3_600


@dataclass
class RegistryRows:
    """A registry that is filled by hand: farm 1 is `WMF`, its wiki 1 `wiki`."""

    store: RegistryStore
    hosts: dict[str, int] = field(default_factory=dict)
    urls: dict[bytes, int] = field(default_factory=dict)

    def add_wiki(self, wiki_id: int = 1, dbname: str = "wiki", *, farm_id: int = 1) -> None:
        """Add a wiki, and its farm when it is the first there."""
        with self.store.writing() as rows:
            if rows.execute(select(farms.c.id).where(farms.c.id == farm_id)).first() is None:
                rows.execute(insert(farms), [{"id": farm_id, "name": f"farm{farm_id}"}])
            row = {"id": wiki_id, "farm_id": farm_id, "dbname": dbname, "added_day": TODAY}
            rows.execute(insert(wikis), [row])

    def add_page(self, number: int, cited: Iterable[str], *, wiki_id: int = 1, namespace: int = 0) -> None:
        """Add a page with these URLs on it; its number is the registry's and the wiki's own."""
        ids = list(self.add_urls(dict.fromkeys(cited, LinkState.UNKNOWN)).values())
        row = {
            "id": number,
            "wiki_id": wiki_id,
            "page_id": number,
            "namespace": namespace,
            "title": f"Page {number}",
            "touched_day": TODAY,
        }
        with self.store.writing() as rows:
            rows.execute(insert(pages), [row])
            ref_rows = [{"page": number, "url_id": each, "first_day": TODAY} for each in set(ids)]
            if ref_rows:
                rows.execute(insert(refs), ref_rows)

    def add_urls(self, states: Mapping[str, LinkState]) -> dict[str, int]:
        """Add URLs with their states; return their numbers, which those that are there keep."""
        id_by_url: dict[str, int] = {}
        new = []
        with self.store.writing() as rows:
            for url, state in states.items():
                locator = url_parts_of(url)
                host_id = self._host(rows, locator.host)
                if locator.key not in self.urls:
                    self.urls[locator.key] = len(self.urls) + 1
                    row = {
                        "id": self.urls[locator.key],
                        "key": locator.key,
                        "host_id": host_id,
                        "scheme": SCHEMES.index(locator.scheme),
                        "port": locator.port,
                        "path": locator.path,
                        "bucket": bucket_of(locator.host),
                        "added_day": TODAY,
                        "touched_day": TODAY,
                        "state": int(state),
                    }
                    new.append(row)
                id_by_url[url] = self.urls[locator.key]
            if new:
                rows.execute(insert(urls), new)
        return id_by_url

    def _host(self, rows: Connection, name: str) -> int:
        if name not in self.hosts:
            self.hosts[name] = len(self.hosts) + 1
            row = {
                "id": self.hosts[name],
                "name": name,
                "domain_index": domain_index(name),
                "domain": name,
                "bucket": bucket_of(name),
            }
            rows.execute(insert(hosts), [row])
        return self.hosts[name]
