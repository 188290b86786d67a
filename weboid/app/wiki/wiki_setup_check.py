"""Set-up check of a watched wiki: API, front, copies, webhook, extension, archives, bot."""

import asyncio
import hmac
import json
import secrets
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from core.clock import SystemClock
from core.config.settings import Settings
from core.errors import ConfigError, WeboidError
from core.web_dates import parse_http_date
from links.registry.database import RegistryStore
from links.registry.wikis import LEASE, Wiki, feeds_of
from playback.access.levels import LevelRight
from weboid.app.copy_sources import open_archives
from weboid.app.setup_check import SetupFinding, bad, good, unset, warn
from weboid.app.wiki.wiki_clients import bot_api, open_wiki_api, settings_of_wiki
from weboid.app.wiki.wiki_intake import WatchNote
from wiki.api.credentials import read_secret
from wiki.api.edit_request import read_bot_account
from wiki.api.models import object_field, parse_moment, query_result, text_field
from wiki.settings import BotSettings
from wiki.sync.webhook import AGE_LIMIT_S, check_secret, sign_request

_CLOCK = SystemClock()
_LIMIT_S = 15.0
_SKEW_WARN_S = 30.0
_KNOWN_URL = "https://example.com/"  # for archives: kept by every one of them


@dataclass
class WikiSetupCheck:
    """Set-up checks of one wiki."""

    wiki: Wiki
    note: WatchNote  # its last watch
    settings: Settings  # the profile
    store: RegistryStore
    rights: Collection[LevelRight]  # to set levels
    _secret: bytes = b""

    async def run(self) -> list[SetupFinding]:
        """Return the findings of all checks."""
        try:
            bot = settings_of_wiki(self.wiki).bot
        except ConfigError as error:
            return [bad("settings", "cannot be used", str(error))]
        contact = self.settings.links.contact or self.settings.visit.contact
        remedy = 'Set contact = "https://…" or a mail address under [operator] in weboid.toml.'
        lack = bad("contact", "not set: sites and wikis cannot report a problem to you", remedy)
        findings = [good("contact", contact) if contact else lack, self._feed()]
        async with httpx.AsyncClient(trust_env=False, timeout=_LIMIT_S) as client:
            findings += [await self._front(client), await self._replay(client)]
            findings += await self._webhook(client)
        findings += await self._site()
        findings += await self._archives()
        findings += [self._level_rights(), await self._bot(bot)]
        return findings

    def _feed(self) -> SetupFinding:
        with self.store.reading() as rows:
            feeds = feeds_of(rows, self.wiki.id)
        troubles = dict.fromkeys(feed.trouble for feed in feeds.values() if feed.trouble)
        if troubles:
            return bad("watch", " ".join(troubles), "`weboid wiki ls` shows whether it persists.")
        lease = feeds.get(LEASE)
        if lease is None or lease.moment < _CLOCK.now():
            return bad("watch", "the wiki is not watched", "Run `weboid wiki watch`.")
        return good("watch", "a process watches the wiki")

    async def _front(self, client: httpx.AsyncClient) -> SetupFinding:
        origin = self.note.front
        if not origin:
            remedy = "Run `weboid wiki watch --listen HOST:PORT`, or use --front ORIGIN."
            return unset("front", "no front is known", remedy)
        request = {"wiki": str(self.wiki.name), "urls": []}
        try:
            answer = await client.post(f"{origin}/links/api/cached", json=request)
        except httpx.HTTPError as error:
            remedy = "Start `weboid wiki watch --listen`, or use --front ORIGIN."
            return bad("front", f"{origin}: {_why(error)}", _tls_remedy(error) or remedy)
        if answer.status_code == httpx.codes.TOO_MANY_REQUESTS:
            return warn("front", f"{origin} limits the request rate", "Name the wiki's server with --links-internal.")
        document = None
        with suppress(ValueError):
            document = answer.json()
        if answer.status_code != httpx.codes.OK or not isinstance(document, dict):
            return bad("front", f"{origin}: status {answer.status_code}", "Is that address Weboid's front?")
        if not document.get("is_whole"):
            remedy = "See the log of `serve` in `weboid wiki watch`."
            return bad("front", f"{origin}: a store cannot be read", remedy)
        moment = parse_http_date(answer.headers.get("date", "")) or _CLOCK.now()
        skew = (moment - _CLOCK.now()).total_seconds()
        if abs(skew) > _SKEW_WARN_S:
            text = f"{origin}: its clock differs by {skew:.0f} s"
            return bad("front", text, "Set the clocks of both machines (NTP).")
        return good("front", f"{origin} answers")

    async def _replay(self, client: httpx.AsyncClient) -> SetupFinding:
        origin = self.note.replay
        if not origin:
            return unset("replay", "no address of copies is known", "See front.")
        try:
            answer = await client.get(f"{origin}/c/20000101000000/http://example.invalid/")
        except httpx.HTTPError as error:
            remedy = "Links to cited copies do not work: start the front."
            return bad("replay", f"{origin}: {_why(error)}", _tls_remedy(error) or remedy)
        if "content-security-policy" not in answer.headers or answer.status_code >= 500:
            remedy = "Is that the address of the copies? `weboid serve --replay-port` sets its port."
            return bad("replay", f"{origin}: status {answer.status_code}", remedy)
        return good("replay", f"{origin} answers")

    async def _webhook(self, client: httpx.AsyncClient) -> list[SetupFinding]:
        place = self.note.webhook
        if not place:
            remedy = "`weboid wiki watch --webhook HOST:PORT --webhook-secret-file FILE` receives changes at once."
            return [unset("webhook", "changes are found every 10 s", remedy)]
        files = self.note.secret_files
        file = files.get(str(self.wiki.name)) or files.get("", "")
        try:
            self._secret = check_secret(read_secret(Path(file))) if file else b""
        except WeboidError as error:
            return [bad("secret", "cannot be used", str(error))]
        if not self._secret:
            remedy = f"`weboid wiki watch --webhook-secret-file {self.wiki.name}=FILE`."
            return [bad("secret", "the wiki has none: only UDP notifications are accepted", remedy)]
        findings = [good("secret", f"{file}, readable by its owner alone")]
        body = json.dumps({"wiki": str(self.wiki.name), "pages": []}).encode()
        at = int(_CLOCK.now().timestamp())
        signed = sign_request(self._secret, body, at=at, nonce=secrets.token_hex(16), path="/test")
        try:
            answer = await client.post(f"http://{place}/test", content=body, headers={"X-Weboid-Signature": signed})
        except httpx.HTTPError as error:
            remedy = "Start `weboid wiki watch --webhook`, or use --webhook HOST:PORT."
            return [*findings, bad("webhook", f"{place}: {_why(error)}", remedy)]
        if answer.status_code == httpx.codes.NO_CONTENT:
            return [*findings, good("webhook", f"{place} accepted a signed test request")]
        return [*findings, bad("webhook", f"{place}: status {answer.status_code}", answer.text[:300])]

    async def _site(self) -> list[SetupFinding]:
        try:
            async with open_wiki_api(self.wiki, self.settings) as api:
                answer = await api.get(action="query", meta="siteinfo", siprop="general", curtimestamp=True)
        except WeboidError as error:
            remedy = "`weboid wiki add URL` updates its address; --account gives access to a private wiki."
            return [bad("wiki", str(error), remedy)]
        general = object_field(query_result(answer), "general")
        skew = abs((parse_moment(answer.get("curtimestamp")) - _CLOCK.now()).total_seconds())
        text = f"the wiki's differs by {skew:.0f} s"
        clock = warn("clock", text) if skew > _SKEW_WARN_S else good("clock", text)
        if skew > AGE_LIMIT_S / 2:
            clock = bad("clock", text, "Set the clocks of both machines (NTP).")
        generator = good("wiki", f"{text_field(general, 'generator')}, {self.wiki.url}")
        return [generator, clock, *self._extension(general)]

    def _extension(self, general: Mapping[str, Any]) -> list[SetupFinding]:
        facts = general.get("weboid")
        if not isinstance(facts, dict):
            remedy = "Copy wiki/mediawiki/Weboid into extensions/, or update it: docs/how-to/mediawiki.md."
            return [unset("extension", "not installed, or an older release", remedy)]
        findings, named = [], text_field(facts, "wiki")
        if named != str(self.wiki.name):
            remedy = f"$wgWeboidWiki = '{self.wiki.name}';"
            findings.append(bad("extension", f"it calls the wiki {named}, the registry {self.wiki.name}", remedy))
        if not facts.get("front"):
            findings.append(warn("extension", "$wgWeboidFront is not set", "Nothing is shown beside links."))
        if not facts.get("webhook"):
            findings.append(warn("extension", "$wgWeboidWebhook is not set", "Changes are not reported."))
        if not findings:
            findings.append(good("extension", f"version {text_field(facts, 'version')}, {named}"))
        origins = facts.get("origins")
        known = {each for each in origins if isinstance(each, str)} if isinstance(origins, list) else set()
        needed = [each for each in (self.note.front, self.note.replay) if each]
        if missing := [each for each in needed if each.lower() not in known]:
            both = ", ".join(f"'{each}'" for each in needed)
            text = f"links may not point to {' and '.join(missing)}"
            findings.append(bad("origins", text, f"$wgWeboidOrigins = [ {both} ];"))
        else:
            findings.append(good("origins", ", ".join(sorted(known))))
        if self._secret and facts.get("webhook"):
            # 32 bits, as Settings::secretPrint() of the extension: both sides compare the secret without disclosing it.
            expected = hmac.digest(self._secret, b"weboid webhook secret", "sha256").hex()[:8]
            is_same = hmac.compare_digest(expected, text_field(facts, "secret"))
            remedy = "Put the same secret into the file of $wgWeboidSecretFile."
            other = bad("secret", "the wiki has none, or a different one", remedy)
            findings.append(good("secret", "the wiki has the same") if is_same else other)
        return findings

    async def _archives(self) -> list[SetupFinding]:
        if not self.settings.links.archives:
            remedy = 'Set [links] archives = ["wayback"] in the profile: docs/how-to/archives.md.'
            return [unset("archives", "none is queried: links that are already dead get no copy", remedy)]
        findings = []
        try:
            async with open_archives(self.settings) as archives:
                for adapter in archives.adapters:
                    try:
                        async with asyncio.timeout(_LIMIT_S * 2):
                            copies = await adapter.find(_KNOWN_URL, None)
                        text = f"{adapter.name} answers ({len(copies)} copies of a test page)"
                        findings.append(good("archives", text))
                    except (WeboidError, TimeoutError) as error:
                        remedy = "It is queried again automatically; see [egress] if a firewall blocks it."
                        findings.append(bad("archives", f"{adapter.name}: {_why(error)}", remedy))
        except WeboidError as error:
            findings.append(bad("archives", "cannot be opened", str(error)))
        return findings

    def _level_rights(self) -> SetupFinding:
        own = [each for each in self.rights if each.wiki == self.wiki.name.in_levels]
        if own:
            text = ", ".join(f"{each.editor or 'editors'}: {each.most}" for each in own[:5])
            return good("levels", text)
        remedy = f"`weboid level rights --wiki {self.wiki.name.in_levels} --most images`."
        return unset("levels", "its editors may not set levels of copies", remedy)

    async def _bot(self, bot: BotSettings) -> SetupFinding:
        if not bot.enabled:
            remedy = f"`weboid wiki bot run {self.wiki.name} --dry-run` shows what it would do."
            return unset("bot", "off: dead links are not repaired", remedy)
        try:
            async with bot_api(self.wiki, self.settings) as api:
                me = await read_bot_account(api)
        except WeboidError as error:
            return bad("bot", "cannot log in", str(error))
        if me.blocked:
            remedy = "Ask the administrator who blocked it; `weboid wiki bot off` until then."
            return bad("bot", f"{me.name} is {me.blocked}", remedy)
        if "edit" not in me.rights:
            return bad("bot", f"{me.name} may not edit", "Grant its bot password “Edit existing pages”.")
        if not bot.front and not self.settings.links.archives:
            remedy = f"`weboid wiki bot on {self.wiki.name} --front ORIGIN`, or [links] archives."
            return bad("bot", "it has no copies to cite", remedy)
        flag = "" if "bot" in me.rights else ", without the bot flag"
        if me.has_messages:
            return warn("bot", f"on, as {me.name}{flag}; it has a new message", "")
        return good("bot", f"on, as {me.name}{flag}")


def _tls_remedy(error: httpx.HTTPError) -> str:
    is_tls = "CERTIFICATE_VERIFY_FAILED" in str(error)
    return "Renew or correct the certificate in the web server: docs/how-to/reverse-proxy.md." if is_tls else ""


def _why(error: BaseException) -> str:
    return str(error) or type(error).__name__
