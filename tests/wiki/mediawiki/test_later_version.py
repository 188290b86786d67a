"""The extension in MediaWiki 1.43: both parsers, the job, the list, no deprecation notices (A09, A19)."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.mediawiki_extension import EXTENSION, ExtensionWiki, extended_wiki
from tests.support.sites.mediawiki import ADMIN, PASSWORD
from tests.support.sites.versions import LATER, OLDEST, php_of
from tests.support.wiki_visitor import WikiVisitor

pytestmark = pytest.mark.slow
TEXT = (
    "A [https://e.org/a source], [https://e.org/dead?x=1&y=2 a dead one], https://e.org/queued and "
    "<ref>[https://e.org/ref In a reference]</ref> [[Main Page]] [mailto:a@e.org mail] "
    "<span class='noarchive'>https://e.org/kept-out</span>\n== Section ==\n<references/>"
)
SUP = re.compile(r'<sup class="weboid-cached weboid-(\w+)"><a href="([^"]*)"[^>]*>([^<]*)</a></sup>')
ADDED = re.compile(
    r' weboid-link weboid-\w+| data-(?:originalurl|versionurl|versiondate)="[^"]*"|'
    r'<sup class="weboid-cached.*?</sup>'
)
OURS = re.compile(r"deprecated in [^ ]+ \d|Extension\\+Weboid|/Weboid/")
CHANNELS = ("error", "fatal", "deprecated", "resourceloader")
# Parsoid for readers is switched on by an extension that Debian does not have; this is how it does it.
SETTINGS = f"""
$wgDevelopmentWarnings = true;
error_reporting( -1 );
foreach ( explode( ' ', '{" ".join(CHANNELS)}' ) as $channel ) {{
	$wgDebugLogGroups[$channel] = getenv( 'WIKI_FOLDER' ) . '/complaints.log';
}}
$wgHooks['ArticleParserOptions'][] = static function ( $article, $options ) {{
	if ( isset( $_GET['useparsoid'] ) ) {{
		$options->setUseParsoid();
	}}
}};
$wgHooks['BeforePageDisplay'][] = static function ( $out ) {{
	if ( isset( $_GET['deprecated'] ) ) {{
		wfDeprecated( 'an example', '1.43' );
	}}
}};
"""


@pytest.fixture(scope="module")
def later_once() -> Iterator[ExtensionWiki]:
    """Yield a wiki of that version that logs deprecations, with a page of links."""
    with extended_wiki(SETTINGS, LATER) as running:
        running.writer.write("Shown", TEXT)
        running.run_jobs()
        yield running


@pytest.fixture
def later(later_once: ExtensionWiki) -> ExtensionWiki:
    """Return the same wiki, with default settings and empty caches."""
    later_once.reset()
    return later_once


@pytest.mark.parametrize("parser", ["", "&useparsoid=1"], ids=["old parser", "Parsoid"])
def test_each_link_gets_a_cached_link(later: ExtensionWiki, parser: str) -> None:
    """The rest of the HTML of either parser is unchanged."""
    place = later.front.address
    marked = later.body("Shown", parser)
    assert ("data-mw-parsoid-version" in marked) == bool(parser)
    assert SUP.findall(marked) == [
        ("copy", f"{place}/2026/https://e.org/a", "cached"),
        ("copy", f"{place}/2026/https://e.org/dead?x=1&amp;y=2", "dead, cached"),
        ("queued", f"{place}/view?url=https://e.org/queued", "queued"),
        ("copy", f"{place}/2026/https://e.org/ref", "cached"),
    ]
    assert marked.count('data-originalurl="https://e.org/a"') == 1
    later.configure(Front="")
    assert later.body("Shown", parser) == ADDED.sub("", marked)


def test_changed_links_are_sent_by_a_job(later: ExtensionWiki) -> None:
    """After an edit, a template's change and a deletion."""
    later.writer.write("Template:Source", "[https://e.org/old s]")
    page_id, rev = later.writer.write("Edited", "[https://e.org/1 a] {{Source}}")
    assert later.webhook.requests == []
    later.run_jobs()
    (page,) = later.webhook.requests[0].json()["pages"]
    assert (page["page_id"], page["rev"]) == (page_id, rev)
    assert sorted(page["added"]) == ["https://e.org/1", "https://e.org/old"]
    later.webhook.requests.clear()
    later.writer.write("Template:Source", "[https://e.org/new s]")
    later.run_jobs()
    (page,) = later.webhook.requests[0].json()["pages"]
    assert (page["added"], page["removed"]) == (["https://e.org/new"], ["https://e.org/old"])
    later.webhook.requests.clear()
    later.writer.delete("Edited")
    later.run_jobs()
    (page,) = later.webhook.requests[0].json()["pages"]
    assert sorted(page["removed"]) == ["https://e.org/1", "https://e.org/new"]


def test_list_is_translated_and_sets_levels(later: ExtensionWiki) -> None:
    """Users with the right have a form, others only the list."""
    page = later.view("Special:WeboidLinks/Shown", "&uselang=de").html
    assert "Archivierte Weblinks" in page
    assert page.count("<tr><td>") == 5
    assert "<select" not in page
    admin = WikiVisitor(later.wiki.base, ADMIN, PASSWORD)
    fields = admin.form("Special:WeboidLinks/Shown", "https://e.org/a")
    status, _ = admin.post("Special:WeboidLinks/Shown", {**fields, "level": "text", "reason": "x"})
    assert status == 200
    assert later.webhook.requests[0].json()["level"] == "text"
    later.set_local_settings("$wgGroupPermissions['sysop']['weboid-level'] = false;")
    status, page = admin.post("Special:WeboidLinks/Shown", {**fields, "level": "text"})
    assert "<title>Permission error" in page
    assert len(later.webhook.requests) == 1


def test_extension_causes_no_deprecation_notices(later: ExtensionWiki) -> None:
    """In all tests above; an example shows that notices are logged."""
    for query in ("", "&useparsoid=1", "&action=info", "&action=history"):
        later.view("Shown", query)
    later.age_cached("weboid-answers", 7_200)
    later.view("Shown")
    later.view("Special:Version")
    later.view("Special:WeboidLinks/Shown")
    later.view("Special:LinkSearch", "&target=e.org")
    result = later.writer.ask(action="query", meta="siteinfo", list="exturlusage", euquery="e.org")
    assert result["query"]["general"]["weboid"]["version"]
    later.run_jobs()
    assert _notices(later.wiki.folder) == []
    later.view("Shown", "&deprecated=1")
    assert _notices(later.wiki.folder) != []


def test_files_parse_with_the_oldest_php() -> None:
    """MediaWiki 1.39 supports PHP 7.4."""
    php = php_of(OLDEST)
    for file in sorted(EXTENSION.rglob("*.php")):
        done = subprocess.run(
            [*php.command, "-d", "display_errors=1", "-l", str(file)],
            env={**os.environ, **php.environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, "eprecated" in done.stdout) == (0, False), done.stdout


def _notices(folder: Path) -> list[str]:
    """Return deprecation notices, and errors that name the extension's code."""
    log = folder / "complaints.log"
    lines = log.read_text().splitlines() if log.exists() else []
    return [line for line in lines if OURS.search(line)]
