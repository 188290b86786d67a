"""A real MediaWiki with the extension, a front and a webhook to talk to."""

import json
import sqlite3
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.support.http_listener import SECRET, Listener, front, webhook
from tests.support.sites.mediawiki import Wiki, running_wiki
from tests.support.sites.versions import MACHINES, Version
from tests.support.wiki_writer import Writer

EXTENSION = Path(__file__).parents[2] / "wiki" / "mediawiki" / "Weboid"
LIMIT_S = 120.0


@dataclass(frozen=True)
class Page:
    """What a reader gets."""

    status: int
    headers: dict[str, str]
    html: str


@dataclass(frozen=True)
class Extended:
    """A running wiki with the extension.

    Attributes:
        front: who is asked for copies.
        webhook: who is told of changes.
    """

    wiki: Wiki
    front: Listener
    webhook: Listener
    writer: Writer

    def view(self, title: str, query: str = "", **headers: str) -> Page:
        """A page as somebody without an account gets it; underscores in header names are hyphens."""
        found = {name.replace("_", "-"): value for name, value in headers.items()}
        address = f"{self.wiki.base}/index.php?title={urllib.parse.quote(title)}{query}"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(urllib.request.Request(address, headers=found), timeout=LIMIT_S) as got:
                return Page(got.status, dict(got.headers), got.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return Page(error.code, dict(error.headers), error.read().decode())

    def view_until(self, title: str, text: str) -> Page:
        """A page as soon as a text is in it: what is asked behind a reader's back takes a moment."""
        for _ in range(300):
            page = self.view(title)
            if text in page.html:
                return page
        raise AssertionError(f"{text} is not shown")

    def body(self, title: str, query: str = "") -> str:
        """The page's own part of what a reader gets, without what MediaWiki says of its making."""
        html = self.view(title, query).html
        start = html.index("mw-parser-output")
        start = html.rindex("<div", 0, start)
        end = html.find("<!-- \nNewPP limit report", start)  # Parsoid makes none
        return html[start : end if end > 0 else html.index('<div class="printfooter"', start)]

    def parsoid(self, title: str) -> str:
        """The page's HTML as Parsoid makes it."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{self.wiki.base}/rest.php/v1/page/{title}/html", timeout=LIMIT_S) as got:
            text: str = got.read().decode()
        return text

    def age(self, keys: str, seconds: int) -> None:
        """Let what the shared cache keeps under a name be older."""
        script = f"""
$cache = ObjectCache::getInstance( CACHE_ANYTHING );
$db = new PDO( 'sqlite:' . $wgSQLiteDataDir . '/wikicache.sqlite' );
foreach ( $db->query( "SELECT keyname FROM objectcache WHERE keyname LIKE '%:{keys}%'" )->fetchAll() as $row ) {{
	$value = $cache->get( $row[0] );
	if ( is_array( $value ) ) {{
		$value['until'] -= {seconds};
		isset( $value['changed'] ) && $value['changed'] -= {seconds};
	}} else {{
		$value -= {seconds};
	}}
	$cache->set( $row[0], $value, 3600 );
}}
"""
        one_line = " ".join(script.split())
        self.wiki.maintain("eval.php", text=one_line)
        self.lose("weboid-asking%")

    def age_page(self, title: str, seconds: int) -> None:
        """Let a page have been touched so long ago."""
        moment = datetime.now(UTC) - timedelta(seconds=seconds)
        self._change(
            "my_wiki", "UPDATE page SET page_touched = ? WHERE page_title = ?", moment.strftime("%Y%m%d%H%M%S"), title
        )

    def run_jobs(self) -> str:
        """Let the job queue do what waits; what it printed."""
        return self.wiki.maintain("runJobs.php")

    def say(self, **settings: Any) -> None:
        """Say more in LocalSettings, until the next word: names without ``wgWeboid``."""
        lines = "".join(
            f"$wgWeboid{name} = json_decode( {_php(json.dumps(value))}, true );\n" for name, value in settings.items()
        )
        self.set(lines)

    def set(self, php: str) -> None:
        """Say more in LocalSettings as PHP, until the next word."""
        folder = self.wiki.folder / "settings.d"
        for old in folder.glob("zz-*.php"):
            old.unlink()
        if php:  # under a new name, since PHP keeps what it has read for two seconds
            (folder / f"zz-{time.monotonic_ns()}.php").write_text(f"<?php\n{php}")

    def forget(self) -> None:
        """Usual settings, nobody silent, nothing kept of what the front said, and nothing heard."""
        self.say()
        self.front.forget()
        self.webhook.forget()
        self.lose("weboid-%")
        self.recycle_jobs()

    def recycle_jobs(self) -> None:
        """Let the hour pass after which the queue gives a failed job to the next runner."""
        (self.wiki.folder / "cache" / "mw-runJobs-backoffs.json").unlink(missing_ok=True)
        self._change("my_wiki", "UPDATE job SET job_token = '', job_token_timestamp = NULL")

    def drop_jobs(self) -> None:
        """Empty the job queue of what earlier tests left in it."""
        self._change("my_wiki", "DELETE FROM job")

    def lose(self, keys: str) -> None:
        """Let the shared cache lose what a LIKE pattern matches."""
        self._change("wikicache", "DELETE FROM objectcache WHERE keyname LIKE ?", f"%:{keys}")

    def _change(self, database: str, statement: str, *values: str) -> None:
        path = self.wiki.folder / "data" / f"{database}.sqlite"
        with closing(sqlite3.connect(path, timeout=LIMIT_S)) as db, db:
            db.execute(statement, values)


@contextmanager
def extended_wiki(settings: str = "", version: Version = MACHINES) -> Iterator[Extended]:
    """A wiki with the extension, from its start to its end."""
    with (
        Listener.running(webhook) as heard,
        Listener.running(front(lambda: asked.address)) as asked,
        running_wiki(server="self", settings=_settings(asked, heard) + settings, version=version) as wiki,
    ):
        yield Extended(wiki, asked, heard, Writer(wiki.api()))


def _settings(asked: Listener, heard: Listener) -> str:
    return f"""
wfLoadExtension( 'Weboid', {_php(str(EXTENSION / "extension.json"))} );
$wgWeboidFront = '{asked.address}';
$wgWeboidWebhook = '{heard.address}';
$wgWeboidSecret = '{SECRET}';
$wgWeboidWiki = 'library@example';
$wgWeboidTimeout = 5; // machines are slow sometimes; tests of silence say their own
$wgUseCdn = true;
$wgTmpDirectory = $wgCacheDirectory; // jobs that failed are noted there
"""


def _php(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
