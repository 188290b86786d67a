"""Citation templates, repaired in their author's style."""

from dataclasses import replace

import pytest

from tests.wiki.wikitext.mending import OPTIONS, address, alive, copied, lost, mend, usurped
from wiki.wikitext.citation_model import ArchivedCopy, LinkCondition, LinkRemedy, NoRepairReason, RepairKind
from wiki.wikitext.repair_markup import CopyWorth, assess_copy

A = "http://x.test/a"
COPY = address(A)

ENGLISH = {
    "inline": (
        f"{{{{cite web|url={A}|title=T}}}}",
        f"{{{{cite web|url={A}|archive-url={COPY}|archive-date=2 January 2015|url-status=dead|title=T}}}}",
    ),
    "spaces before the bar": (
        f"{{{{cite web |url={A} |title=T |access-date=5 March 2014}}}}",
        f"{{{{cite web |url={A} |title=T |access-date=5 March 2014 |archive-url={COPY}"
        " |archive-date=2 January 2015 |url-status=dead}}",
    ),
    "spaces around everything": (
        f"{{{{cite web | url = {A} | title = T }}}}",
        f"{{{{cite web | url = {A} | archive-url = {COPY} | archive-date = 2 January 2015"
        " | url-status = dead | title = T }}",
    ),
    "one per line": (
        f"{{{{Cite news\n| url = {A}\n| title = T\n}}}}",
        f"{{{{Cite news\n| url = {A}\n| archive-url = {COPY}\n| archive-date = 2 January 2015"
        "\n| url-status = dead\n| title = T\n}}",
    ),
    "indented, and the link last": (
        f"{{{{cite web\n  |title=T\n  |url={A}}}}}",
        f"{{{{cite web\n  |title=T\n  |url={A}\n  |archive-url={COPY}\n  |archive-date=2 January 2015"
        "\n  |url-status=dead}}",
    ),
    "in a column": (
        f"{{{{cite web\n | url         = {A}\n | title       = T\n | access-date = March 5, 2014\n}}}}",
        f"{{{{cite web\n | url         = {A}\n | title       = T\n | access-date = March 5, 2014"
        f"\n | archive-url = {COPY}\n | archive-date = January 2, 2015\n | url-status  = dead\n}}}}",
    ),
    "blanks that were left at the ends of lines": (
        f"{{{{cite web\r\n| url = {A}  \r\n| title = T\t\r\n}}}}",
        f"{{{{cite web\r\n| url = {A}  \r\n| archive-url = {COPY}\r\n| archive-date = 2 January 2015"
        "\r\n| url-status = dead\r\n| title = T\t\r\n}}",
    ),
    "bars at the ends of lines": (
        f"{{{{cite web|\n url={A}|\n title=T\n}}}}",
        f"{{{{cite web|\n url={A}|\n archive-url={COPY}|\n archive-date=2 January 2015|"
        "\n url-status=dead|\n title=T\n}}",
    ),
    "empty ones are filled": (
        f"{{{{cite web |url={A} |archive-url= |archive-date= |url-status= |title=T}}}}",
        f"{{{{cite web |url={A} |archive-url={COPY} |archive-date=2 January 2015 |url-status=dead |title=T}}}}",
    ),
    "empty ones on their lines are filled": (
        f"{{{{cite web\n|url = {A}\n|archive-url = \n|archive-date =\n|title = T\n}}}}",
        f"{{{{cite web\n|url = {A}\n|archive-url = {COPY}\n|archive-date = 2 January 2015"
        "\n|url-status = dead\n|title = T\n}}",
    ),
    "aliases that are there are used": (
        f"{{{{cite web|url={A}|archiveurl=|archivedate=|title=T}}}}",
        f"{{{{cite web|url={A}|archiveurl={COPY}|archivedate=2 January 2015|url-status=dead|title=T}}}}",
    ),
    "an obsolete status gives way": (
        f"{{{{cite web|url={A}|deadurl=no|title=T}}}}",
        f"{{{{cite web|url={A}|archive-url={COPY}|archive-date=2 January 2015|url-status=dead|title=T}}}}",
    ),
    "dates as the template has them": (
        f"{{{{cite web|url={A}|title=T|access-date=2014-03-05}}}}",
        f"{{{{cite web|url={A}|title=T|access-date=2014-03-05|archive-url={COPY}"
        "|archive-date=2015-01-02|url-status=dead}}",
    ),
    "dates as the page says": (
        f"{{{{Use mdy dates|date=May 2020}}}}{{{{cite web|url={A}|title=T}}}}",
        f"{{{{Use mdy dates|date=May 2020}}}}{{{{cite web|url={A}|archive-url={COPY}"
        "|archive-date=January 2, 2015|url-status=dead|title=T}}",
    ),
    "an archive's address in the link's place": (
        f"{{{{cite web|url=http://web.archive.org/web/20130405/{A}|title=T}}}}",
        f"{{{{cite web|url={A}|archive-url=https://web.archive.org/web/20130405/{A}"
        "|archive-date=5 April 2013|url-status=dead|title=T}}",
    ),
    "an archive's address without a day, in the link's place": (
        f"{{{{cite web|url=https://web.archive.org/web/2013/{A}|title=T}}}}",
        f"{{{{cite web|url={A}|archive-url={COPY}|archive-date=2 January 2015|url-status=dead|title=T}}}}",
    ),
    "http of an archive": (
        f"{{{{cite web|url={A}|archive-url=http://web.archive.org/web/20130405060708/{A}|archive-date=2013-04-05}}}}",
        f"{{{{cite web|url={A}|archive-url=https://web.archive.org/web/20130405060708/{A}|archive-date=2013-04-05}}}}",
    ),
    "a copy of another page": (
        f"{{{{cite web|url={A}|archive-url=https://web.archive.org/web/20130405060708/http://y.test/"
        "|archive-date=2013-04-05|url-status=live}}",
        f"{{{{cite web|url={A}|archive-url={COPY}|archive-date=2015-01-02|url-status=dead}}}}",
    ),
    "no archive's address": (
        f"{{{{cite web|url={A}|archive-url=http://y.test/|archive-date=2013-04-05}}}}",
        f"{{{{cite web|url={A}|archive-url={COPY}|archive-date=2015-01-02|url-status=dead}}}}",
    ),
    "an archive that is gone": (
        f"{{{{cite web|url={A}|archive-url=https://www.webcitation.org/6abcdefgh?url={A}|archive-date=2013-04-05}}}}",
        f"{{{{cite web|url={A}|archive-url={COPY}|archive-date=2015-01-02|url-status=dead}}}}",
    ),
    "a copy that nobody led to": (
        f"{{{{cite web|url={A}|archive-url=https://web.archive.org/web/20130405060708/{A}"
        "|archive-date=2013-04-05|url-status=live}}",
        f"{{{{cite web|url={A}|archive-url=https://web.archive.org/web/20130405060708/{A}"
        "|archive-date=2013-04-05|url-status=dead}}",
    ),
    "a copy without its date": (
        f"{{{{cite web|url={A}|archive-url=https://web.archive.org/web/20130405060708/{A}}}}}",
        f"{{{{cite web|url={A}|archive-url=https://web.archive.org/web/20130405060708/{A}"
        "|archive-date=5 April 2013}}",
    ),
    "comments": (
        f"{{{{cite web<!-- a --> |url={A}<!-- b --> |title=T<!-- c -->}}}}",
        f"{{{{cite web<!-- a --> |url={A}<!-- b --> |archive-url={COPY}"
        " |archive-date=2 January 2015 |url-status=dead |title=T<!-- c -->}}",
    ),
    "entities in the link": (
        f"{{{{cite web|url={A}?b=1&amp;c=2}}}}",
        f"{{{{cite web|url={A}?b=1&amp;c=2|archive-url={COPY}?b=1&c=2|archive-date=2 January 2015|url-status=dead}}}}",
    ),
    "a bar in the copy's address": (
        f"{{{{cite web|url={A}%7Cb}}}}",
        f"{{{{cite web|url={A}%7Cb|archive-url={COPY}%7Cb|archive-date=2 January 2015|url-status=dead}}}}",
    ),
    "a dead-link tag that is no longer true": (
        f"<ref>{{{{cite web|url={A}|archive-url=|title=T}}}} {{{{dead link|date=May 2019}}}}</ref> so",
        f"<ref>{{{{cite web|url={A}|archive-url={COPY}|archive-date=2 January 2015|url-status=dead|title=T}}}}"
        "</ref> so",
    ),
}


