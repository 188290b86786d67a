"""Archives' addresses. The forms are those of InternetArchiveBot's list and of the services."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from core.urls import fetch_key
from links.archives.archive_urls import (
    OTHER,
    SERVICES,
    WEBOID,
    AddressFault,
    ArchiveUrl,
    is_copy_of,
    make_archive_url,
    moment_of,
    recognise,
)

A = "http://a.test/"


T = "20150102030405"


WAYBACK = "https://web.archive.org/web"


# address, service, original, timestamp, the address to keep
FORMS = [
    (f"{WAYBACK}/{T}/{A}", "wayback", A, T, f"{WAYBACK}/{T}/{A}"),
    (f"http://archive.org/web/{T}/{A}", "wayback", A, T, f"{WAYBACK}/{T}/{A}"),
    (f"http://www.archive.org/web/{T}/{A}", "wayback", A, T, f"{WAYBACK}/{T}/{A}"),
    (f"http://web.archive.org/{T}/{A}", "wayback", A, T, f"{WAYBACK}/{T}/{A}"),
    (f"http://classic-web.archive.org/web/{T}/{A}", "wayback", A, T, f"{WAYBACK}/{T}/{A}"),
    (f"http://replay.web.archive.org/{T}/{A}", "wayback", A, T, f"{WAYBACK}/{T}/{A}"),
    (f"http://web-beta.archive.org/web/{T}/{A}", "wayback", A, T, f"{WAYBACK}/{T}/{A}"),
    (f"http://liveweb.archive.org/{A}", "wayback", A, "", f"{WAYBACK}/{A}"),
    (f"http://wayback.archive.org/web/{T}/{A}", "wayback", A, T, f"{WAYBACK}/{T}/{A}"),
    (f"http://www.waybackmachine.org/{T}/{A}", "wayback", A, T, f"{WAYBACK}/{T}/{A}"),
    (f"HTTPS://WEB.Archive.ORG/WEB/{T}/HTTP://A.test:80/", "wayback", A, T, f"{WAYBACK}/{T}/{A}"),
    (f"https://vefsafn.is/is/{T}/{A}", "vefsafn", A, T, f"https://wayback.vefsafn.is/wayback/{T}/{A}"),
    ("http://nla.gov.au/nla.arc-12345", "nla", "", "", "https://nla.gov.au/nla.arc-12345"),
    (f"{WAYBACK}/{T}id_/{A}", "wayback", A, T, f"{WAYBACK}/{T}/{A}"),
    (f"{WAYBACK}/{T}/_embed/{A}", "wayback", A, T, f"{WAYBACK}/{T}/{A}"),
    (f"{WAYBACK}/2015/{A}", "wayback", A, "20150000000000", f"{WAYBACK}/2015/{A}"),
    (f"{WAYBACK}/2/{A}", "wayback", A, "", f"{WAYBACK}/{A}"),
    (f"{WAYBACK}/{A}", "wayback", A, "", f"{WAYBACK}/{A}"),
    (f"archive.is/{T}/{A}", "archive-today", A, T, f"https://archive.today/{T}/{A}"),
    (f"http://www.archive.is/2015.01.02-030405/{A}", "archive-today", A, T, f"https://archive.today/{T}/{A}"),
    (f"https://archive.ph/newest/{A}", "archive-today", A, "", f"https://archive.today/{A}"),
    ("https://archive.vn/AbC12", "archive-today", "", "", "https://archive.today/AbC12"),
    ("https://archive.md/wip/AbC12", "archive-today", "", "", "https://archive.today/AbC12"),
    ("https://archive.li/AbC12/image", "archive-today", "", "", "https://archive.today/AbC12"),
    (f"http://wayback.archive-it.org/1234/{T}/{A}", "archive-it", A, T, f"https://wayback.archive-it.org/1234/{T}/{A}"),
    (f"http://archive-it.org/all/{T}/{A}", "archive-it", A, T, f"https://wayback.archive-it.org/all/{T}/{A}"),
    (f"http://webarchive.proni.gov.uk/{T}/{A}", "archive-it", A, T, f"https://wayback.archive-it.org/11112/{T}/{A}"),
    (f"http://collection.europarchive.org/nli/{T}/{A}", "archive-it", A, T, f"https://wayback.archive-it.org/10702/{T}/{A}"),
    (f"http://arquivo.pt/wayback/wayback/{T}/{A}", "arquivo", A, T, f"https://arquivo.pt/wayback/{T}/{A}"),
    (f"https://arquivo.pt/noFrame/replay/{T}/{A}", "arquivo", A, T, f"https://arquivo.pt/wayback/{T}/{A}"),
    (f"http://webarchive.loc.gov/lcwa0010/{T}/{A}", "loc", A, T, f"https://webarchive.loc.gov/all/{T}/{A}"),
    (f"http://webharvest.gov/peth04/{T}/{A}", "webharvest", A, T, f"https://www.webharvest.gov/peth04/{T}/{A}"),
    (f"http://web.archive.bibalex.org:80/web/{T}/{A}", "bibalex", A, T, f"http://web.archive.bibalex.org/web/{T}/{A}"),
    (f"http://www.collectionscanada.gc.ca/webarchives/{T}/{A}", "bac-lac", A, T, f"http://webarchive.bac-lac.gc.ca:8080/wayback/{T}/{A}"),
    (f"http://webarchive.bac-lac.gc.ca:8080/wayback/{T}/{A}", "bac-lac", A, T, f"http://webarchive.bac-lac.gc.ca:8080/wayback/{T}/{A}"),
    (f"http://veebiarhiiv.digar.ee/a/{T}/{A}", "veebiarhiiv", A, T, f"https://veebiarhiiv.digar.ee/a/{T}/{A}"),
    (f"http://wayback.vefsafn.is/wayback/{T}/{A}", "vefsafn", A, T, f"https://wayback.vefsafn.is/wayback/{T}/{A}"),
    (f"http://nukrobi2.nuk.uni-lj.si:8080/wayback/{T}/{A}", "uni-lj", A, T, f"http://nukrobi2.nuk.uni-lj.si:8080/wayback/{T}/{A}"),
    (f"https://sul-swap-prod.stanford.edu/{T}/{A}", "stanford", A, T, f"https://swap.stanford.edu/{T}/{A}"),
    (f"http://yourarchives.nationalarchives.gov.uk/{T}/{A}", "uk-national-archives", A, T, f"https://webarchive.nationalarchives.gov.uk/ukgwa/{T}/{A}"),
    (f"http://webarchive.nationalarchives.gov.uk/+/{A}", "uk-national-archives", A, "", f"https://webarchive.nationalarchives.gov.uk/ukgwa/{A}"),
    (f"http://webarchive.parliament.uk/{T}/{A}", "uk-parliament", A, T, f"https://webarchive.parliament.uk/{T}/{A}"),
    (f"http://eresources.nlb.gov.sg/webarchives/wayback/{T}/{A}", "nlb-singapore", A, T, f"https://eresources.nlb.gov.sg/webarchives/wayback/{T}/{A}"),
    ("http://perma.cc/ab12-cd34?type=image", "perma", "", "", "https://perma.cc/AB12-CD34"),
    (f"http://perma-archives.org/warc/AB12-CD34/{A}", "perma", A, "", "https://perma.cc/AB12-CD34"),
    (f"http://perma-archives.org/warc/{T}/{A}", "perma", A, T, f"https://perma-archives.org/warc/{T}/{A}"),
    ("http://pandora.nla.gov.au/pan/14231/20120727-0512/www.a.test/x.htm", "nla", "http://www.a.test/x.htm", "20120727051200", "https://pandora.nla.gov.au/pan/14231/20120727-0512/www.a.test/x.htm"),
    (f"http://pandora.nla.gov.au/nph-wb/{T}/{A}", "nla", A, T, f"https://pandora.nla.gov.au/nph-wb/{T}/{A}"),
    (f"http://pandora.nla.gov.au/nph-arch/2000/S2000-Dec-5/{A}", "nla", A, "20001205000000", f"https://pandora.nla.gov.au/nph-arch/2000/S2000-Dec-5/{A}"),
    (f"http://content.webarchive.nla.gov.au/gov/wayback/{T}/{A}", "nla", A, T, f"https://webarchive.nla.gov.au/gov/{T}/{A}"),
    (f"http://archive.wikiwix.com/cache/{T}/{A}", "wikiwix", A, T, f"https://archive.wikiwix.com/cache/{T}/{A}"),
    ("http://wikiwix.com/cache/?url=http%3A%2F%2Fa.test%2F&title=x", "wikiwix", A, "", "https://archive.wikiwix.com/cache/?url=http%3A%2F%2Fa.test%2F"),
    ("http://www.freezepage.com/1249681324ZHFROBOEGE", "freezepage", "", "20090807214204", "https://www.freezepage.com/1249681324ZHFROBOEGE"),
    (f"https://webrecorder.io/me/mine/{T}$br:chrome:53/{A}", "conifer", A, T, f"https://conifer.rhizome.org/me/mine/{T}$br:chrome:53/{A}"),
    (f"https://conifer.rhizome.org/me/mine/list/one/b1/{T}/{A}", "conifer", A, T, f"https://conifer.rhizome.org/me/mine/list/one/b1/{T}/{A}"),
    (f"http://webarchive.org.uk/wayback/en/archive/{T}mp_/{A}", "ukwa", A, T, f"https://www.webarchive.org.uk/wayback/archive/{T}/{A}"),
    ("https://ghostarchive.org/archive/AbC12", "ghostarchive", "", "", "https://ghostarchive.org/archive/AbC12"),
    ("https://ghostarchive.org/varchive/youtube/20211205/dQw4w9WgXcQ", "ghostarchive", "https://www.youtube.com/watch?v=dQw4w9WgXcQ", "20211205000000", "https://ghostarchive.org/varchive/youtube/20211205/dQw4w9WgXcQ"),
    (f"http://timetravel.mementoweb.org/memento/{T}/{A}", "memento", A, T, f"https://timetravel.mementoweb.org/memento/{T}/{A}"),
    (f"http://digital.library.yorku.ca/wayback/{T}/{A}", "yorku", A, T, f"https://digital.library.yorku.ca/wayback/{T}/{A}"),
    (f"http://www.padi.cat:8080/wayback/{T}/{A}", "padicat", A, T, f"http://padi.cat:8080/wayback/{T}/{A}"),
    (f"https://megalodon.jp/ref/2015-0102-1204-05/{A}", "megalodon", A, T, f"https://megalodon.jp/ref/2015-0102-1204-05/{A}"),
    (f"https://wayback.webarchiv.cz/wayback/{T}/{A}", "webarchiv-cz", A, T, f"https://wayback.webarchiv.cz/wayback/{T}/{A}"),
]  # fmt: skip


def test_every_service_has_a_form_in_these_tests() -> None:
    """No service is added without one."""
    tested = {each[1] for each in FORMS} | {each[1] for each in FAULTY}

    assert tested >= set(SERVICES)


FAULTY = [
    ("https://cc.bingj.com/cache.aspx?q=a&d=4567&w=AbC", "bing-cache", "", "", AddressFault.GONE),
    ("http://www.webcitation.org/query.php?url=http%3A%2F%2Fa.test%2F&date=2009-01-31", "webcite", A, "20090131000000", AddressFault.GONE),
    ("http://www.webcitation.org/66lmEkpE8?url=http://a.test/x?chart%3D1G50", "webcite", "http://a.test/x?chart=1G50", "20120408112204", AddressFault.GONE),
    ("http://www.webcitation.org/query?url=http%3A%2F%2Fa.test%2F&date=2009-01-31", "webcite", A, "20090131000000", AddressFault.GONE),
    ("http://www.webcitation.org/query?id=1333884124123456", "webcite", "", "20120408112204", AddressFault.GONE),
    ("http://webcache.googleusercontent.com/search?q=cache:AbCdEfGhIjKl:a.test/x+word&hl=en", "google-cache", "http://a.test/x", "", AddressFault.GONE),
    (f"http://collection.europarchive.org/bnf/{T}/{A}", "internet-memory", A, T, AddressFault.GONE),
    (f"{WAYBACK}/*/{A}", "wayback", A, "", AddressFault.LIST),
    (f"{WAYBACK}/2015*/{A}", "wayback", A, "", AddressFault.LIST),
    (f"https://archive.ph/{A}", "archive-today", A, "", AddressFault.LIST),
    (f"https://web.archive.org/save/{A}", "wayback", A, "", AddressFault.REQUEST),
    (f"https://archive.ph/o/AbC12/{A}", "archive-today", A, "", AddressFault.REQUEST),
    ("https://archive.ph/?run=1&url=http%3A%2F%2Fa.test%2F", "archive-today", A, "", AddressFault.REQUEST),
    (f"{WAYBACK}/{T}/ftp://a.test/x", "wayback", "ftp://a.test/x", T, AddressFault.NOT_WEB),
]  # fmt: skip


@pytest.mark.parametrize(("text", "service", "original", "timestamp", "fault"), FAULTY, ids=[f[0] for f in FAULTY])
def test_what_is_no_copy_is_told(text: str, service: str, original: str, timestamp: str, fault: AddressFault) -> None:
    """Services that are gone, lists, and requests for copies are known, and nobody is led there."""
    archive_url = recognise(text)

    assert archive_url is not None
    assert (archive_url.service, archive_url.original, archive_url.timestamp) == (service, original, timestamp)
    assert archive_url.fault is fault
    assert not archive_url.is_usable


def test_only_the_host_decides_whose_address_it_is() -> None:
    """Before an @ anybody can write an archive's name; what follows it is what is asked."""
    archive_url = recognise(f"https://web.archive.org@evil.test/web/{T}/{A}")

    assert archive_url is not None
    assert archive_url.service == OTHER
    assert not archive_url.is_known
    assert is_copy_of(archive_url, A) is None


