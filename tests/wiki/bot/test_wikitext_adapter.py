"""A repair is held to its word before it is saved."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from wiki.bot.wikitext_adapter import PageAdapter, UnsafeRepairError, align_citations, verify_idempotent, verify_repair
from wiki.settings import BotSettings
from wiki.wikitext.citation_model import ArchivedCopy, LinkCondition, LinkRemedy, RepairedText
from wiki.wikitext.template_map import rules_for

URL = "https://gone.example.org/a"
TEXT = f"One.<ref>{{{{cite web|url={URL}|title=A}}}}</ref> [{URL} two] {URL}\n* [https://else.example.org/ else]\n"
COPY = ArchivedCopy(f"https://web.archive.org/web/20250310000000/{URL}", "20250310000000", "wayback")
CRAFT = PageAdapter(rules_for("en"), rules_for("en")).with_settings(
    BotSettings(account="Repairer@weboid"), datetime(2026, 11, 21, tzinfo=UTC)
)
REMEDIES = {URL: LinkRemedy(LinkCondition.DEAD, COPY)}


@pytest.fixture
def repaired() -> RepairedText:
    """Return a real repair of three citations."""
    return CRAFT.repair(TEXT, REMEDIES)


def hold(repaired: RepairedText) -> None:
    """Run the check that precedes an edit."""
    verify_repair(TEXT, repaired, CRAFT.read(TEXT), CRAFT.read(repaired.text))


def test_a_repair_that_is_what_it_says_passes(repaired: RepairedText) -> None:
    """And repairing once more has nothing to do."""
    assert len(repaired.changes) == 3
    hold(repaired)
    verify_idempotent(CRAFT.repair(repaired.text, REMEDIES), waits=False)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda text: text + " ", "more than the parts"),
        (lambda text: text.replace("One.", "one."), "more than the parts"),
        (lambda text: text.replace("else.example", "evil.example"), "more than the parts"),
        (lambda text: "", "more than the parts"),
    ],
)
def test_a_byte_that_nobody_names_stops_it(repaired: RepairedText, spoil, why: str) -> None:  # type: ignore[no-untyped-def]
    """Wherever it is."""
    with pytest.raises(UnsafeRepairError, match=why):
        hold(replace(repaired, text=spoil(repaired.text)))


def test_pieces_that_overlap_or_do_not_fit_stop_it(repaired: RepairedText) -> None:
    """A replaced piece must be in the text, and is replaced only once."""
    twice = replace(repaired, changes=(*repaired.changes, repaired.changes[0]))
    with pytest.raises(UnsafeRepairError):
        hold(twice)


def test_a_link_that_is_lost_or_added_stops_it(repaired: RepairedText) -> None:
    """The same links in the same order; only copies of what was mended may be more."""
    before, after = CRAFT.read(TEXT), list(CRAFT.read(repaired.text))
    assert align_citations(before, after[:-1]) is None
    with pytest.raises(UnsafeRepairError, match="other links"):
        verify_repair(TEXT, repaired, before, after[:-1])
    with pytest.raises(UnsafeRepairError, match="does not explain"):
        verify_repair(TEXT, repaired, before, [*after, replace(after[-1], url="https://new.example/")])


def test_a_page_that_would_be_edited_for_ever_stops_it(repaired: RepairedText) -> None:
    """Unless the repair has said that something waits for its turn."""
    with pytest.raises(UnsafeRepairError, match="one edit"):
        verify_idempotent(repaired, waits=False)
    verify_idempotent(repaired, waits=True)


@pytest.mark.parametrize("front", ["http://127.0.0.1:8090", "https://archive.example"])
def test_our_own_copy_keeps_the_scheme_of_our_front(front: str) -> None:
    """A front without TLS has no https address, so none is written for it."""
    settings = BotSettings(account="Repairer@weboid", front=front)
    adapter = PageAdapter(rules_for("en"), rules_for("en")).with_settings(settings, datetime(2026, 11, 21, tzinfo=UTC))
    address = f"{front}/page/20250310000000/{URL}"
    remedy = LinkRemedy(LinkCondition.DEAD, ArchivedCopy(address, "20250310000000", "weboid"))

    repaired = adapter.repair(TEXT, {URL: remedy})

    assert repaired.text.count(address) == 3
    assert {each.archive_url for each in adapter.read(repaired.text)} == {address, ""}
    verify_idempotent(adapter.repair(repaired.text, {URL: remedy}), waits=False)
