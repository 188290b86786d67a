"""Template maps: what they mean, how one is laid over another, and how mistakes in one are told."""

import pytest

from core.errors import ConfigError
from wiki.settings import WikiSettings
from wiki.wikitext.citation_model import ParameterRole
from wiki.wikitext.template_map import fold_name, languages, rules_for


@pytest.mark.parametrize(
    "written",
    [
        "Cite web",
        " cite_web\n",
        "CITE  WEB",
        "Template:Cite web",
        "template : cite web",
        ":Template:Cite web",
        "subst:Cite web",
        "safesubst:Template:cite web",
    ],
)
def test_a_template_is_known_however_its_name_is_written(written: str) -> None:
    """Case, underscores, spaces, namespace and substitution make no other template."""
    rules = rules_for("en")
    assert rules.citations[rules.name_of(written)] is rules.citations["cite web"]


def test_namespaces_have_names_of_their_language() -> None:
    """``Vorlage:`` is a prefix on a German wiki, and a part of the name on an English one."""
    assert rules_for("de").name_of("Vorlage:Internetquelle") == "internetquelle"
    assert rules_for("en").name_of("Vorlage:Internetquelle") == "vorlage:internetquelle"


def test_a_language_without_a_map_has_the_english_one() -> None:
    """They are the templates that are copied most; a variant of a language has its map."""
    assert rules_for("fi") is rules_for("en")
    assert rules_for("de-at") is rules_for("de")
    assert languages() == ("de", "en")


def test_a_german_wiki_knows_english_templates_too() -> None:
    """Their parameters keep their English names."""
    rules = rules_for("de")
    assert rules.citations["cite web"].names[ParameterRole.ARCHIVE_URL][0] == "archive-url"
    assert rules.citations["internetquelle"].names[ParameterRole.ARCHIVE_URL][0] == "archiv-url"


def test_settings_are_laid_over_the_map() -> None:
    """A template of one's own, other names, another preference; all else stays."""
    own = {
        "citation": [{"names": ["Quelle", "Beleg"], "parameters": {"url": ["adresse"]}}],
        "without": ["Cite news"],
        "tags": {"hold": ["Finger weg"]},
        "write": {"dates": "mdy", "status": {"dead": "gone"}},
        "namespaces": ["Malline"],
    }
    rules = rules_for("en", own)
    assert rules.citations["beleg"].roles["adresse"] is ParameterRole.URL
    assert rules.citations["beleg"].roles["access-date"] is ParameterRole.ACCESS_DATE
    assert "cite news" not in rules.citations
    assert "cite web" in rules.citations
    assert {"finger weg", "cbignore"} <= rules.hold_tags
    assert (rules.writing.dates, rules.writing.status["dead"]) == ("mdy", "gone")
    assert rules.writing.status["usurped"] == "usurped"
    assert rules.name_of("Malline:Quelle") == "quelle"
    assert "quelle" not in rules_for("en").citations


def test_a_map_may_extend_another_language() -> None:
    """An English wiki with German templates says so."""
    assert "internetquelle" in rules_for("en", {"extends": "de"}).citations


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"citations": []}, "There is no templates.citations; known: .*citation"),
        ({"citation": {}}, "templates.citation must be a list of tables"),
        ({"citation": [{}]}, r"templates.citation\[1\] has no template name"),
        ({"citation": [{"names": "Cite"}]}, r"templates.citation\[1\].names must be a list of texts"),
        ({"citation": [{"names": ["X"], "parameters": {"uri": []}}]}, "no .*parameters.uri; known: "),
        ({"write": {"dates": "french"}}, "templates.write.dates must be one of dmy"),
        ({"archive_implies_dead": 1}, "must be true or false"),
        ({"archive": [{"names": ["X"], "stamps": {"a": "nowhere"}}]}, "stamps.a must be one of wayback"),
        ({"dead_tag": [{"names": ["X"], "status": "alive"}]}, "status must be one of live, dead"),
        ({"extends": "tlh"}, "names no map: 'tlh'; known: de, en"),
        ({"language": "x" * 3_000}, "must be a string"),
        ({"tags": []}, "templates.tags must be a table"),
        ([1], "templates must be a table"),
        ({"namespaces": [1]}, "must be a list of texts"),
    ],
)
def test_a_mistake_in_a_map_is_told_with_its_place(own: object, message: str) -> None:
    """A misspelt key would silently leave citations unread."""
    with pytest.raises(ConfigError, match=message):
        rules_for("en", own)  # type: ignore[arg-type]


def test_a_wikis_settings_with_a_mistake_in_their_map_are_refused() -> None:
    """When they are read, not when the first page is."""
    assert WikiSettings.parse('{"templates": {"without": ["Cite web"]}}').templates
    with pytest.raises(ConfigError, match=r"There is no templates\.citations"):
        WikiSettings.parse('{"templates": {"citations": []}}')


def test_folding_twice_is_folding_once() -> None:
    """Names are compared in one form."""
    assert fold_name(fold_name(" A_ B\n")) == "a b"