@pytest.mark.parametrize("case", ENGLISH)
def test_a_citation_gets_its_copy_in_its_own_style(case: str) -> None:
    """Additions are formatted as the template's author would have written them (B13, B15)."""
    before, after = ENGLISH[case]
    done = mend(before)
    assert done.text == after
    assert len(done.changes) == 1
    assert done.changes[0].url.startswith(A)


GERMAN = {
    "in a line": (
        f"{{{{Internetquelle |url={A} |titel=T |abruf=2014-03-05}}}}",
        f"{{{{Internetquelle |url={A} |titel=T |abruf=2014-03-05 |archiv-url={COPY}"
        " |archiv-datum=2015-01-02 |offline=1}}",
    ),
    "dates in words": (
        f"{{{{Internetquelle |url={A} |titel=T |abruf=5. März 2014}}}}",
        f"{{{{Internetquelle |url={A} |titel=T |abruf=5. März 2014 |archiv-url={COPY}"
        " |archiv-datum=2. Januar 2015 |offline=1}}",
    ),
    "dates in digits": (
        f"{{{{Internetquelle |url={A} |titel=T |abruf=05.03.2014}}}}",
        f"{{{{Internetquelle |url={A} |titel=T |abruf=05.03.2014 |archiv-url={COPY}"
        " |archiv-datum=02.01.2015 |offline=1}}",
    ),
    "an English template": (
        f"{{{{cite web|url={A}|title=T}}}}",
        f"{{{{cite web|url={A}|archive-url={COPY}|archive-date=2015-01-02|url-status=dead|title=T}}}}",
    ),
}


