"""`weboid wiki check`: proves everything that a watched wiki needs, one line each, with the next step."""

import asyncio
import hmac
import json
import secrets
from collections.abc import AsyncIterator
from datetime import UTC
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import click
import httpx

from core.clock import SystemClock
from core.errors import ConfigError, WeboidError
from core.settings import Settings
from crawler.cli.doctor import line_for
from crawler.cli.exits import Exit
from crawler.cli.health import Finding, Health
from crawler.cli.links.archives_asked import opened_archives
from crawler.cli.links.opening import opened_registry
from crawler.cli.where import Where, where_options
from crawler.cli.wiki.bot_opening import bot_api, wiki_named
from crawler.cli.wiki.opening import api_of, settings_of_wiki
from crawler.cli.wiki.watch_note import WatchNote, read_note
from links.books.feeds import LEASE, feeds_of
from links.books.wikis import Wiki
from links.store.store import Store
from playback.decisions.level_book import LevelBook
from playback.decisions.store import open_decisions
from wiki.api.account import read_secret
from wiki.api.client import Api
from wiki.api.edits import who_am_i
from wiki.api.values import a_moment, a_text, query_of
from wiki.feeding.bell import AGE_LIMIT_S, check_secret, signature
from wiki.settings import WikiSettings

_CLOCK = SystemClock()
_LIMIT_S = 15.0
_SKEW_WARN_S = 30.0
_KNOWN_URL = "https://example.com/"  # for archives: kept by every one of them
_PRINT_OF = b"weboid webhook secret"  # as Settings::secretPrint() of the extension


@click.command("check")
@click.argument("name", required=False, default="", metavar="[WIKI]")
@click.option(
    "--front", metavar="ORIGIN", help="The front's origin.  [default: as `wiki watch` serves it]"
)
@click.option("--replay", metavar="ORIGIN", help="The copies' origin.  [default: the same]")
@click.option(
    "--bell", metavar="HOST:PORT", help="Where the webhook is.  [default: as `wiki watch` has it]"
)
@click.option("--secret-file", metavar="FILE", help="The wiki's secret.  [default: the same]")
@where_options
def command(
    *,
    name: str,
    front: str | None,
    replay: str | None,
    bell: str | None,
    secret_file: str | None,
    where: Where,
    as_json: bool,
) -> int:
    """Check a wiki's set-up: its API, the front, the copies, the webhook, the extension, archives, the bot.

    Nothing is changed: the webhook is sent a signed test that it only answers. Addresses are those of the
    last `weboid wiki watch` on this collection, or as the options say. Exit code 1 when there is a problem.
    """
    note = read_note(where.layout).changed(front, replay, bell, secret_file)
    with opened_registry(where.layout.root, where.settings.index.url) as store:
        wiki = wiki_named(store, name)
        check = _Check(wiki, note, where, store)
        findings = asyncio.run(check.run())
    if as_json:
        document = {"wiki": str(wiki.name), "findings": [each.to_dict() for each in findings]}
        click.echo(json.dumps(document, ensure_ascii=False))
    else:
        for finding in findings:
            click.echo(line_for(finding))
    return Exit.SOME_FAILED if any(f.health is Health.BAD for f in findings) else Exit.OK


