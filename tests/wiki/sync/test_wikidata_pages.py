"""Pages chosen by templates and by what their Wikidata items say, on a real wiki (W35).

The wiki notes pages' items, and says where they are kept, as Wikibase Client does.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from links.registry.wikis import change_wiki, ensure_wiki, parse_wiki
from tests.support.sites.mediawiki import RunningWiki, running_wiki
from tests.support.wiki_proxy import ProxiedResponse
from tests.support.wiki_writer import WikiWriter
from tests.wiki.repository import RepositoryServer, repository, statement
from tests.wiki.sync.conftest import FedRegistry, opened
from weboid.cli.main import main
from weboid.cli.support.commands import ExitCode
from wiki.api.client import ApiSettings, WikiApi
from wiki.api.models import WikiAwayError
from wiki.api.transport import ServerRoute
from wiki.api.wikidata import WikibaseRepository

pytestmark = pytest.mark.slow

CLIENT = """
class ItemSource extends ApiQueryBase {
	public function __construct( $query, $name ) {
		parent::__construct( $query, $name, 'wb' );
	}
	public function execute() {
		$url = [ 'base' => '%s', 'scriptpath' => '/w', 'articlepath' => '/wiki/$1' ];
		$this->getResult()->addValue( 'query', 'wikibase', [ 'repo' => [ 'url' => $url ] ] );
	}
	public function getAllowedParams() {
		return [ 'prop' => [ ApiBase::PARAM_ISMULTI => true, ApiBase::PARAM_TYPE => [ 'url', 'siteid' ] ] ];
	}
}
$wgAPIMetaModules['wikibase'] = 'ItemSource';
$wgHooks['ContentAlterParserOutput'][] = static function ( $content, $title, $output ) {
	if ( $content instanceof TextContent && preg_match( '/<!--(Q\\d+)-->/', $content->getText(), $found ) ) {
		$output->setPageProperty( 'wikibase_item', $found[1] );
	}
};
"""
PEOPLE = {"properties": ["P31=Q5"]}
OTHERS = {"not_properties": ["P31=Q5"]}


@pytest.fixture(scope="module")
def items() -> Iterator[RepositoryServer]:
    """Yield a repository: Q1 is a person, Q2 was merged into it, Q3 is a town, Q4 was a person (deprecated)."""
    with repository() as made:
        made.put("Q1", statement("P31", "Q5"), statement("P21", snaktype="somevalue"))
        made.redirects["Q2"] = "Q1"
        made.put("Q3", statement("P31", "Q515"))
        made.put("Q4", statement("P31", "Q5", rank="deprecated"))
        yield made


@pytest.fixture(scope="module")
def wiki(items: RepositoryServer) -> Iterator[RunningWiki]:
    """Yield a wiki whose pages have items there."""
    with running_wiki(server="self", settings=CLIENT % items.proxy.base) as running:
        yield running


@pytest.fixture
def chosen(wiki: RunningWiki, items: RepositoryServer, tmp_path: Path) -> Iterator[FedRegistry]:
    """Yield a registry whose feed has just begun, with the repository in its initial state."""
    items.instead = None
    store = opened(tmp_path)
    with store.writing() as rows:
        known = ensure_wiki(rows, parse_wiki("testwiki"), day=0)
        known = change_wiki(rows, known, url=wiki.api())
    made = FedRegistry(store, known, wiki.api())
    made.rounds(sweeps=False)
    items.proxy.requests.clear()
    yield made
    items.instead = None
    store.close()


def _written(writer: WikiWriter, title: str, link: str, item: str = "") -> int:
    return writer.write(title, f"{link} {f'<!--{item}-->' if item else ''}")[0]


@pytest.mark.parametrize(
    ("feed", "observed"),
    [(PEOPLE, {"Person", "Merged"}), (OTHERS, {"Town", "Was", "Lost", "None"})],
    ids=["included", "excluded"],
)
def test_pages_are_chosen_by_what_their_items_say(
    chosen: FedRegistry, items: RepositoryServer, writer: WikiWriter, feed: dict[str, Any], observed: set[str]
) -> None:
    """One question for all of them, to the repository that the wiki names."""
    items_of = {"Person": "Q1", "Merged": "Q2", "Town": "Q3", "Was": "Q4", "Lost": "Q404", "None": ""}
    link = f"https://{'-'.join(feed)}.net/".replace("_", "-")
    pages = {title: _written(writer, title, link, item) for title, item in items_of.items()}
    chosen.set(**feed)
    chosen.rounds(sweeps=False)
    assert {title for title, page_id in pages.items() if chosen.taken(page_id) == [link]} == observed
    assert items.id_lists == ["Q1|Q2|Q3|Q4|Q404"]


def test_a_repository_that_is_away_loses_no_page(
    chosen: FedRegistry, items: RepositoryServer, writer: WikiWriter
) -> None:
    """Nothing is taken up, released or archived until it answers; then all is."""
    chosen.set(**PEOPLE)
    page_id = _written(writer, "Kept", "https://kept.net/", "Q1")
    chosen.rounds(sweeps=False)
    new_id = _written(writer, "Later", "https://later.net/", "Q2")
    writer.write("Kept", "https://kept.net/ https://kept.net/more <!--Q1-->")
    for answer in (ProxiedResponse(503), ProxiedResponse(429), ProxiedResponse.api_error("maxlag", "Waiting: lagged.")):
        items.instead = answer
        chosen.api_settings = ApiSettings(gap_s=0, attempts=1)  # no pauses before the error
        with pytest.raises(WikiAwayError, match=r"127\.0\.0\.1"):
            chosen.rounds(sweeps=False)
    assert chosen.links(page_id) == ["https://kept.net/"]
    assert chosen.title(new_id) is None

    items.instead = None
    chosen.api_settings = ApiSettings(gap_s=0)
    chosen.rounds(sweeps=False)
    assert chosen.taken(page_id) == ["https://kept.net/", "https://kept.net/more"]
    assert chosen.taken(new_id) == ["https://later.net/"]


async def test_a_wiki_on_the_web_leads_nobody_into_a_private_network(items: RepositoryServer) -> None:
    """A wiki that is asked through a proxy counts as one on the web; the operator may name any repository."""
    there = f"http://localhost:{items.proxy.base.rpartition(':')[2]}"
    document = {"query": {"wikibase": {"repo": {"url": {"base": there, "scriptpath": "/w"}}}}}
    items.instead = ProxiedResponse.of_json(document)
    address, route = "http://wiki.example.org/api.php", ServerRoute(proxy=items.proxy.base)
    async with WikiApi(address, route=route) as api, WikibaseRepository(api, WikiApi) as asking:
        with pytest.raises(WikiAwayError, match="only a public server"):
            await asking.statements(["Q1"], "")
        items.instead = None
        assert (await asking.statements(["Q1"], f"{there}/w/api.php"))["Q1"]


def test_a_page_is_chosen_by_a_template_that_another_brings(chosen: FedRegistry, writer: WikiWriter) -> None:
    """By one that a template of its own uses, or that redirects; the sweep reads their users alone."""
    writer.write("Template:Chosen", "x")
    writer.write("Template:Around", "{{chosen}}")
    writer.write("Template:Old name", "#REDIRECT [[Template:Chosen]]")
    around, _ = writer.write("By another", "{{around}} https://around.net/")
    moved, _ = writer.write("By a redirect", "{{old name}} https://moved.net/")
    none, _ = writer.write("By none", "https://none.net/")
    chosen.set(templates=["chosen"])

    swept = sum(done.swept.refused + done.swept.pages for done in chosen.rounds())

    assert chosen.links(around) == ["https://around.net/"]
    assert chosen.links(moved) == ["https://moved.net/"]
    assert chosen.title(none) is None
    assert swept < 10  # of all that the library has


def test_an_operator_chooses_pages_by_their_items(
    wiki: RunningWiki,
    items: RepositoryServer,
    writer: WikiWriter,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An unknown property is reported, an invalid entry is refused; a dry run shows what a sweep would do."""

    def run(*arguments: str) -> tuple[int, str, str]:
        line = ["weboid", "wiki", *arguments, "--collection", str(tmp_path / "c")]
        monkeypatch.setattr(sys, "argv", line)
        with pytest.raises(SystemExit) as ended:
            main()
        output = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, output.out, output.err

    items.instead = None
    items.put("P31")
    items.put("Q5")
    writer.write("Template:Asked", "x")
    writer.write("Asked person", "{{asked}}<!--Q1-->")
    writer.write("Asked town", "{{asked}}<!--Q3-->")

    code, _, err = run("add", wiki.base, "--property", "Q5")
    assert (code, "P31, or P31=Q5" in err) == (ExitCode.INPUT, True), err
    criteria = ("--template", "asked", "--property", "P31=Q5", "--not-property", "P32=Q5")
    code, out, err = run("add", wiki.base, *criteria, "--item-api", items.api)
    assert code == ExitCode.OK, err
    assert "using asked, whose item says P31=Q5, whose item does not say P32=Q5." in out
    assert "Warning: the wiki has no P32: check its spelling" in out

    code, out, err = run("sweep", "--dry-run", "--json")
    document: Any = json.loads(out)
    assert (code, document["pages"], document["not_observed"]) == (ExitCode.OK, 1, {"property": 1}), err

    code, _, err = run("add", wiki.base, "--item-api", f"{items.proxy.base}/other/api.php")
    assert (code, "item_api" in err) == (ExitCode.INPUT, True), err
    items.instead = ProxiedResponse(503)
    code, out, err = run("add", wiki.base, "--item-api", "-", "--grace", "24")
    assert code == ExitCode.OK, err
    assert "Warning: Wikidata's items cannot be read at present." in out