@pytest.mark.parametrize("case", GERMAN)
def test_a_german_citation_gets_german_parameters(case: str) -> None:
    """Names, values and dates are those of the template, whatever the wiki (B15)."""
    before, after = GERMAN[case]
    assert mend(before, language="de").text == after


def test_without_a_copy_a_german_citation_says_that_it_is_offline() -> None:
    """No tag is needed if the status alone marks a link as dead (B12)."""
    done = mend(f"{{{{Internetquelle |url={A} |titel=T}}}}", lost, "de")
    assert done.text == f"{{{{Internetquelle |url={A} |offline=1 |titel=T}}}}"
    assert done.changes[0].kind is RepairKind.TAGGED


def test_without_a_copy_an_english_citation_gets_a_tag_once() -> None:
    """A dead link without a copy is tagged, and never twice (B12)."""
    done = mend(f"{{{{cite web|url={A}|title=T}}}}.", lost)
    tag = "{{dead link|date=November 2026|bot=Weboid|fix-attempted=yes}}"
    assert done.text == f"{{{{cite web|url={A}|title=T}}}} {tag}."
    assert mend(done.text, lost).text == done.text


def test_a_usurped_domain_is_said_to_be_one() -> None:
    """Readers are not led to a domain's new owner; ``dead`` is not enough for that."""
    text = f"{{{{cite web|url={A}|title=T}}}}"
    done = mend(text, usurped)
    assert "|url-status=usurped" in done.text
    assert mend(mend(text).text, usurped).text == done.text


def test_what_a_person_said_of_a_link_stays() -> None:
    """``unfit`` is more than ``dead``, and stays."""
    text = f"{{{{cite web|url={A}|archive-url={COPY}|archive-date=2015-01-02|url-status=unfit}}}}"
    assert mend(text).text == text
    assert mend(text, usurped).text == text


REVIVED = {
    "english": (
        "en",
        f"{{{{cite web|url={A}|archive-url={COPY}|archive-date=2015-01-02|url-status=dead}}}}",
        f"{{{{cite web|url={A}|archive-url={COPY}|archive-date=2015-01-02|url-status=live}}}}",
    ),
    "german": (
        "de",
        f"{{{{Internetquelle |url={A} |titel=T |offline=1 |abruf=2014-03-05}}}}",
        f"{{{{Internetquelle |url={A} |titel=T |abruf=2014-03-05}}}}",
    ),
    "german, in lines": (
        "de",
        f"{{{{Internetquelle\n |url={A}\n |offline=ja\n |titel=T\n}}}}",
        f"{{{{Internetquelle\n |url={A}\n |titel=T\n}}}}",
    ),
    "a tag": (
        "en",
        f"{{{{cite web|url={A}|title=T}}}} {{{{dead link|date=May 2019|bot=Weboid}}}}.",
        f"{{{{cite web|url={A}|title=T}}}}.",
    ),
}


