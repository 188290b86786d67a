"""The complete deployment: a real wiki with the extension, sites that it cites, and `weboid wiki watch`.

Everything runs as an operator runs it: `weboid wiki add`, then `weboid wiki watch --listen`, which
archives, checks and serves. `tests.support.wiki_pass` simulates the passage of time.
"""

import json
import sqlite3
import subprocess
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import select

from core.clock import SystemClock
from core.layout import Layout
from core.urls import identity_key
from links.check_history import day_of
from links.registry.database import RegistryStore
from links.registry.schema import urls
from links.registry.urls import UrlRow, find_urls, urls_by_id
from links.registry.wikis import all_wikis
from links.states import LinkState
from tests.support.commands import CommandResult, WeboidRunner
from tests.support.linked_site import Answer, LinkedSite
from tests.support.services.ports import free_port
from tests.support.services.registries import open_registry
from tests.support.sites.cache import ROOT
from tests.support.sites.mediawiki import RunningWiki, running_wiki
from tests.support.wiki_pass import pass_days
from tests.support.wiki_writer import WikiWriter

EXTENSION = ROOT / "wiki" / "mediawiki" / "Weboid" / "extension.json"
SECRET = "a secret with at least thirty-two characters"
FARM = "town"
LIMIT_S = 240.0
# Leaves out the parts of a watch that neither archive, show nor check links.
_SIDE_PARTS = ("bot", "replace", "purge", "copies", "verify", "mirror", "lists", "scan", "webhooks")
WITHOUT_SIDE_PARTS = tuple(f"--without={part}" for part in _SIDE_PARTS)