def test_archives_within_archives_end_somewhere() -> None:
    """A hostile address is not followed for ever, and belongs to nothing."""
    archive_url = recognise(f"{WAYBACK}/{T}/" * 40 + A)

    assert archive_url is not None
    assert archive_url.fault is AddressFault.TOO_DEEP
    assert not archive_url.is_usable
    assert not is_copy_of(archive_url, A)


def test_our_own_pages_are_known_by_their_origin() -> None:
    """A front's page and replay's copy, with the hash that they escape; no other host has the name."""
    for view in ("page", "c"):
        address = f"https://archive.example:8443/{view}/{T}/https://a.test/x%23!/y"
        archive_url = recognise(address, own=["https://archive.example:8443"])
        assert archive_url is not None
        assert (archive_url.service, archive_url.original, archive_url.timestamp) == (WEBOID, "https://a.test/x#!/y", T)
        other = recognise(address)
        assert other is not None
        assert other.service == OTHER


_HOSTS = st.from_regex(r"[a-z]{1,8}(\.[a-z]{2,6}){1,2}", fullmatch=True)


_PATHS = st.text("abcXYZ019/?&=%~.-_:;,@!$'()*+#[]ü ", max_size=40)


_STAMPS = st.datetimes().map(lambda when: when.strftime("%Y%m%d%H%M%S").rjust(14, "0"))