@pytest.mark.parametrize("case", REVIVED)
def test_a_link_that_works_again_is_no_longer_called_dead(case: str) -> None:
    """The status is toggled back; the copy stays (B15)."""
    language, before, after = REVIVED[case]
    done = mend(before, alive, language)
    assert done.text == after
    assert done.changes[0].kind is RepairKind.REVIVED


@pytest.mark.parametrize("case", REVIVED)
def test_what_others_called_dead_is_left_to_them(case: str) -> None:
    """Only our own word is taken back."""
    language, before, _ = REVIVED[case]
    done = mend(before, lambda _: LinkRemedy(LinkCondition.ALIVE), language)
    assert done.text == before
    assert not done.changes


REFUSED = {
    "held": (f"{{{{cite web|url={A}|title=T}}}} {{{{cbignore}}}}", NoRepairReason.HELD),
    "twice": (f"{{{{cite web|url={A}|archive-url=http://b.test/|archiveurl=http://c.test/}}}}", NoRepairReason.DOUBLE),
    "the link twice": (f"{{{{cite web|url={A}|title=T|url={A}}}}}", NoRepairReason.DOUBLE),
    "a comment in the way": (f"{{{{cite web|url={A}|archive-url=<!-- none -->|title=T}}}}", NoRepairReason.COMMENT),
    "a template in the way": (f"{{{{cite web|url={A}|url-status={{{{x}}}}|title=T}}}}", NoRepairReason.COMMENT),
    "two links": (f"{{{{cite book|url={A}|chapter-url=http://x.test/b|title=T}}}}", NoRepairReason.SEVERAL),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_certain_is_left_alone(case: str) -> None:
    """A citation is refused rather than damaged."""
    text, reason = REFUSED[case]
    done = mend(text)
    assert done.text == text
    assert reason in {each.reason for each in done.refused}


BAD_COPIES = {
    "of another page": ArchivedCopy(address("http://y.test/"), "20150102030405", "wayback"),
    "no archive's": ArchivedCopy("http://evil.test/", "20150102030405", "wayback"),
    "no web address": ArchivedCopy("javascript:alert(1)", "20150102030405"),
    "without a day": ArchivedCopy("https://web.archive.org/web/2015/http://x.test/a", ""),
    "too long": ArchivedCopy(address(A) + "?" + "x" * 9_000, "20150102030405"),
}


@pytest.mark.parametrize("case", BAD_COPIES)
def test_a_copy_that_is_none_is_never_written(case: str) -> None:
    """The repair looks at the copy itself, whoever chose it (B07)."""
    text = f"{{{{cite web|url={A}|title=T}}}} [{A} T]"
    done = mend(text, lambda _: LinkRemedy(LinkCondition.DEAD, BAD_COPIES[case]))
    assert done.text == text
    assert {each.reason for each in done.refused} == {NoRepairReason.UNSAFE}


def test_a_copy_in_an_archive_that_nobody_knows_stays() -> None:
    """A URL that resembles an archive's may be a good copy, unless it is known to be bad (B13)."""
    address_there = f"https://archive.nowhere.test/web/20130405060708/{A}"
    text = f"{{{{cite web|url={A}|archive-url={address_there}|archive-date=2013-04-05}}}}"
    assert mend(text).text == text
    bad = LinkRemedy(LinkCondition.DEAD, copied(A).copy, bad_archives=frozenset({address_there}))
    assert mend(text, lambda _: bad).text == (
        f"{{{{cite web|url={A}|archive-url={COPY}|archive-date=2015-01-02|url-status=dead}}}}"
    )


def test_another_citation_is_not_changed() -> None:
    """Only links with a remedy are looked at."""
    other = "{{cite web | url = http://y.test/ |archive-url=http://z.test/|deadurl=no}}"
    done = mend(f"{other}\n{{{{cite web|url={A}}}}}", lambda url: copied(url) if url == A else None)
    assert done.text.startswith(f"{other}\n")
    assert len(done.changes) == 1


def test_copies_of_our_own_archive_are_copies() -> None:
    """Our own pages are known by their origin, written and read back."""
    options = replace(OPTIONS, own=("https://archive.example",))
    own = ArchivedCopy(f"https://archive.example/page/20150102030405/{A}", "20150102030405", "weboid")
    text = f"{{{{cite web|url={A}}}}}\n* [{A} T]\n"
    done = mend(text, lambda _: LinkRemedy(LinkCondition.DEAD, own), options=options)
    assert done.text.count(own.address) == 2
    again = mend(done.text, lambda _: LinkRemedy(LinkCondition.DEAD, own), options=options)
    assert again.text == done.text


def test_another_languages_months_are_not_written() -> None:
    """A wiki with the English templates and no English dates gets digits."""
    text = f"{{{{cite web|url={A}|access-date=5 mars 2014}}}}"
    done = mend(text, options=replace(OPTIONS, language="fr"))
    assert "|archive-date=2015-01-02|" in done.text


def _dated(archive_date: str, *, stamp: str = "20150102030405", status: str = "live") -> str:
    copy = address(A, stamp)
    return f"{{{{cite web|url={A}|archive-url={copy}|archive-date={archive_date}|url-status={status}}}}}"


@pytest.mark.parametrize(
    ("archive_date", "right"),
    [
        ("3 March 2011", "2 January 2015"),
        ("March 3, 2011", "January 2, 2015"),
        ("2015-01-03", "2015-01-02"),
        ("03.03.2011", "02.01.2015"),
        ("3 March 2999", "2 January 2015"),
    ],
)
def test_a_date_that_its_own_archives_address_contradicts_is_corrected(archive_date: str, right: str) -> None:
    """In the style in which it was written, where the citation is edited anyway; once (B15)."""
    once = mend(_dated(archive_date))
    assert once.text == _dated(right, status="dead")
    assert [each.kind for each in once.changes] == [RepairKind.MARKED]
    assert mend(once.text).text == once.text


@pytest.mark.parametrize("archive_date", ["2 January 2015", "Jan 2, 2015", "January 2015", "2011", "today"])
def test_a_date_that_is_right_or_names_no_day_stays(archive_date: str) -> None:
    """Less than a day, or none at all, contradicts nothing."""
    assert mend(_dated(archive_date)).text == _dated(archive_date, status="dead")


def test_a_date_alone_is_no_reason_for_an_edit() -> None:
    """A citation that says all that a reader needs is left alone."""
    text = _dated("3 March 2011", status="dead")
    assert mend(text).text == text


def test_a_timestamp_that_names_no_copy_corrects_nothing() -> None:
    """A shorter one asks for the copy nearest to it, which may well be of the day that is written."""
    dated = _dated("3 March 2011", stamp="20110101")
    assert mend(dated).text == dated.replace("=live", "=dead")


@pytest.mark.parametrize(
    ("address", "worth"),
    [
        (f"https://web.archive.org/web/20130115102033/{A}", CopyWorth.GOOD),
        (f"http://archive.org/web/20130115102033id_/{A}", CopyWorth.GOOD),
        ("https://web.archive.org/web/20130115102033/http://other.test/", CopyWorth.BAD),
        (f"https://www.webcitation.org/query?url={A}&date=2009-01-31", CopyWorth.BAD),
        (f"https://web.archive.org/web/*/{A}", CopyWorth.BAD),
        (f"https://web.archive.org/save/{A}", CopyWorth.BAD),
        ("https://perma.cc/AB12-CD34", CopyWorth.GOOD),
        (f"https://library.example/20130115102033/{A}", CopyWorth.GOOD),
        ("https://library.example/copy/5", CopyWorth.BAD),
    ],
)
def test_what_an_archive_address_is_worth_by_its_text(address: str, worth: CopyWorth) -> None:
    """B13, and that a good copy in an archive that nobody knows stays (T161074)."""
    assert assess_copy(address, A, LinkRemedy(LinkCondition.DEAD), ()).worth is worth
    looked_at = LinkRemedy(LinkCondition.DEAD, bad_archives=frozenset({address}))
    assert assess_copy(address, A, looked_at, ()).worth is CopyWorth.BAD