@dataclass
class WikiDeployment:
    """The running set-up.

    Attributes:
        writer: an administrator of the wiki.
        weboid: commands with the collection and profile.
        front: origin of the front.
        log: JSON lines of `weboid wiki watch`.
    """

    wiki: RunningWiki
    writer: WikiWriter
    weboid: WeboidRunner
    front: str
    webhook: str
    secret: Path
    log: list[dict[str, Any]] = field(default_factory=list)
    _name: str = ""
    _process: "subprocess.Popen[str] | None" = None

    @property
    def layout(self) -> Layout:
        """Return the layout of the collection."""
        return Layout(self.weboid.collection)

    def run(self, *arguments: str) -> CommandResult:
        """Run a command on the collection."""
        return self.weboid.run(*arguments, f"--collection={self.weboid.collection}")

    def call(self, *arguments: str) -> CommandResult:
        """Run a command in this process, which is faster; not while an event loop runs."""
        return self.weboid.call(*arguments, f"--collection={self.weboid.collection}")

    def add(self, *options: str) -> CommandResult:
        """Add the wiki with `weboid wiki add`."""
        return self.run("wiki", "add", self.wiki.base, *options)

    @contextmanager
    def watched(self, *options: str, notifies: bool = True) -> Iterator[None]:
        """Run `weboid wiki watch` within the block, with or without the webhook."""
        port = self.front.rsplit(":", 1)[1]
        self._process = self.weboid.start(
            *("wiki", "watch", "--json", f"--collection={self.weboid.collection}"),
            *(f"--profile={self.weboid.profile}", f"--listen=127.0.0.1:{port}"),
            *((f"--webhook={self.webhook}", f"--webhook-secret-file={self.secret}") if notifies else ()),
            *options,
        )
        reading = threading.Thread(target=self._read_log, args=(self._process,), daemon=True)
        reading.start()
        try:
            yield
        finally:
            self._process.terminate()
            self._process.wait(LIMIT_S)
            reading.join(LIMIT_S)
            for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
                assert pipe is not None
                pipe.close()
            self._process = None

    def until(self, what: str, condition: Callable[[], Any]) -> Any:
        """Wait until the condition is true; return its value."""
        pause = threading.Event()
        for _ in range(int(LIMIT_S * 5)):
            try:
                if value := condition():
                    return value
            except urllib.error.HTTPError as error:
                with error:
                    text = error.read(2_000).decode("utf-8", "replace")
                if error.code < 500:
                    raise AssertionError(text) from error
            except OSError:
                pass  # not started yet
            assert self._process is None or self._process.poll() is None, self._log_tail()
            pause.wait(0.2)
        raise AssertionError(f"{what}: not within {LIMIT_S:.0f} s. {self._log_tail()}")

    def cached(self, *wanted: str) -> list[dict[str, Any]]:
        """Return the front's answers about these links."""
        body = json.dumps({"wiki": self.name, "urls": list(wanted)}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.front}/links/api/cached", body, headers)
        with urllib.request.urlopen(request, timeout=120) as response:
            links: list[dict[str, Any]] = json.load(response)["links"]
        return links

    @property
    def name(self) -> str:
        """Return the wiki's name in the registry."""
        if not self._name:
            with self.store() as store, store.reading() as rows:
                self._name = str(all_wikis(rows)[0].name)
        return self._name

    def states(self) -> dict[str, LinkState]:
        """Return the states of all links, by URL."""
        with self.store() as store, store.reading() as rows:
            numbers = list(rows.execute(select(urls.c.id)).scalars())
            return {row.url: LinkState(row.state) for row in urls_by_id(rows, numbers).values()}

    def checked_day(self, url: str) -> int | None:
        """Return the day of the last check of a link."""
        return self._row(url).checked_day

    def is_due(self, url: str) -> bool:
        """Return whether a link is due for a check today."""
        due = self._row(url).due_day
        return due is not None and due <= day_of(SystemClock().now())

    def _row(self, url: str) -> UrlRow:
        identity = identity_key(url)
        with self.store() as store, store.reading() as rows:
            return find_urls(rows, [identity])[identity]

    @contextmanager
    def store(self) -> Iterator[RegistryStore]:
        """Open the registry."""
        with closing(open_registry(self.layout)) as store:
            yield store

    def pass_days(self, days: int) -> None:
        """Simulate the passage of days."""
        pass_days(self.layout, days)

    def forget_answers(self) -> None:
        """Delete the front's answers from the wiki's cache, as if they had expired."""
        for path in (self.wiki.folder / "data").glob("*.sqlite"):
            with closing(sqlite3.connect(path, timeout=120)) as cache, cache:
                if cache.execute("SELECT 1 FROM sqlite_master WHERE name = 'objectcache'").fetchone():
                    cache.execute("DELETE FROM objectcache WHERE keyname LIKE '%:weboid-answers:%'")

    def _read_log(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            try:
                self.log.append(json.loads(line))
            except ValueError:
                self.log.append({"line": line})

    def _log_tail(self) -> str:
        return "\n".join(map(str, self.log[-30:]))


@contextmanager
def running_deployment(
    sites: Sequence[LinkedSite], *, php: str = "", **groups: dict[str, Any]
) -> Iterator[WikiDeployment]:
    """Run the set-up with these sites; `groups` are settings of the profile.

    Raises:
        SiteUnavailableError: the wiki could not be built or started.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="town-")))
        secret = folder / "secret"
        secret.write_text(SECRET)
        secret.chmod(0o600)
        front, webhook = f"http://127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        settings = "\n".join(
            [
                f"wfLoadExtension( 'Weboid', '{EXTENSION}' );",
                f"$wgWeboidFront = '{front}';",
                f"$wgWeboidWebhook = 'http://{webhook}';",
                f"$wgWeboidSecretFile = '{secret}';",
                "$wgJobRunRate = 1;",
                "$wgRCFeeds['weboid'] = [ 'formatter' => 'JSONRCFeedFormatter', "
                f"'uri' => 'udp://{webhook}', 'omit_bots' => false ];",
                php,
            ]
        )
        wiki = stack.enter_context(running_wiki(server="self", settings=settings))
        profile = folder / "profile.toml"
        profile.write_text(profile_of(sites, **groups))
        weboid = WeboidRunner(folder, profile)
        yield WikiDeployment(wiki, WikiWriter(wiki.api()), weboid, front, webhook, secret)


def profile_of(sites: Sequence[LinkedSite], **groups: dict[str, Any]) -> str:
    """Return a profile that can reach the sites, without delays."""
    resolve: dict[str, str] = {}
    for site in sites:
        resolve |= site.resolve
    settings: dict[str, dict[str, Any]] = {
        "egress": {"allow": ["127.0.0.0/8"], "resolve": resolve},
        "proxy": {"disk_reserve_bytes": 0},
        "frontier": {"retry_delay_s": 0.5, "attempts": 2},
        "politeness": {"min_delay_s": 0.0, "max_delay_s": 0.0, "host_retry_s": 0.5},
        "links": {"host_gap_s": 0.1, "contact": "https://town.example.org/bot"},
    }
    for name, group in groups.items():
        settings[name] = {**settings.get(name, {}), **group}
    lines = []
    for name, group in settings.items():
        lines.append(f"[{name}]")
        lines += [f"{key} = {_toml(value)}" for key, value in group.items()]
    return "\n".join(lines)


def article(title: str, text: str) -> Answer:
    """Return a page like a newspaper article."""
    style = "body{font:18px/1.5 Georgia,serif;max-width:42rem;margin:2rem auto;color:#222}h1{color:#7a1f1f}"
    body = f"<!doctype html><title>{title}</title><style>{style}</style><h1>{title}</h1>{text}"
    return 200, {"Content-Type": "text/html; charset=utf-8"}, body.encode()


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(each)}" for key, each in value.items()) + "}"
    return json.dumps(value)
