"""Levels: which rule decides, who may make one, and that nothing that was decided is lost."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.config.database_urls import parse_index_url
from core.config.stored_level import DEFAULT_STORED_LEVEL, StoredLevel
from core.errors import InputError
from core.layout import Layout
from core.urls import host_of, identity_key
from playback.access.decision_store import DecisionStore, PostgresDecisionStore, SqliteDecisionStore, open_decisions
from playback.access.level_store import LevelStore
from playback.access.levels import (
    DEFAULT_LEVEL,
    Level,
    LevelActor,
    LevelRight,
    LevelRules,
    LevelScope,
    LevelTarget,
    Rule,
    StoredRule,
    parse_actor,
    target_of,
)

pytestmark = pytest.mark.playback

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
OPERATOR = LevelActor("root")
Open = Callable[[], DecisionStore]

_HOSTS = ["example.org", "a.example.org", "b.a.example.org", "notexample.org", "org", "10.0.0.1"]
_URLS = [f"https://{host}{path}" for host in _HOSTS for path in ("/", "/A", "/a", "/a?x=1", "/%61")]
_WIKIS = ["", "one", "two"]
_LEVEL = st.sampled_from(Level)
_ACTOR = st.sampled_from([OPERATOR, LevelActor("ann", "one"), LevelActor("bob", "one"), LevelActor("ann", "two")])


def _targets() -> st.SearchStrategy[LevelTarget]:
    wiki = st.sampled_from(_WIKIS)
    return st.one_of(
        st.builds(lambda link, wiki: target_of(link=link, wiki=wiki), st.sampled_from(_URLS), wiki),
        st.builds(lambda name, wiki: target_of(domain=name, wiki=wiki), st.sampled_from(_HOSTS), wiki),
        st.builds(lambda wiki: target_of(wiki=wiki), wiki),
    )


_DECISIONS = st.lists(st.tuples(_targets(), st.none() | _LEVEL, _ACTOR), max_size=12)
_STORED_DECISIONS = st.lists(st.tuples(_targets(), st.none() | st.sampled_from(StoredLevel), _ACTOR), max_size=12)
_RIGHTS = st.lists(
    st.tuples(
        st.sampled_from(["one", "two"]),
        st.sampled_from(["", "ann"]),
        st.sampled_from([LevelScope.LINK, LevelScope.DOMAIN, LevelScope.WIKI]),
        st.none() | _LEVEL,
    ),
    max_size=4,
)


def _rule(number: int, target: LevelTarget, level: Level | None, actor: LevelActor = OPERATOR) -> Rule:
    return Rule(number, target, level, actor, NOW)


def _rules(*decisions: tuple[LevelTarget, Level]) -> LevelRules:
    return LevelRules(_rule(number, *each) for number, each in enumerate(decisions))


def _allowed_stored(most: Level) -> StoredLevel:
    """Return the highest storage level that editors may set: everything where their readers may see images."""
    return StoredLevel.EVERYTHING if most in {Level.IMAGES, Level.FULL} else StoredLevel.TEXT


def _naively(
    url: str,
    wiki: str,
    decisions: list[tuple[LevelTarget, Any, LevelActor]],
    rights: list[tuple[str, str, LevelScope, Level | None]],
    default: Any = DEFAULT_LEVEL,
    allowed: Callable[[Level], Any] = lambda most: most,
) -> Any:
    """Compute the level by brute force: apply what was decided for each target, the most specific one last."""
    host = host_of(url)
    labels = host.split(".")
    domains = [".".join(labels[place:]) for place in range(len(labels))]
    if host == "10.0.0.1":
        domains = [host, "0.0.1", "0.1", "1"]
    tried = [(LevelScope.LINK, identity_key(url)), *((LevelScope.DOMAIN, each) for each in domains)]
    order = [LevelTarget(scope, each, what) for scope, what in tried for each in dict.fromkeys((wiki, ""))]
    order += ([LevelTarget(LevelScope.WIKI, wiki)] if wiki else []) + [LevelTarget(LevelScope.DEFAULT)]
    level = default
    for target in reversed(order):
        last = [each for each in decisions if each[0] == target][-1:]
        decided_level, actor = last[0][1:] if last else (None, OPERATOR)
        if decided_level is None:
            continue
        given = None
        for editor in (actor.name, ""):
            matching_rights = [each for each in rights if each[:2] == (actor.wiki, editor)][-1:]
            if given is None and matching_rights and matching_rights[0][3] is not None:
                given = matching_rights[0]
        if actor == OPERATOR:
            level = decided_level
        elif (
            given is not None
            and given[3] is not None
            and target.wiki == actor.wiki
            and (target.scope is LevelScope.LINK or given[2] in {target.scope, LevelScope.WIKI})
        ):
            for_all = [each for each in decisions if each[0] == LevelTarget(target.scope, "", target.what)]
            held = (for_all[-1][1] if for_all else None) or decided_level
            level = min(decided_level, allowed(given[3]), held, key=lambda each: each.rank)
        else:
            level = min(decided_level, level, key=lambda each: each.rank)
    return level


@given(_DECISIONS, _RIGHTS, st.sampled_from(_URLS), st.sampled_from(_WIKIS))
@example([(LevelTarget(LevelScope.DOMAIN, "", "org"), Level.TEXT, OPERATOR)], [], _URLS[0], "one")
def test_the_most_specific_rule_decides(
    decisions: list[tuple[LevelTarget, Level | None, LevelActor]],
    rights: list[tuple[str, str, LevelScope, Level | None]],
    url: str,
    wiki: str,
) -> None:
    """As a model that looks at everything says, editors' rules and rights included."""
    rules = LevelRules(
        (_rule(number, *each) for number, each in enumerate(decisions)),
        (LevelRight(number, *each, OPERATOR, NOW) for number, each in enumerate(rights)),
    )

    assert rules.of(url, wiki) == _naively(url, wiki, decisions, rights)