@given(host=_HOSTS, path=_PATHS, stamp=_STAMPS, service=st.sampled_from(sorted(SERVICES)))
def test_what_is_made_is_understood(host: str, path: str, stamp: str, service: str) -> None:
    """`make` and `recognise` are inverse, whatever the original."""
    original = fetch_key(f"http://{host}/{path}")
    address = make_archive_url(service, original, stamp)

    if address:
        archive_url = recognise(address)
        assert archive_url is not None
        assert (archive_url.service, archive_url.timestamp, archive_url.address) == (service, stamp, address)
        assert archive_url.original == original or archive_url.chain
    else:
        assert not SERVICES[service].is_made


@given(
    st.one_of(
        st.text(max_size=80),
        st.builds(
            "https://{}/{}".format,
            st.sampled_from([h for s in SERVICES.values() for h in s.hosts]),
            st.text(max_size=60),
        ),
    )
)
def test_any_text_has_an_answer(text: str) -> None:
    """Nothing that stands on a page breaks it; what is understood has a moment or none."""
    archive_url = recognise(text)

    if archive_url is not None:
        assert isinstance(archive_url, ArchiveUrl)
        assert not archive_url.timestamp or len(archive_url.timestamp) == 14
        assert archive_url.moment is None or archive_url.moment.tzinfo is not None


