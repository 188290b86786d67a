"""The help of commands names no term that the glossary lacks."""

import re
from pathlib import Path

import click
import pytest

from scripts.command_tree import walk_commands

GLOSSARY = Path(__file__).resolve().parents[2] / "docs" / "reference" / "glossary.md"
# Words that mean something particular here, or in the field; in the singular.
TERMS = """\
artifact, autoblacklist, ban, baseline, behaviour, bot, budget, cached link, capture, CDX, challenge, citation,
cluster, collection, confirmation, copy, crawl log, dead letter, dedup, dedup index, drift, extra hops, farm, feed,
frontier, front, gadget, grace period, hop, index, interwiki, item, job, lane, lease, level, link check,
link registry, login, manifest, mark, memento, mirror, namespace, normal form, outlink, page class, payload,
permadead, permalive, permit, policy, politeness, preset, profile, proxy, queue, recapture, recrawl, registry,
repair, replay, retry, review, revisit, run page, sanitiser, scope, screenshot, seed, sheet, sitemap, snapshot,
spam list, stored level, SURT, sweep, take-down, template map, threat list, TimeGate, TimeMap, tombstone, trial,
urlkey, verdict, WARC, webhook, worker"""


def terms() -> list[str]:
    """Return the terms to look for."""
    return re.split(r",\s+", TERMS)


@pytest.fixture(scope="module")
def explained() -> set[str]:
    """Return the words of the glossary's first column, in lower case, without text in parentheses."""
    rows = [line for line in GLOSSARY.read_text().splitlines() if line.startswith("| ")]
    words = (re.sub(r" \(.*?\)", "", row.split("|")[1]) for row in rows)
    return {word.strip().lower() for cell in words for word in cell.split(",")}


def test_help_names_no_term_that_the_glossary_lacks(explained: set[str]) -> None:
    """In the singular or plural."""
    lacking: dict[str, str] = {}
    for path, command in walk_commands():
        text = re.sub(r"\s+", " ", command.get_help(click.Context(command, info_name=path)))
        for term in terms():
            stem = term[:-1] + "(?:y|ies)" if term.endswith("y") else f"{term}s?"
            match = re.search(rf"(?<![\w-]){stem}(?![\w-])", text, re.IGNORECASE)
            if match and term.lower() not in explained:
                lacking.setdefault(term, path)

    assert lacking == {}


def test_the_glossary_has_the_words_of_state_and_lane(explained: set[str]) -> None:
    """Terms that no help could do without."""
    assert {"lane", "sheet", "level", "job", "take-down", "revisit"} <= explained