@given(_DECISIONS, _STORED_DECISIONS, _RIGHTS, st.sampled_from(_URLS), st.sampled_from(_WIKIS))
@example(
    [(LevelTarget(LevelScope.LINK, "", _URLS[0]), Level.TEXT, OPERATOR)],
    [(LevelTarget(LevelScope.WIKI, "one"), StoredLevel.NO_MEDIA, OPERATOR)],
    [],
    _URLS[0],
    "one",
)
def test_stored_level_precedence_is_that_of_shown_levels(
    decisions: list[tuple[LevelTarget, Level | None, LevelActor]],
    stored: list[tuple[LevelTarget, StoredLevel | None, LevelActor]],
    rights: list[tuple[str, str, LevelScope, Level | None]],
    url: str,
    wiki: str,
) -> None:
    """The same model with the rules of its own; neither kind of rule changes the other's answer."""
    rules = LevelRules(
        [_rule(number, *each) for number, each in enumerate(decisions)],
        [LevelRight(number, *each, OPERATOR, NOW) for number, each in enumerate(rights)],
        [StoredRule(number, *each, NOW, is_stored=True) for number, each in enumerate(stored)],
    )

    expected = _naively(url, wiki, stored, rights, DEFAULT_STORED_LEVEL, _allowed_stored)
    assert rules.stored.ruling(url, wiki).level == expected
    assert rules.of(url, wiki) == _naively(url, wiki, decisions, rights)


def test_stored_level_of_what_cannot_be_judged_is_the_least() -> None:
    """As soon as there is any rule."""
    rules = LevelRules([], [], [StoredRule(1, LevelTarget(LevelScope.DEFAULT), StoredLevel.NO_MEDIA, OPERATOR, NOW)])
    assert rules.stored.ruling("http://[").level is StoredLevel.TEXT
    assert LevelRules().stored.ruling("http://[").level is StoredLevel.EVERYTHING


def test_a_link_goes_before_domains_before_the_wiki_before_the_default() -> None:
    """And the reader's own wiki before everybody, where both name the same thing."""
    link, url = {"link": "https://a.example.org/x"}, "https://a.example.org/x"
    steps = [
        (target_of(), Level.FULL),
        (target_of(wiki="w"), Level.TEXT),
        (target_of(domain="example.org"), Level.LIMITED),
        (target_of(domain="example.org", wiki="w"), Level.HTML),
        (target_of(domain="a.example.org"), Level.TEXT),
        (target_of(**link), Level.IMAGES),
        (target_of(**link, wiki="w"), Level.FULL),
    ]
    decided = [_rules(*steps[: count + 1]).of(url, "w") for count in range(len(steps))]

    assert decided == [level for _, level in steps]
    assert _rules(*steps).of(url) == Level.IMAGES
    assert _rules(*steps).of(url, "other") == Level.IMAGES