@pytest.mark.parametrize(("text", "service", "original", "timestamp", "address"), FORMS, ids=[f[0] for f in FORMS])
def test_each_form_is_understood(text: str, service: str, original: str, timestamp: str, address: str) -> None:
    """Service, original and moment are read from the address, and the best form is made of it."""
    archive_url = recognise(text)

    assert archive_url is not None
    assert (archive_url.service, archive_url.original, archive_url.timestamp) == (service, original, timestamp)
    assert archive_url.address == address
    assert archive_url.is_usable


@pytest.mark.parametrize("text", [each[0] for each in FORMS])
def test_the_best_form_stays_as_it_is(text: str) -> None:
    """Recognising a corrected address again changes nothing."""
    archive_url = recognise(text)
    assert archive_url is not None
    again = recognise(archive_url.address)

    assert again is not None
    assert again.address == archive_url.address
    assert again.service == archive_url.service


@pytest.mark.parametrize(
    ("written", "original"),
    [
        ("http%3A%2F%2Fa.test%2Fb%3Fc%3Dd", "http://a.test/b?c=d"),
        ("http:/a.test/b", "http://a.test/b"),
        ("https:/a.test/b", "https://a.test/b"),
        ("a.test/b", "http://a.test/b"),
        ("//a.test/b", "http://a.test/b"),
        ("///a.test/b", "http://a.test/b"),
        ("HTTP://A.Test:80/b#part", "http://a.test/b"),
        ("http://a.test:8080/b?c=d&e=%26", "http://a.test:8080/b?c=d&e=%26"),
        ("http://a.test/#!/b", "http://a.test/#!/b"),
        ("http://user@a.test/", "http://a.test/"),
        ("http://münchen.de/ß", "http://xn--mnchen-3ya.de/%C3%9F"),
        ("http://a.test/http://b.test/", "http://a.test/http://b.test/"),
    ],
)
def test_originals_are_repaired(written: str, original: str) -> None:
    """Escaped as a whole, without scheme, with one slash, with a port, a fragment, or other letters."""
    archive_url = recognise(f"{WAYBACK}/{T}/{written}")

    assert archive_url is not None
    assert archive_url.original == original


