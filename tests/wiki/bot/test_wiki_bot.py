"""Runs of the bot that end in the middle, on a real MediaWiki: nothing is lost, nothing is done twice."""

import asyncio
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from links.registry.bot_edits import EditState
from links.states import LinkState
from tests.support.bot_harness import BotHarness
from tests.support.sites.cache import ROOT
from wiki.api.models import ThrottledError, WikiAwayError
from wiki.bot.page_edit import PageEditStatus
from wiki.bot.past_edits import SETTLED_S
from wiki.bot.wiki_bot import LEASE_S

pytestmark = pytest.mark.slow
URL = "https://gone.example.org/a"
PAGE = f"A fact.<ref>{{{{cite web|url={URL}|title=A|access-date=2025-03-11}}}}</ref>\n\nMore."


class KilledError(BaseException):
    """The process is no more: nothing of ours may catch this."""


@pytest.mark.parametrize("step", ["read", "intended", "saved", "booked"])
async def test_a_run_that_dies_at_a_step_is_finished_by_the_next(harness: BotHarness, step: str) -> None:
    """Whatever was done when the process died: in the end the page has one edit of ours, and so the book."""
    title, _ = harness.page(PAGE, {URL: LinkState.DEAD})
    harness.give_copy(URL)

    def die(reached: str) -> None:
        if reached == step:
            raise KilledError

    harness.step = die
    with pytest.raises(KilledError):
        await harness.run()
    harness.step = lambda _name: None
    await harness.clock.sleep(max(LEASE_S, SETTLED_S) + 1)

    await harness.run()
    await harness.run()

    assert len(harness.revisions(title)) == 2
    made = [edit for edit in harness.edits() if edit.state is EditState.MADE]
    assert [edit.rev for edit in made] == [harness.revisions(title)[0]["revid"]]
    assert {edit.state for edit in harness.edits()} <= {EditState.MADE, EditState.NOTHING, EditState.ABANDONED}


async def test_a_young_edit_that_cannot_be_found_waits(harness: BotHarness) -> None:
    """The wiki may still be working on it: its page is left alone for ten minutes."""
    title, _ = harness.page(PAGE, {URL: LinkState.DEAD})
    harness.give_copy(URL)

    def die(reached: str) -> None:
        if reached == "intended":
            raise KilledError

    harness.step = die
    with pytest.raises(KilledError):
        await harness.run()
    harness.step = lambda _name: None

    waits, _ = await harness.run()
    await harness.clock.sleep(SETTLED_S + 1)
    goes_on, _ = await harness.run()

    assert (waits.did, waits.settled) == ({}, 0)
    assert (goes_on.did, goes_on.settled) == ({PageEditStatus.EDITED: 1}, 1)
    assert len(harness.revisions(title)) == 2


async def test_kill_9_between_the_wiki_and_the_book(harness: BotHarness, tmp_path: Path) -> None:
    """A real process, really killed when the wiki has the edit and the book has not."""
    title, _ = harness.page(PAGE, {URL: LinkState.DEAD})
    harness.give_copy(URL)
    script = textwrap.dedent(
        f"""
        import asyncio, os, signal, sys
        from pathlib import Path
        from contextlib import closing
        from core.layout import Layout
        from links.registry.database import open_registry_store
        from tests.support.bot_harness import BotHarness
        from links.registry.wikis import all_wikis

        class Address:
            api = {harness.writer.api!r}

        def die(step):
            if step == "saved":
                os.kill(os.getpid(), signal.SIGKILL)

        with closing(open_registry_store(Layout(Path({str(tmp_path)!r})))) as store:
            with store.reading() as rows:
                wiki = all_wikis(rows)[0]
            harness = BotHarness(store, wiki, Address, {harness.login!r}, step=die)
            asyncio.run(harness.run())
        """
    )
    done = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", script], cwd=ROOT, check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL
    assert harness.edits()[0].state is EditState.INTENDED

    await harness.clock.sleep(LEASE_S + 1)
    tally, _ = await harness.run()

    assert tally.settled == 1
    assert [edit.state for edit in harness.edits()[-1:]] == [EditState.MADE]
    assert len(harness.revisions(title)) == 2