def test_a_link_is_its_identity_and_not_its_key_in_the_index() -> None:
    """The index merges letter case, scheme and ``www.``; a rule about one page is about that page."""
    rules = _rules((target_of(link="http://example.org/%7Ea?b=1"), Level.TEXT))

    same = ["http://example.org/~a?b=1", "HTTP://EXAMPLE.org:80/~a?b=1#part", "http://u@example.org./~a?b=1"]
    others = [
        "https://example.org/~a?b=1",
        "http://www.example.org/~a?b=1",
        "http://example.org/~A?b=1",
        "http://example.org/~a",
        "http://example.org/~a/?b=1",
    ]
    assert {rules.of(url) for url in same} == {Level.TEXT}
    assert {rules.of(url) for url in others} == {DEFAULT_LEVEL}


@pytest.mark.parametrize(
    "url",
    [
        "https://notexample.org/",
        "https://example.org.evil.test/",
        "https://evil.test/example.org",
        "https://example.org@evil.test/",
    ],
)
def test_a_domain_is_names_and_not_text(url: str) -> None:
    """Only the domain itself and what lies below it."""
    rules = _rules((target_of(domain="*.Example.org."), Level.TEXT))

    assert rules.of("https://deep.example.org/") == rules.of("https://example.org:99/") == Level.TEXT
    assert rules.of(url) == DEFAULT_LEVEL


@pytest.mark.parametrize("url", ["", "urn:dom:https://example.org/", "https://", "ftp://example.org/"])
def test_what_cannot_be_judged_is_text(url: str) -> None:
    """Once there are rules, a URL that none can be applied to gets the lowest level."""
    assert _rules((target_of(), Level.FULL)).of(url) == Level.TEXT


def test_a_page_is_shown_as_the_least_of_its_addresses_allows() -> None:
    """A redirect from a trusted domain shows no more of another; a rule about the link does."""
    cited, led = "https://short.example/1", "https://evil.example/x"
    evil = (target_of(domain="evil.example"), Level.TEXT)

    assert _rules(evil).of_page((cited, led)) == Level.TEXT
    assert _rules(evil, (target_of(link=cited), Level.IMAGES)).of_page((cited, led)) == Level.IMAGES
    both = (target_of(link=cited), Level.FULL), (target_of(link=led), Level.HTML)
    assert _rules(evil, *both).of_page((cited, led)) == Level.HTML


def test_what_editors_may_do_is_what_they_were_given() -> None:
    """Links within their wiki, or domains too, up to the wiki's most; operators anything."""
    ann, bob = LevelActor("ann", "one"), LevelActor("bob", "one")
    given = LevelRules(
        [_rule(1, target_of(wiki="one", link="https://held.example/"), Level.TEXT)],
        [
            LevelRight(1, "one", "", LevelScope.LINK, Level.HTML, OPERATOR, NOW),
            LevelRight(2, "one", "bob", LevelScope.DOMAIN, Level.FULL, OPERATOR, NOW),
        ],
    )
    link = target_of(wiki="one", link="https://a.example/")
    domain = target_of(wiki="one", domain="a.example")

    allowed = [
        (ann, link, Level.HTML),
        (ann, link, Level.TEXT),
        (ann, link, None),
        (bob, link, Level.FULL),
        (bob, domain, Level.FULL),
        (OPERATOR, domain, Level.FULL),
        (OPERATOR, target_of(), Level.FULL),
        (OPERATOR, target_of(wiki="one", link="https://held.example/"), None),
    ]
    refused = [
        (ann, link, Level.IMAGES, "at most html"),
        (ann, domain, Level.TEXT, "links only"),
        (ann, target_of(wiki="one"), Level.TEXT, "links only"),
        (bob, target_of(wiki="one"), Level.TEXT, "links and domains only"),
        (bob, target_of(), Level.TEXT, "within their own wiki"),
        (bob, target_of(link="https://a.example/"), Level.TEXT, "within their own wiki"),
        (bob, target_of(wiki="two", link="https://a.example/"), Level.TEXT, "own wiki"),
        (LevelActor("eve", "two"), target_of(wiki="two", link="https://a.example/"), Level.TEXT, "no right"),
        (bob, target_of(wiki="one", link="https://held.example/"), Level.HTML, "an operator"),
        (bob, target_of(wiki="one", link="https://held.example/"), None, "an operator"),
    ]  # fmt: skip
    for actor, target, level in allowed:
        given.check_right(actor, target, level)
    for actor, target, level, message in refused:
        with pytest.raises(InputError, match=message):
            given.check_right(actor, target, level)


