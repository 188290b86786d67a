"""The walk through a host's sitemaps: every file once, within bounds, problems said."""

from collections import Counter
from collections.abc import Sequence

import pytest

from crawler.capture.proxy_fetcher import FetchedFile
from crawler.rules import sitemap_rule
from crawler.rules.sitemap_rule import DEPTH_LIMIT, SitemapWalk, SitemapWalkResult
from tests.support.clocks import ManualClock


class HostFiles:
    """A host's files, as the fetcher gives them."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.requests: Counter[str] = Counter()

    async def get(self, url: str, *, limit_bytes: int, timeout_s: float) -> FetchedFile:
        """Return the file, or 404."""
        self.requests[url] += 1
        if url not in self.files:
            return FetchedFile(404, final_url=url)
        return FetchedFile(200, body=self.files[url][:limit_bytes], final_url=url)


def index(*urls: str) -> bytes:
    """Return an index of sitemaps."""
    return f"<sitemapindex>{''.join(f'<sitemap><loc>{u}</loc></sitemap>' for u in urls)}</sitemapindex>".encode()


def pages(*urls: str) -> bytes:
    """Return a sitemap."""
    return f"<urlset>{''.join(f'<url><loc>{u}</loc></url>' for u in urls)}</urlset>".encode()


async def walk(files: HostFiles, clock: ManualClock | None = None) -> tuple[SitemapWalkResult, list[str]]:
    """Walk through the files of a.org: what came of it, and the pages."""
    clock = clock or ManualClock()
    urls: list[str] = []

    async def take(_file: str, some: Sequence[str]) -> int:
        urls.extend(some)
        return len(some)

    walker = SitemapWalk(files, rest_s=1.0, monotonic=clock.monotonic, sleep=clock.sleep)
    return await walker.run("https://a.org/docs/", take), urls


async def test_robots_names_the_sitemaps() -> None:
    """Also of another host; the usual place is then not asked for."""
    files = HostFiles(
        {
            "https://a.org/robots.txt": b"Sitemap: https://cdn.org/s.xml",
            "https://cdn.org/s.xml": pages("https://a.org/1"),
            "https://a.org/sitemap.xml": pages("https://a.org/2"),
        }
    )

    walked, urls = await walk(files)

    assert urls == ["https://a.org/1"]
    assert (walked.files, walked.page_count, walked.added, walked.problems) == (1, 1, 1, [])


async def test_the_usual_place_serves_when_robots_names_none() -> None:
    """A host without one is nothing to tell."""
    files = HostFiles({"https://a.org/sitemap.xml": pages("https://a.org/2")})

    assert (await walk(files))[1] == ["https://a.org/2"]
    assert (await walk(HostFiles({})))[0].problems == []


async def test_indexes_that_name_each_other_end() -> None:
    """Each file is asked for once."""
    files = HostFiles(
        {
            "https://a.org/sitemap.xml": index("https://a.org/b.xml", "https://a.org/sitemap.xml"),
            "https://a.org/b.xml": index("https://a.org/sitemap.xml", "https://a.org/c.xml"),
            "https://a.org/c.xml": pages("https://a.org/1"),
        }
    )

    walked, urls = await walk(files)

    assert urls == ["https://a.org/1"]
    assert max(files.requests.values()) == 1
    assert walked.files == 3


async def test_indexes_within_indexes_have_a_limit() -> None:
    """A chain without end is left, and said."""
    names = [f"https://a.org/{number}.xml" for number in range(10)]
    files = HostFiles(
        {"https://a.org/robots.txt": f"Sitemap: {names[0]}".encode()}
        | {name: index(names[number + 1]) for number, name in enumerate(names[:-1])}
    )

    walked, _ = await walk(files)

    assert walked.files == DEPTH_LIMIT + 1
    assert "nested indexes" in walked.problems[0]


async def test_an_index_names_files_of_its_own_host_only() -> None:
    """sitemaps.org: a sitemap must be where its index is."""
    files = HostFiles(
        {
            "https://a.org/sitemap.xml": index("https://evil.net/s.xml", "https://a.org/s.xml"),
            "https://a.org/s.xml": pages("https://a.org/1"),
            "https://evil.net/s.xml": pages("https://a.org/2"),
        }
    )

    assert (await walk(files))[1] == ["https://a.org/1"]


async def test_a_file_that_is_broken_or_missing_is_said_and_the_rest_goes_on() -> None:
    """Pages that come before the fault count."""
    files = HostFiles(
        {
            "https://a.org/sitemap.xml": index(
                "https://a.org/gone.xml", "https://a.org/broken.xml", "https://a.org/c.xml"
            ),
            "https://a.org/broken.xml": pages("https://a.org/1")[:-9],
            "https://a.org/c.xml": pages("https://a.org/2"),
        }
    )

    walked, urls = await walk(files)

    assert urls == ["https://a.org/1", "https://a.org/2"]
    assert [problem.partition(": ")[0] for problem in walked.problems] == [
        "https://a.org/gone.xml",
        "https://a.org/broken.xml",
    ]


async def test_the_host_rests_between_files() -> None:
    """Once before each file, and once at the end."""
    clock = ManualClock()
    names = [f"https://a.org/{number}.xml" for number in range(3)]
    files = HostFiles({"https://a.org/sitemap.xml": index(*names)} | dict.fromkeys(names, pages()))

    await walk(files, clock)

    assert clock.slept == [1.0] * 5


async def test_files_and_time_have_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages found before the limit count; the result reports that there are more."""
    names = [f"https://a.org/{number}.xml" for number in range(9)]
    files = HostFiles(
        {"https://a.org/sitemap.xml": index(*names)}
        | {name: pages(f"https://a.org/{number}") for number, name in enumerate(names)}
    )
    monkeypatch.setattr(sitemap_rule, "FILES_LIMIT", 4)
    few, urls = await walk(files)
    assert (few.files, len(urls)) == (4, 3)
    assert "more than 4 sitemaps" in few.problems[0]

    monkeypatch.setattr(sitemap_rule, "TIME_LIMIT_S", 2.5)
    short, _ = await walk(files)
    assert short.files == 3
    assert "take longer" in short.problems[0]


async def test_a_host_that_does_not_answer_is_told_apart() -> None:
    """So that its sitemaps are asked for again."""

    class UnreachableFiles(HostFiles):
        async def get(self, url: str, *, limit_bytes: int, timeout_s: float) -> FetchedFile:
            return FetchedFile(0, error="timeout")

    walked, _ = await walk(UnreachableFiles({}))

    assert not walked.reached