@asynccontextmanager
async def before_the_wiki(harness: BotHarness, answer: bytes | None, *, passes_on: bool) -> AsyncIterator[str]:
    """Serve a proxy of the wiki that answers edits with `answer`, or not at all; yield its API address."""
    host, port = harness.writer.api.removeprefix("http://").split("/")[0].split(":")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                (
                    int(line.partition(b":")[2])
                    for line in head.split(b"\r\n")
                    if line.lower().startswith(b"content-length:")
                ),
                0,
            )
            body = await reader.readexactly(length)
            is_edit = b"action=edit" in body
            if not is_edit or passes_on:
                there, back = await asyncio.open_connection(host, int(port))
                closing = b"\r\n".join(
                    line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")
                )
                back.write(closing[:-2] + b"Connection: close\r\n\r\n" + body)
                response = await there.read()
                back.close()
                if not is_edit:
                    writer.write(response)
            if is_edit and answer is not None:
                writer.write(answer)
            await writer.drain()
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/api.php"


async def test_an_answer_that_never_comes_is_found_out_later(harness: BotHarness) -> None:
    """The edit was made, the answer was lost: the next run finds it in the history."""
    title, _ = harness.page(PAGE, {URL: LinkState.DEAD})
    harness.give_copy(URL)
    async with before_the_wiki(harness, None, passes_on=True) as address, harness.bot(address=address) as bot:
        first = await bot.run()

    second, _ = await harness.run()

    assert first.did == {PageEditStatus.UNKNOWN: 1}
    assert (second.settled, second.did) == (1, {PageEditStatus.NOTHING: 1})
    assert len(harness.revisions(title)) == 2


_ERROR = b'{"error":{"code":"%s","info":"said so"}}'


def _answer(code: bytes, *, retry: int = 0) -> bytes:
    body = _ERROR % code
    wait = b"Retry-After: %d\r\n" % retry if retry else b""
    return (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n"
        b"Connection: close\r\n\r\n%s" % (wait, len(body), body)
    )


@pytest.mark.parametrize(
    ("code", "error"),
    [(b"maxlag", ThrottledError), (b"ratelimited", ThrottledError), (b"readonly", WikiAwayError)],
    ids=["maxlag", "ratelimited", "readonly"],
)
async def test_a_wiki_that_wants_to_be_left_alone_is(harness: BotHarness, code: bytes, error: type[Exception]) -> None:
    """A lagging, throttling or read-only wiki ends the run; nothing stays open, and the next one goes on."""
    title, _ = harness.page(PAGE, {URL: LinkState.DEAD})
    harness.give_copy(URL)
    async with (
        before_the_wiki(harness, _answer(code, retry=3), passes_on=False) as address,
        harness.bot(address=address) as bot,
    ):
        with pytest.raises(error):
            await bot.run()
    assert harness.edits() == []

    tally, _ = await harness.run()
    assert tally.did == {PageEditStatus.EDITED: 1}
    assert len(harness.revisions(title)) == 2


async def test_a_refusal_of_an_extension_is_about_its_page(harness: BotHarness) -> None:
    """A filter refuses a page: it is booked, and the run goes on."""
    harness.page(PAGE, {URL: LinkState.DEAD})
    harness.give_copy(URL)
    async with (
        before_the_wiki(harness, _answer(b"abusefilter-disallowed"), passes_on=False) as address,
        harness.bot(address=address) as bot,
    ):
        tally = await bot.run()

    assert tally.did == {PageEditStatus.REFUSED: 1}
    assert harness.edits()[0].state is EditState.FAILED


async def test_a_refusal_in_the_older_way_is_told_apart(harness: BotHarness) -> None:
    """A captcha says `Failure` within a result, with 200 and without an error."""
    harness.page(PAGE, {URL: LinkState.DEAD})
    harness.give_copy(URL)
    body = b'{"edit":{"captcha":{"type":"simple","id":"1","question":"1+1"},"result":"Failure"}}'
    answer = (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
        b"Connection: close\r\n\r\n%s" % (len(body), body)
    )
    async with before_the_wiki(harness, answer, passes_on=False) as address, harness.bot(address=address) as bot:
        tally = await bot.run()

    assert tally.did == {PageEditStatus.REFUSED: 1}
    assert "captcha" in harness.edits()[0].note