@pytest.mark.parametrize("text", ["", "@wiki", "a@", "a@b@c", "a@../x", "a\nb", "a\x1b[2J", "a" * 256])
def test_who_is_nobody_decides_nothing(text: str) -> None:
    """A name is printable, and the wiki of an editor is a name."""
    with pytest.raises(InputError):
        parse_actor(text)


def test_only_who_names_a_wiki_is_an_editor() -> None:
    """MediaWiki lets no user be called anything with an ``@``, so nobody passes for another."""
    assert parse_actor("root") == OPERATOR
    assert parse_actor("Ann Lee@one") == LevelActor("Ann Lee", "one")
    assert [parse_actor(text).is_operator for text in ("root", "root@one")] == [True, False]


@pytest.mark.parametrize(
    "text", ["", ".", "http://example.org/", "example.org/path", "example.org:80", "a@b.c", "a b", "*", "exa$mple.org"]
)
def test_what_is_no_domain_is_refused(text: str) -> None:
    """Rather than be a rule that nothing ever meets."""
    with pytest.raises(InputError):
        target_of(domain=text) if text else target_of(domain=" ")


@pytest.fixture(params=["sqlite", "postgresql"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Open the same decisions again and again, in either database."""
    url = request.getfixturevalue("database_url") if request.param == "postgresql" else ""
    with ExitStack() as stack:

        def open_one() -> DecisionStore:
            store: DecisionStore = SqliteDecisionStore(Layout(tmp_path).decisions_db)
            if url:  # its clock passes the moment for which it trusts what it last read
                ticks = count()
                store = PostgresDecisionStore(parse_index_url(url), monotonic=lambda: float(next(ticks)))
            stack.callback(store.close)
            return store

        yield open_one


def test_a_decision_counts_at_once_and_for_everybody(opened: Open) -> None:
    """In the process that made it and in any other that has the book open."""
    writer, reader = LevelStore(opened()), LevelStore(opened())
    link = target_of(link="https://example.org/")
    assert reader.now().of("https://example.org/") == DEFAULT_LEVEL

    for level in (Level.TEXT, Level.FULL, None, Level.HTML):
        writer.decide([link], level, actor=OPERATOR, now=NOW)
        assert writer.now().of("https://example.org/") == (level or DEFAULT_LEVEL)
        assert reader.now().of("https://example.org/") == (level or DEFAULT_LEVEL)


def test_nothing_that_was_decided_is_lost(opened: Open) -> None:
    """Each decision stays with who made it, when and why, also after it was replaced or cleared."""
    book, link = LevelStore(opened()), target_of(link="https://example.org/", wiki="one")
    book.allow(LevelRight(0, "one", "", LevelScope.LINK, Level.HTML, OPERATOR, NOW, "asked for"))
    for hour, (level, who) in enumerate(
        [(Level.TEXT, LevelActor("ann", "one")), (Level.HTML, LevelActor("bob", "one")), (None, OPERATOR)]
    ):
        now = NOW + timedelta(hours=hour, milliseconds=hour)
        book.decide([link], level, actor=who, now=now, reason=f"reason {hour}")
    book.allow(LevelRight(0, "one", "", LevelScope.LINK, None, OPERATOR, NOW))

    history = LevelStore(opened()).history()
    assert [(each.level, str(each.actor), each.reason) for each in history] == [
        (Level.TEXT, "ann@one", "reason 0"),
        (Level.HTML, "bob@one", "reason 1"),
        (None, "root", "reason 2"),
    ]
    assert [each.decided_at for each in history] == [
        NOW + timedelta(hours=hour, milliseconds=hour) for hour in range(3)
    ]
    assert [each.most for each in book.rights_history()] == [Level.HTML, None]
    assert not book.now().rules
    assert not book.now().rights


def test_stored_levels_count_at_once_and_are_kept_apart(opened: Open) -> None:
    """For every reader of the store, with a history of their own; what is shown stays as it was."""
    writer, reader = LevelStore(opened()), LevelStore(opened())
    url, wiki = "https://example.org/", target_of(wiki="one")
    assert reader.now().stored.ruling(url, "one").level is StoredLevel.EVERYTHING

    for level in (StoredLevel.TEXT, StoredLevel.NO_MEDIA, None):
        writer.decide([wiki], level, actor=OPERATOR, now=NOW, reason="disk", is_stored=True)
        held = level or StoredLevel.EVERYTHING
        assert reader.now().stored.ruling(url, "one").level is held
        assert reader.now().stored.ruling(url).level is StoredLevel.EVERYTHING
        assert reader.now().of(url, "one") is DEFAULT_LEVEL

    history = LevelStore(opened()).history(is_stored=True)
    assert [(each.level, each.reason) for each in history] == [
        (StoredLevel.TEXT, "disk"),
        (StoredLevel.NO_MEDIA, "disk"),
        (None, "disk"),
    ]
    assert not LevelStore(opened()).history()


def test_stored_levels_are_decided_by_who_may_show_as_much(opened: Open) -> None:
    """An editor whose readers see no images may have less recorded, not more; nobody else may."""
    book, ann = LevelStore(opened()), LevelActor("ann", "one")
    link = target_of(wiki="one", link="https://a.example/")
    with pytest.raises(InputError, match="have no right"):
        book.decide([link], StoredLevel.TEXT, actor=ann, now=NOW, is_stored=True)
    book.allow(LevelRight(0, "one", "", LevelScope.LINK, Level.HTML, OPERATOR, NOW))
    with pytest.raises(InputError, match=r"may not store .* at most text"):
        book.decide([link], StoredLevel.NO_MEDIA, actor=ann, now=NOW, is_stored=True)
    book.decide([link], StoredLevel.TEXT, actor=ann, now=NOW, is_stored=True)
    book.allow(LevelRight(0, "one", "", LevelScope.LINK, Level.IMAGES, OPERATOR, NOW))
    book.decide([link], StoredLevel.EVERYTHING, actor=ann, now=NOW, is_stored=True)


def test_several_are_changed_together_or_not_at_all(opened: Open) -> None:
    """If the change is refused for one target, no target is changed."""
    book = LevelStore(opened())
    held, other = target_of(domain="a.example"), target_of(domain="b.example")
    book.decide([held], Level.TEXT, actor=OPERATOR, now=NOW)

    with pytest.raises(InputError, match=r"b\.example"):
        book.decide([held, other], None, actor=OPERATOR, now=NOW)
    with pytest.raises(InputError, match="reason"):
        book.decide([held, other], Level.FULL, actor=OPERATOR, now=NOW, reason="x" * 9000)

    assert [each.level for each in book.now().rules] == [Level.TEXT]
    book.decide([held, other], Level.HTML, actor=OPERATOR, now=NOW)
    assert [each.level for each in book.now().rules] == [Level.HTML, Level.HTML]


def test_who_decides_at_the_same_time_stands_in_line(opened: Open) -> None:
    """Every decision is kept, each with a number of its own."""
    books = [LevelStore(opened()) for _ in range(3)]
    hosts = [[f"h{book}-{number}.example" for number in range(5)] for book in range(3)]

    def decide(place: int) -> None:
        for host in hosts[place]:
            books[place].decide([target_of(domain=host)], Level.TEXT, actor=OPERATOR, now=NOW)

    with ThreadPoolExecutor() as pool:
        list(pool.map(decide, range(3)))

    history = books[0].history()
    assert [each.number for each in history] == list(range(1, 16))
    assert {each.target.what for each in history} == {host for each in hosts for host in each}


def test_a_lower_right_lowers_what_it_allowed_before(opened: Open) -> None:
    """At once; and when it is withdrawn, the editors' rules still take away but allow nothing."""
    book, ann = LevelStore(opened()), LevelActor("ann", "one")
    more, less = "https://more.example/", "https://less.example/"
    book.decide([target_of(wiki="one")], Level.HTML, actor=OPERATOR, now=NOW)
    book.allow(LevelRight(0, "one", "", LevelScope.LINK, Level.FULL, OPERATOR, NOW))
    book.decide([target_of(wiki="one", link=more)], Level.FULL, actor=ann, now=NOW)
    book.decide([target_of(wiki="one", link=less)], Level.TEXT, actor=ann, now=NOW)
    seen = []
    for most in (Level.FULL, Level.IMAGES, Level.LIMITED, None):
        book.allow(LevelRight(0, "one", "", LevelScope.LINK, most, OPERATOR, NOW))
        seen.append((book.now().of(more, "one"), book.now().of(less, "one")))

    assert seen == [
        (Level.FULL, Level.TEXT),
        (Level.IMAGES, Level.TEXT),
        (Level.LIMITED, Level.TEXT),
        (Level.HTML, Level.TEXT),
    ]


def test_editors_do_not_exceed_what_is_decided_for_everybody_about_the_same(opened: Open) -> None:
    """Neither when they decide, nor when the operator decides later."""
    book, ann = LevelStore(opened()), LevelActor("ann", "one")
    book.allow(LevelRight(0, "one", "", LevelScope.LINK, Level.FULL, OPERATOR, NOW))
    mine, for_all = (target_of(wiki="one", link="https://a.example/"), target_of(link="https://a.example/"))
    book.decide([mine], Level.FULL, actor=ann, now=NOW)

    book.decide([for_all], Level.LIMITED, actor=OPERATOR, now=NOW)

    assert book.now().of("https://a.example/", "one") == Level.LIMITED
    with pytest.raises(InputError, match="at most limited"):
        book.decide([mine], Level.HTML, actor=ann, now=NOW)
    book.decide([mine], Level.TEXT, actor=ann, now=NOW)
    assert book.now().of("https://a.example/", "one") == Level.TEXT


def test_an_editor_gives_no_rights(opened: Open) -> None:
    """Not even to themselves."""
    book = LevelStore(opened())

    with pytest.raises(InputError, match="only operators"):
        book.allow(LevelRight(0, "one", "ann", LevelScope.DOMAIN, Level.FULL, LevelActor("ann", "one"), NOW))
    with pytest.raises(InputError, match="withdraw"):
        book.allow(LevelRight(0, "one", "ann", LevelScope.DOMAIN, None, OPERATOR, NOW))


def test_another_file_in_its_place_is_read_from_the_start(tmp_path: Path) -> None:
    """Decisions brought back from elsewhere leave nothing behind of those that were there."""
    layout, other = Layout(tmp_path / "here"), Layout(tmp_path / "there")
    with closing(open_decisions(layout)) as store, closing(open_decisions(other)) as elsewhere:
        book = LevelStore(store)
        book.decide([target_of(domain="a.example")], Level.TEXT, actor=OPERATOR, now=NOW)
        assert book.now().of("https://a.example/") == Level.TEXT
        second = LevelStore(elsewhere)
        for name in ("b.example", "c.example"):
            later = NOW + timedelta(days=1)
            second.decide([target_of(domain=name)], Level.HTML, actor=OPERATOR, now=later)
    for path in layout.databases.iterdir():
        path.unlink()
    other.decisions_db.rename(layout.decisions_db)

    assert book.now().of("https://a.example/") == DEFAULT_LEVEL
    assert book.now().of("https://b.example/") == Level.HTML
    store.close()


def test_a_store_of_before_stored_levels_has_none_until_one_is_decided(tmp_path: Path) -> None:
    """Reading it fails nobody, and the first decision makes the table."""
    store = SqliteDecisionStore(Layout(tmp_path).decisions_db)
    book, wiki = LevelStore(store), target_of(wiki="one")
    book.decide([wiki], Level.HTML, actor=OPERATOR, now=NOW)
    store.change([("DROP TABLE stored_levels", {})])
    store.close()

    store = SqliteDecisionStore(Layout(tmp_path).decisions_db)
    book = LevelStore(store)
    assert book.now().stored.ruling("https://a.example/", "one").level is StoredLevel.EVERYTHING
    assert book.now().of("https://a.example/", "one") is Level.HTML
    book.decide([wiki], StoredLevel.TEXT, actor=OPERATOR, now=NOW, is_stored=True)
    assert book.now().stored.ruling("https://a.example/", "one").level is StoredLevel.TEXT
    store.close()