@pytest.mark.parametrize(
    "text",
    [
        "https://example.org/",
        "https://archive.org/details/book",
        "https://web.archive.org/",
        "https://web.archive.org/web/",
        f"https://web.archive.org.evil.test/web/2015/{A}",
        f"https://evil.test/?u={WAYBACK}/{T}/{A}",
        f"https://notarchive.is/2015/{A}",
        "https://www.google.com/search?q=cache",
        "https://trove.nla.gov.au/newspaper/article/123",
        "mailto:a@archive.is",
        "",
        "\x00",
        "https://archive.is/" + "a" * 70_000,
    ],
    ids=lambda text: text[:60] or "empty",
)
def test_other_addresses_are_no_archives(text: str) -> None:
    """Hosts that only look like an archive's, an archive's other pages, and what is no URL."""
    assert recognise(text) is None


def test_a_copy_of_a_copy_is_followed_to_what_it_is_of() -> None:
    """The original is the innermost, the archives on the way are told, the first sight is the date."""
    archive_url = recognise(
        f"{WAYBACK}/2016/https://archive.is/2014.01.02-030405/http:/webcitation.org/query?url=a.test&date=2009-01-31"
    )

    assert archive_url is not None
    assert archive_url.original == "http://a.test/"
    assert [each.service for each in archive_url.chain] == ["archive-today", "webcite"]
    assert archive_url.moment is not None
    assert archive_url.moment.year == 2009
    assert archive_url.is_usable  # the outermost is what is read


