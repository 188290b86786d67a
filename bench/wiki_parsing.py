"""Wikitext into citations: pages a second, one core, beside what a bot's author would write.

The pages: the articles of the test web's wiki (Debian's handbook in wikitext) and made ones of 2 to 60 KB
with 5 to 120 citations each, most of them short, as on a wiki: prose with links to pages, headings,
an infobox, a table, references of all kinds. The baseline is mwparserfromhell: parse, then
`filter_external_links` and `filter_templates` with their parameters; it knows neither dates, tags nor
archives. Seconds are those of the process' own CPU, since others use the machine; the best of some rounds.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import cProfile
import pstats
import random
import time
from collections.abc import Callable
from datetime import date

import mwparserfromhell

from bench import report
from tests.support.sites.articles import articles
from tests.support.sites.docs import library
from wiki.wikitext.citation_reader import read_citations
from wiki.wikitext.template_map import rules_for

TODAY = date(2026, 11, 21)
RULES = rules_for("en")
PAGES = {False: (160, 5), True: (60, 2)}  # made pages, and rounds
_PROSE = (
    "The '''quick''' brown [[fox]] jumps over the lazy [[dog|hound]] near the river, as many"
    " told in that century, and nobody knows why it did so; {{convert|5|km|mi}} away it slept. "
)
_CITED = (
    '<ref name="r{n}">{{{{cite web |url=https://www.host-{h}.net/news/2019/story-{n}.html'
    " |title=A story about ''something'' {n} |last=Miller |first=Jane |date=5 March 2019"
    " |work=[[The Daily Example]] |access-date=6 April 2020}}}}</ref>",
    '<ref name="r{n}">{{{{cite news |last1=Smith |first1=A. |title=On {n} |url=https://paper-{h}.org'
    "/{n}?id=1&x=2 |date=2018-05-06 |archive-url=https://web.archive.org/web/20200406000000/"
    "https://paper-{h}.org/{n} |archive-date=6 April 2020 |url-status=live |newspaper=The Paper}}}}</ref>",
    "<ref>{{{{cite journal|last=Doe|first=J.|title=About {n}|journal=Journal|volume=1|issue=2"
    "|pages=3\u20134|doi=10.1000/{n}|year=2011}}}}</ref>",
    "<ref>[http://site-{h}.com/page/{n} A title of {n}], 2004. {{{{dead link|date=May 2020}}}}</ref>",
    '<ref name="r{n}" /> as told before',
    "<ref>http://old-{h}.net/{n}.htm</ref>",
    "{{{{sfn|Miller|2019|p={n}}}}}",
)
_WEIGHTS = (38, 22, 10, 10, 12, 4, 4)
_BOX = (
    "{{{{Infobox thing\n| name = Thing {n}\n| image = Thing {n}.jpg\n| website = {{{{URL|host-{n}.net}}}}\n"
    "| founded = {{{{start date|1999|5|4}}}}\n}}}}\n"
)
_TABLE = '\n{| class="wikitable"\n! Year !! Number\n|-\n' + "| 2001 || [[Number|5]]\n|-\n" * 12 + "| 2013 || 17\n|}\n"


def made_page(chosen: random.Random, number: int) -> str:
    """Return a page of 2 to 60 KB, most often a short one; the number of citations grows with the size."""
    size = int(2_000 * 30 ** (chosen.random() ** 1.3))
    citations = 5 + round(115 * (size - 2_000) / 58_000)
    pieces = [_BOX.format(n=number)]
    length, cited = len(pieces[0]), 0
    while length < size or cited < citations:
        if cited < citations:
            form = chosen.choices(_CITED, _WEIGHTS)[0]
            pieces.append(form.format(n=cited, h=chosen.randrange(400)))
            length += len(pieces[-1])
            cited += 1
        if length < size * (cited / citations):
            pieces.append(_PROSE * chosen.randrange(1, 4))
            length += len(pieces[-1])
        if cited % 9 == 0:
            pieces.append(f"\n\n== Section {cited} ==\n")
        if cited % 41 == 0:
            pieces.append(_TABLE)
    return "".join(pieces) + f"\n* [http://host-{number}.net/ Official site]\n[[Category:Things]]\n"


def every_page(count: int) -> list[str]:
    """Return the mix: real prose and `count` synthetic pages."""
    chosen = random.Random(8)
    real = [each.text for each in articles(library().root / "handbook") if len(each.text) > 2_000]
    return real + [made_page(chosen, number) for number in range(count)]


def ours(text: str) -> int:
    """Return the number of citations, read with all that is said of them."""
    return len(read_citations(text, RULES, today=TODAY))


def baseline(text: str) -> int:
    """Parse as a bot's author would: links, and the parameters of templates; return the number of links."""
    parsed = mwparserfromhell.parse(text)
    for template in parsed.filter_templates():
        if template.name.strip().lower().startswith("cite") and template.has("url"):
            str(template.get("url").value).strip()
    return len(parsed.filter_external_links())


