"""A real MediaWiki with the extension, and listeners as its front and webhook."""

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

from tests.support.http_listener import SECRET, HttpListener, front, webhook
from tests.support.sites.mediawiki import RunningWiki, running_wiki
from tests.support.sites.versions import MACHINES, MediaWikiVersion
from tests.support.wiki_writer import WikiWriter

EXTENSION = Path(__file__).parents[2] / "wiki" / "mediawiki" / "Weboid"
LIMIT_S = 120.0


@dataclass(frozen=True)
class PageViewResponse:
    """A response to a page view."""

    status: int
    headers: dict[str, str]
    html: str


@dataclass(frozen=True)
class ExtensionWiki:
    """A running wiki with the extension.

    Attributes:
        front: receives lookups of links.
        webhook: receives changes.
    """

    wiki: RunningWiki
    front: HttpListener
    webhook: HttpListener
    writer: WikiWriter

    def view(self, title: str, query: str = "", **headers: str) -> PageViewResponse:
        """Request a page without an account; underscores in header names become hyphens."""
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        address = f"{self.wiki.base}/index.php?title={urllib.parse.quote(title)}{query}"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(urllib.request.Request(address, headers=fields), timeout=LIMIT_S) as response:
                return PageViewResponse(response.status, dict(response.headers), response.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return PageViewResponse(error.code, dict(error.headers), error.read().decode())

    def view_until(self, title: str, text: str) -> PageViewResponse:
        """Request a page until it contains a text: deferred lookups take a moment."""
        for _ in range(300):
            page = self.view(title)
            if text in page.html:
                return page
        raise AssertionError(f"{text} does not appear")

    def body(self, title: str, query: str = "") -> str:
        """Return the HTML of a page's content, without the parser's report."""
        html = self.view(title, query).html
        start = html.index("mw-parser-output")
        start = html.rindex("<div", 0, start)
        end = html.find("<!-- \nNewPP limit report", start)  # Parsoid writes none
        return html[start : end if end > 0 else html.index('<div class="printfooter"', start)]

    def parsoid(self, title: str) -> str:
        """Return Parsoid's HTML of a page."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{self.wiki.base}/rest.php/v1/page/{title}/html", timeout=LIMIT_S) as response:
            text: str = response.read().decode()
        return text

    def age_cached(self, keys: str, seconds: int) -> None:
        """Make the entries of the shared cache under a key older."""
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
        self.delete_cached("weboid-lookup-lock%")

    def age_page(self, title: str, seconds: int) -> None:
        """Set the time of a page's last change to so many seconds ago."""
        moment = datetime.now(UTC) - timedelta(seconds=seconds)
        self._execute(
            "my_wiki", "UPDATE page SET page_touched = ? WHERE page_title = ?", moment.strftime("%Y%m%d%H%M%S"), title
        )

    def run_jobs(self) -> str:
        """Run the jobs in the queue; return the output."""
        return self.wiki.maintain("runJobs.php")

    def configure(self, **settings: Any) -> None:
        """Replace the additional settings; names are given without ``wgWeboid``."""
        lines = "".join(
            f"$wgWeboid{name} = json_decode( {_php(json.dumps(value))}, true );\n" for name, value in settings.items()
        )
        self.set_local_settings(lines)

    def set_local_settings(self, php: str) -> None:
        """Replace the additional settings with PHP code."""
        folder = self.wiki.folder / "settings.d"
        for old in folder.glob("zz-*.php"):
            old.unlink()
        if php:  # under a new name: PHP caches files for two seconds
            (folder / f"zz-{time.monotonic_ns()}.php").write_text(f"<?php\n{php}")

    def reset(self) -> None:
        """Restore default settings and answers; delete cached answers and recorded requests."""
        self.configure()
        self.front.reset()
        self.webhook.reset()
        self.delete_cached("weboid-%")
        self.recycle_jobs()

    def recycle_jobs(self) -> None:
        """Make failed jobs available again, as the queue does after an hour."""
        (self.wiki.folder / "cache" / "mw-runJobs-backoffs.json").unlink(missing_ok=True)
        self._execute("my_wiki", "UPDATE job SET job_token = '', job_token_timestamp = NULL")

    def drop_jobs(self) -> None:
        """Delete all jobs from the queue."""
        self._execute("my_wiki", "DELETE FROM job")

    def delete_cached(self, keys: str) -> None:
        """Delete the entries of the shared cache whose keys match a LIKE pattern."""
        self._execute("wikicache", "DELETE FROM objectcache WHERE keyname LIKE ?", f"%:{keys}")

    def _execute(self, database: str, statement: str, *values: str) -> None:
        path = self.wiki.folder / "data" / f"{database}.sqlite"
        with closing(sqlite3.connect(path, timeout=LIMIT_S)) as db, db:
            db.execute(statement, values)


@contextmanager
def extended_wiki(settings: str = "", version: MediaWikiVersion = MACHINES) -> Iterator[ExtensionWiki]:
    """Run a wiki with the extension within the block."""
    with (
        HttpListener.running(webhook) as webhook_listener,
        HttpListener.running(front(lambda: front_listener.address)) as front_listener,
        running_wiki(
            server="self", settings=_settings(front_listener, webhook_listener) + settings, version=version
        ) as wiki,
    ):
        yield ExtensionWiki(wiki, front_listener, webhook_listener, WikiWriter(wiki.api()))


def _settings(front_listener: HttpListener, webhook_listener: HttpListener) -> str:
    return f"""
wfLoadExtension( 'Weboid', {_php(str(EXTENSION / "extension.json"))} );
$wgWeboidFront = '{front_listener.address}';
$wgWeboidWebhook = '{webhook_listener.address}';
$wgWeboidSecret = '{SECRET}';
$wgWeboidWiki = 'library@example';
$wgWeboidTimeout = 10; // the most that it may be, for slow machines; tests of timeouts set their own
$wgUseCdn = true;
$wgTmpDirectory = $wgCacheDirectory; // runJobs.php records failed jobs there
"""


def _php(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