def test_a_copy_of_a_short_address_must_be_asked_for() -> None:
    """Nobody knows what is behind it, however well the outer address reads."""
    archive_url = recognise(f"{WAYBACK}/2016/https://archive.is/AbC12")

    assert archive_url is not None
    assert archive_url.must_ask
    assert is_copy_of(archive_url, A) is None


@pytest.mark.parametrize(
    ("copy", "reference", "says"),
    [
        (f"{WAYBACK}/{T}/http://a.test/x", "https://www.a.test/x/", True),
        (f"{WAYBACK}/{T}/http://a.test/x?b=1&a=2", "http://a.test/x?a=2&b=1", True),
        (f"{WAYBACK}/{T}/http://a.test/x", "http://a.test/y", False),
        (f"{WAYBACK}/{T}/http://a.test/x?a=1", "http://a.test/x", False),
        (f"{WAYBACK}/{T}/http://b.a.test/", "http://a.test/", False),
        ("https://perma.cc/AB12-CD34", A, None),
        ("https://example.org/", A, None),
        (f"https://replay.example/coll/{T}/{A}", A, None),
        (f"{WAYBACK}/{T}/{A}", f"https://archive.is/{T}/{A}", True),
        ("https://www.webcitation.org/query?url=http%3A%2F%2Fa.test%2F&date=2009-01-31", A, True),
    ],
)
def test_a_copy_is_held_to_its_reference(copy: str, reference: str, says: bool | None) -> None:
    """B07: the same page, another one, or a thing that only the archive knows."""
    assert is_copy_of(copy, reference) is says


def test_minutes_are_not_the_month() -> None:
    """InternetArchiveBot builds perma.cc's addresses with the month in the place of the minutes."""
    archive_url = recognise("https://perma-archives.org/warc/20150102034506/http://a.test/")

    assert archive_url is not None
    assert archive_url.moment is not None
    assert (archive_url.moment.hour, archive_url.moment.minute, archive_url.moment.second) == (3, 45, 6)
    assert archive_url.address.endswith("/warc/20150102034506/http://a.test/")


@given(st.text("0123456789", min_size=14, max_size=14))
def test_every_timestamp_is_a_moment(stamp: str) -> None:
    """Also one with a month 13, a day 31 of February, or zeros."""
    assert moment_of(stamp).year == max(int(stamp[:4]), 1)


def test_make_says_what_it_cannot_do() -> None:
    """Unknown services and timestamps are told; a service without such addresses gives none."""
    with pytest.raises(InputError, match="There is no archive"):
        make_archive_url("nobody", A, T)
    with pytest.raises(InputError, match="4 to 14 digits"):
        make_archive_url("wayback", A, "20")
    assert make_archive_url("perma", A, "") == ""
    assert make_archive_url("webcite", A, T) == ""


def test_an_archive_of_our_own_keeps_the_scheme_that_it_is_served_under() -> None:
    """An operator may serve it by http alone, where nothing answers under https."""
    address = "http://127.0.0.1:8080/page/20260101000000/http://a.test/"
    for own in ("http://127.0.0.1:8080", "https://127.0.0.1:8080"):
        archive_url = recognise(address, own=[own])
        assert archive_url is not None
        assert archive_url.address == f"{own}/page/20260101000000/http://a.test/"