def seconds(task: Callable[[str], int], pages: list[str], rounds: int) -> tuple[float, int]:
    """Return the CPU seconds for all pages, of the best round, and how much was found."""
    best, link_count = 1e9, 0
    for _ in range(rounds):
        begun = time.process_time()
        link_count = sum(map(task, pages))
        best = min(best, time.process_time() - begun)
    return best, link_count


def shares(pages: list[str]) -> list[tuple[str, ...]]:
    """Return the eight modules that take the most time, with their shares."""
    profile = cProfile.Profile()
    profile.enable()
    for page in pages:
        ours(page)
    profile.disable()
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    spent: dict[str, float] = {}
    for (file, _, name), (_, _, own, _, _) in stats.items():
        place = Path(file)
        module = f"{place.parent.name}.{place.stem}" if place.suffix == ".py" else _builtin(name)
        spent[module] = spent.get(module, 0.0) + own
    total = sum(spent.values())
    most = sorted(spent.items(), key=lambda each: -each[1])[:8]
    return [(module, f"{own / total:.0%}") for module, own in most]


def _builtin(name: str) -> str:
    return "regular expressions" if "re.Pattern" in name or "re.Match" in name else "other built-ins"


def figures(*, quick: bool) -> dict[str, float]:
    """Measure both on the same pages; a table is printed."""
    count, rounds = PAGES[quick]
    pages = every_page(count)
    size = _bytes(pages)
    ours(pages[0])  # compiles what is compiled once
    taken, link_count = seconds(ours, pages, rounds)
    few = pages[:: 4 if quick else 2]
    taken_few, _ = seconds(ours, few, rounds)
    base, base_found = seconds(baseline, few, 1)
    mean = size / len(pages) / 1_000
    print(f"{len(pages)} pages of {mean:.1f} KB and {link_count / len(pages):.0f} links on average\n")
    speeds = (len(pages) / taken, len(few) / base)
    rates = (size / taken / 1e6, _bytes(few) / base / 1e6)
    rows = [
        ("wikitext into citations", "ours", "mwparserfromhell", "target"),
        ("pages/s of one core", *(f"{each:,.0f}" for each in speeds), ">= 200"),
        ("MB/s", *(f"{each:.2f}" for each in rates), ""),
        ("links found a page", f"{link_count / len(pages):.1f}", f"{base_found / len(few):.1f}", ""),
    ]
    report.table(rows)
    print("\nour time by module, by a profiler, which weighs on short functions")
    report.table([("module", "share"), *shares(few)])
    return {"pages_per_s": speeds[0], "mb_per_s": rates[0], "parsing_ratio": base / taken_few}


def _bytes(pages: list[str]) -> int:
    return sum(len(page.encode()) for page in pages)


if __name__ == "__main__":
    report.figures("wiki_parsing", figures(quick=report.arguments(__doc__ or "").quick))