class _Check:
    """The checks of one wiki."""

    def __init__(self, wiki: Wiki, note: WatchNote, where: Where, store: Store) -> None:
        self._wiki = wiki
        self._note = note
        self._where = where
        self._settings: Settings = where.settings
        self._store = store
        self._secret = b""

    async def run(self) -> list[Finding]:
        """Return what was found."""
        try:
            said = settings_of_wiki(self._wiki)
        except ConfigError as error:
            return [Finding("settings", Health.BAD, "cannot be used", str(error))]
        found = [self._contact(), self._feed()]
        async with httpx.AsyncClient(trust_env=False, timeout=_LIMIT_S) as client:
            found += [await self._front(client), await self._replay(client)]
            found += [each async for each in self._webhook(client)]
        found += [each async for each in self._site()]
        found += [each async for each in self._archives()]
        found += [self._rights(), *[each async for each in self._bot(said)]]
        return found

    def _contact(self) -> Finding:
        contact = self._settings.links.contact or self._settings.visit.contact
        if contact:
            return Finding("contact", Health.GOOD, contact)
        return Finding(
            "contact",
            Health.BAD,
            "not said: sites and wikis cannot tell you of a problem",
            'Set [links] contact = "https://…" or a mail address in the profile.',
        )

    def _feed(self) -> Finding:
        with self._store.reading() as rows:
            feeds = feeds_of(rows, self._wiki.id)
        troubles = dict.fromkeys(feed.trouble for feed in feeds.values() if feed.trouble)
        if troubles:
            remedy = "`weboid wiki ls` shows whether it lasts."
            return Finding("watch", Health.BAD, " ".join(troubles), remedy)
        lease = feeds.get(LEASE)
        if lease is None or lease.moment < _CLOCK.now():
            return Finding(
                "watch", Health.BAD, "nobody watches the wiki", "Run `weboid wiki watch`."
            )
        return Finding("watch", Health.GOOD, "a process watches the wiki")

    async def _front(self, client: httpx.AsyncClient) -> Finding:
        """Ask the front as the extension does."""
        origin = self._note.front
        if not origin:
            remedy = "Run `weboid wiki watch --serve HOST:PORT`, or say --front ORIGIN."
            return Finding("front", Health.UNSET, "no front is known", remedy)
        question = {"wiki": str(self._wiki.name), "urls": []}
        try:
            answer = await client.post(f"{origin}/links/api/cached", json=question)
        except httpx.HTTPError as error:
            remedy = "Start `weboid wiki watch --serve`, or say --front ORIGIN."
            return Finding("front", Health.BAD, f"{origin}: {_why(error)}", remedy)
        return self._answered(origin, answer)

    def _answered(self, origin: str, answer: httpx.Response) -> Finding:
        """Judge the front's answer."""
        if answer.status_code == httpx.codes.TOO_MANY_REQUESTS:
            remedy = "Name the wiki's server with --links-internal."
            return Finding("front", Health.WARN, f"{origin} was asked too often", remedy)
        try:
            told = answer.json()
        except ValueError:
            told = None
        if answer.status_code != httpx.codes.OK or not isinstance(told, dict):
            remedy = "Is that address Weboid's front?"
            return Finding("front", Health.BAD, f"{origin}: status {answer.status_code}", remedy)
        if not told.get("is_whole"):
            remedy = "Look for messages of the part `serve` of `weboid wiki watch`."
            return Finding("front", Health.BAD, f"{origin}: a store cannot be read", remedy)
        skew = _skew_of(answer.headers.get("date", ""))
        if abs(skew) > _SKEW_WARN_S:
            text = f"{origin}: its clock differs by {skew:.0f} s"
            return Finding("front", Health.BAD, text, "Set the clocks of both machines (NTP).")
        return Finding("front", Health.GOOD, f"{origin} answers")

    async def _replay(self, client: httpx.AsyncClient) -> Finding:
        """Ask for a copy that there is none of."""
        origin = self._note.replay
        if not origin:
            return Finding("replay", Health.UNSET, "no address of copies is known", "See front.")
        try:
            answer = await client.get(f"{origin}/c/20000101000000/http://example.invalid/")
        except httpx.HTTPError as error:
            remedy = "Addresses of copies that were cited lead nowhere: start the front."
            return Finding("replay", Health.BAD, f"{origin}: {_why(error)}", remedy)
        if "content-security-policy" not in answer.headers or answer.status_code >= 500:
            remedy = "Is that address the one of copies? `weboid serve --replay-port` names it."
            return Finding("replay", Health.BAD, f"{origin}: status {answer.status_code}", remedy)
        return Finding("replay", Health.GOOD, f"{origin} answers")

    async def _webhook(self, client: httpx.AsyncClient) -> AsyncIterator[Finding]:
        """Send a signed test."""
        place = self._note.bell
        if not place:
            remedy = (
                "`weboid wiki watch --bell HOST:PORT --secret-file FILE` hears of changes at once."
            )
            yield Finding("webhook", Health.UNSET, "changes are found every 10 s", remedy)
            return
        file = self._note.secret_of(str(self._wiki.name))
        try:
            self._secret = check_secret(read_secret(Path(file))) if file else b""
        except WeboidError as error:
            yield Finding("secret", Health.BAD, "cannot be used", str(error))
            return
        if not self._secret:
            remedy = f"`weboid wiki watch --secret-file {self._wiki.name}=FILE`."
            yield Finding("secret", Health.BAD, "the wiki has none: only datagrams ring", remedy)
            return
        yield Finding("secret", Health.GOOD, f"{file}, readable by its owner alone")
        body = json.dumps({"wiki": str(self._wiki.name), "pages": []}).encode()
        at = int(_CLOCK.now().timestamp())
        signed = signature(self._secret, body, at=at, nonce=secrets.token_hex(16), path="/test")
        try:
            answer = await client.post(
                f"http://{place}/test", content=body, headers={"X-Weboid-Signature": signed}
            )
        except httpx.HTTPError as error:
            remedy = "Start `weboid wiki watch --bell`, or say --bell HOST:PORT."
            yield Finding("webhook", Health.BAD, f"{place}: {_why(error)}", remedy)
            return
        if answer.status_code == httpx.codes.NO_CONTENT:
            yield Finding("webhook", Health.GOOD, f"{place} took a signed test")
            return
        text = f"{place}: status {answer.status_code}"
        yield Finding("webhook", Health.BAD, text, answer.text[:300])

    async def _site(self) -> AsyncIterator[Finding]:
        """Ask the wiki what it is, what time it has, and how the extension is set."""
        try:
            async with api_of(self._wiki, self._settings) as api:
                told = await _site_info(api)
        except WeboidError as error:
            remedy = (
                "`weboid wiki add URL` renews its address; --account lets a closed wiki be read."
            )
            yield Finding("wiki", Health.BAD, str(error), remedy)
            return
        query = query_of(told)
        general = query.get("general")
        general = general if isinstance(general, dict) else {}
        yield Finding("wiki", Health.GOOD, f"{a_text(general, 'generator')}, {self._wiki.url}")
        skew = (a_moment(told.get("curtimestamp")) - _CLOCK.now()).total_seconds()
        text = f"the wiki's differs by {abs(skew):.0f} s"
        if abs(skew) > AGE_LIMIT_S / 2:
            yield Finding("clock", Health.BAD, text, "Set the clocks of both machines (NTP).")
        else:
            health = Health.GOOD if abs(skew) <= _SKEW_WARN_S else Health.WARN
            yield Finding("clock", health, text)
        for each in self._extension(general):
            yield each

    def _extension(self, general: dict[str, Any]) -> list[Finding]:
        found = general.get("weboid")
        if not isinstance(found, dict):
            remedy = "Copy wiki/mediawiki/Weboid into extensions/, or update it: docs/mediawiki.md."
            text = "not installed, or of an older release"
            return [Finding("extension", Health.UNSET, text, remedy)]
        findings = []
        named = a_text(found, "wiki")
        if named != str(self._wiki.name):
            remedy = f"$wgWeboidWiki = '{self._wiki.name}';"
            text = f"it calls the wiki {named}, the registry {self._wiki.name}"
            findings.append(Finding("extension", Health.BAD, text, remedy))
        for key, setting in (("front", "$wgWeboidFront"), ("bell", "$wgWeboidBell")):
            if not found.get(key):
                text = f"{setting} is not set"
                remedy = "Nothing is shown beside links." if key == "front" else "No page is told."
                findings.append(Finding("extension", Health.WARN, text, remedy))
        if not findings:
            text = f"version {a_text(found, 'version')}, {named}"
            findings.append(Finding("extension", Health.GOOD, text))
        findings.append(self._origins(found.get("origins")))
        if self._secret and found.get("bell"):
            expected = secret_print(self._secret)
            is_same = hmac.compare_digest(expected, a_text(found, "secret"))
            remedy = "Put the same secret into the file of $wgWeboidSecretFile."
            findings.append(
                Finding("secret", Health.GOOD, "the wiki has the same")
                if is_same
                else Finding("secret", Health.BAD, "the wiki has none, or another", remedy)
            )
        return findings

    def _origins(self, origins: object) -> Finding:
        known = (
            {each for each in origins if isinstance(each, str)}
            if isinstance(origins, list)
            else set()
        )
        needed = [each for each in (self._note.front, self._note.replay) if each]
        missing = [each for each in needed if each.lower() not in known]
        if missing:
            both = ", ".join(f"'{each}'" for each in needed)
            text = f"links may not lead to {' and '.join(missing)}"
            return Finding("origins", Health.BAD, text, f"$wgWeboidOrigins = [ {both} ];")
        return Finding("origins", Health.GOOD, ", ".join(sorted(known)))

    async def _archives(self) -> AsyncIterator[Finding]:
        """Ask each archive about an address that all have."""
        if not self._settings.links.archives:
            remedy = 'Set [links] archives = ["wayback"] in the profile: docs/archives.md.'
            text = "none is asked: a link that is dead already gets no copy"
            yield Finding("archives", Health.UNSET, text, remedy)
            return
        try:
            async with opened_archives(self._settings) as archives:
                for adapter in archives.adapters:
                    yield await _asked(adapter)
        except WeboidError as error:
            yield Finding("archives", Health.BAD, "cannot be opened", str(error))

    def _rights(self) -> Finding:
        store = open_decisions(self._where.layout, self._settings.index.url)
        try:
            rights = LevelBook(store).now().rights
        finally:
            store.close()
        own = [each for each in rights if each.wiki == self._wiki.name.in_levels]
        if own:
            text = ", ".join(f"{each.editor or 'editors'}: {each.most}" for each in own[:5])
            return Finding("levels", Health.GOOD, text)
        remedy = f"`weboid level rights allow --wiki {self._wiki.name.in_levels} --most images`."
        return Finding("levels", Health.UNSET, "its editors may set no levels of copies", remedy)

    async def _bot(self, said: WikiSettings) -> AsyncIterator[Finding]:
        bot = said.bot
        if not bot.enabled:
            remedy = f"`weboid wiki bot run {self._wiki.name} --dry-run` shows what it would do."
            yield Finding("bot", Health.UNSET, "off: dead links are not mended", remedy)
            return
        try:
            async with bot_api(self._wiki, self._settings) as api:
                me = await who_am_i(api)
        except WeboidError as error:
            yield Finding("bot", Health.BAD, "cannot log in", str(error))
            return
        if me.blocked:
            remedy = "Ask the administrator who blocked it; `weboid wiki bot off` until then."
            yield Finding("bot", Health.BAD, f"{me.name} is {me.blocked}", remedy)
            return
        if "edit" not in me.rights:
            remedy = "Grant its bot password “Edit existing pages”."
            yield Finding("bot", Health.BAD, f"{me.name} may not edit", remedy)
            return
        if not bot.front and not self._settings.links.archives:
            remedy = f"`weboid wiki bot on {self._wiki.name} --front ORIGIN`, or [links] archives."
            yield Finding("bot", Health.BAD, "it knows no copies to cite", remedy)
            return
        flag = "" if "bot" in me.rights else ", without the bot flag"
        waits = "; somebody wrote to it" if me.has_messages else ""
        yield Finding(
            "bot", Health.WARN if waits else Health.GOOD, f"on, as {me.name}{flag}{waits}"
        )


async def _site_info(api: Api) -> dict[str, Any]:
    told = await api.get(action="query", meta="siteinfo", siprop="general", curtimestamp=True)
    return dict(told)


async def _asked(adapter: Any) -> Finding:
    try:
        async with asyncio.timeout(_LIMIT_S * 2):
            copies = await adapter.find(_KNOWN_URL, None)
    except (WeboidError, TimeoutError) as error:
        remedy = "It is asked again by itself; see [egress] when the way is closed."
        return Finding("archives", Health.BAD, f"{adapter.name}: {_why(error)}", remedy)
    return Finding(
        "archives", Health.GOOD, f"{adapter.name} answers ({len(copies)} copies of a test)"
    )


def secret_print(secret: bytes) -> str:
    """Return by what two sides see that they have the same secret: 32 bits that tell nothing else."""
    return hmac.digest(secret, _PRINT_OF, "sha256").hex()[:8]


def _skew_of(date: str) -> float:
    try:
        moment = parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return 0.0
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - _CLOCK.now()).total_seconds()


def _why(error: BaseException) -> str:
    return str(error) or type(error).__name__
