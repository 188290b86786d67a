"""`weboid takedown erase` and `prove`: erasure from WARCs, and proof over every route."""

import asyncio
import json
from contextlib import closing
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click

from classify.page_excerpt import visible_text
from core.config.settings import Settings
from core.errors import InputError, WeboidError
from core.json_values import json_facts, read_json
from core.layout import Layout
from core.timestamps import parse_warc_date, unix_milliseconds, warc_date
from crawler.collection import open_collection
from playback import takedown_audit
from playback.access import takedowns as book
from playback.access.control import AccessControl
from playback.access.decision_store import DecisionStore, insert_row
from playback.access.takedowns import TakedownKind, normalize_target
from playback.replay.made_cache import clear_cache
from playback.takedown_coverage import TakedownCoverage, revisits_of
from playback.web.asgi_app import WebOptions
from playback.web.rate_limits import RateLimitPolicy, parse_networks
from qa.check_run import erase_check_results
from qa.local_replay import running_replay
from warc.erasure import ErasedRecord, TombstoneLines, erase_records, finish_erasure, is_interrupted
from warc.index.database import IndexDatabase
from warc.object_storage import read_settings, storage_file
from warc.rebuild import rebuild_index
from warc.text_index.indexer import erase_texts
from warc.uploads import UploadQueue
from weboid.app.text_table import clean, table, width
from weboid.cli.support.commands import CLOCK, ExitCode, argument, cli_command, option
from weboid.cli.support.options import EXISTING_FILE, FILE, output, with_database
from weboid.cli.support.stores import STORES, CollectionStores, actor_name

_MOST_SHOWN = 50


@cli_command("erase")
def erase_command(
    *,
    number: int | None = argument("NUMBER"),
    yes: bool = option("Erase. Without this, only show what would be erased."),
    only_finish: bool = option("Finish an interrupted erasure.", "--finish"),
    actor: str | None = option("Author of the erasure.  [default: you]"),
    stores: CollectionStores = STORES,
) -> None:
    """Erase what take-down NUMBER covers from the WARCs, permanently.

    Each record is replaced by a tombstone that states what was erased, when, why and by whom; every
    other record stays byte for byte. Revisits of an erased payload, at any URL, are erased with it,
    and so are the check results and pictures of the pages (`weboid qa`). Needs exclusive use of the
    collection, and disk space for one copy of each affected WARC.
    """
    if (number is None) != only_finish:
        raise InputError("Name the take-down: its number, as `weboid takedown ls` shows it.")

    async def erase() -> None:
        async with open_collection(stores.root, clock=CLOCK) as opened:
            layout = opened.layout
            if is_interrupted(layout) != only_finish:
                other = "An erasure was interrupted: finish it first, with --finish."
                raise InputError("No erasure was interrupted." if only_finish else other)
            with stores.index() as index, stores.decisions() as decisions:
                with_index = not stores.database_url
                erased: list[ErasedRecord] | None = None
                if number is None:
                    erased = finish_erasure(layout, with_index=with_index)
                elif (tombstones := _tombstones(index, decisions, number, actor_name(actor), yes=yes)) is not None:
                    erased = erase_records(layout, tombstones, with_index=with_index)
                if erased is not None:
                    _erase_derived(stores, decisions, erased, number or 0, actor_name(actor))
            if erased is not None:
                note = _replace_objects(opened.layout)
                records = [{"record": each.record_id, "url": each.url, "warc": each.filename} for each in erased]
                more = "Copies and backups of the WARCs still hold them; `weboid verify` checks what is here."
                facts = {"erased": len(erased), "records": records, "storage": note}
                output.show(facts, f"{len(erased):,} records erased. {note}{more}")

    asyncio.run(erase())


def _replace_objects(layout: Layout) -> str:
    """Replace the objects of rewritten WARCs in the bucket; return a sentence, empty without object storage."""
    if not storage_file(layout.root).exists():
        return ""
    try:
        settings = read_settings(layout.root)
        UploadQueue(layout, settings).upload(CLOCK)
    except WeboidError as error:
        return f"The bucket still has them until `weboid collection upload` succeeds: {error} "
    return f"They are replaced in {settings.url}. "


def _tombstones(
    index: IndexDatabase, decisions: DecisionStore, number: int, actor: str, *, yes: bool
) -> dict[str, dict[int, TombstoneLines]] | None:
    """Print what would be erased; return the tombstones for it by WARC if `yes` is set, else None."""
    takedown = next((each for each in book.list_takedowns(decisions) if each.number == number), None)
    if takedown is None:
        raise InputError(f"There is no take-down {number}; `weboid takedown ls` shows them.")
    if not takedown.holds(CLOCK.now()):
        raise InputError(f"Take-down {number} was lifted or has expired, so nothing is erased.")
    captures = list(TakedownCoverage(index, takedown, CLOCK.now()).captures())
    lost = revisits_of(index, captures)  # that lose their payload
    for each in lost[:_MOST_SHOWN]:
        output.say(clean(f"Lost with it: {each.url}, captured {each.captured_at:%Y-%m-%d %H:%M:%S}"))
    if len(lost) > _MOST_SHOWN:
        output.say(f"… and {len(lost) - _MOST_SHOWN:,} more revisits of the same payloads.")
    places = [each.location for each in (*captures, *lost)]
    files, size = len({place.filename for place in places}), sum(place.length for place in places)
    summary = f"Take-down {takedown.number} ({takedown.kind} {takedown.what}): {len(captures):,} records"
    output.say(clean(f"{summary} and {len(lost):,} revisits in {files:,} WARCs, {size:,} bytes."))
    if not yes:
        facts = {"erased": 0, "records": len(captures), "lost_revisits": [each.url for each in lost]}
        output.show(facts, "Nothing was erased. Erasure cannot be undone: confirm with --yes.")
        return None
    lines = (
        ("erased", warc_date(CLOCK.now())),
        ("erased-by", actor),
        ("takedown", str(takedown.number)),
        ("reason", takedown.reason),
    )
    revisit_line = ("revisit-of", "The payload that it referred to was erased.")
    tombstones: dict[str, dict[int, TombstoneLines]] = {}
    for each, more in (*((one, (revisit_line,)) for one in lost), *((one, ()) for one in captures)):
        place = each.location
        tombstones.setdefault(place.filename, {})[place.offset] = (*lines, *more)
    return tombstones


def _erase_derived(
    stores: CollectionStores, decisions: DecisionStore, erased: list[ErasedRecord], number: int, actor: str
) -> None:
    """Erase what was derived from the records: cached copies, check results, index, texts; store what was erased."""
    layout = stores.layout
    clear_cache(layout.made)
    erase_check_results(layout, stores.database_url, (each.page_id for each in erased))
    if stores.database_url and erased:
        settings = with_database(Settings(), stores.database_url)
        proxy = settings.proxy
        rebuild_index(layout, bucket=proxy.dedup_bucket, min_bytes=proxy.dedup_min_bytes, index=settings.index)
    erase_texts(layout, stores.database_url, {each.page_id for each in erased} - {""}, visible_text)
    why = {"takedown": number, "erased_ms": unix_milliseconds(CLOCK.now()), "actor": actor}
    rows = []
    for each in erased:
        captured_ms = unix_milliseconds(parse_warc_date(each.date))
        row = {**json_facts(each, "record_id filename url"), **why, "captured_ms": captured_ms}
        rows.append(insert_row("erasures", row, then="ON CONFLICT DO NOTHING"))
    decisions.change(rows)


_MOST_LEAKS = 50


@cli_command("prove")
def prove_command(
    *,
    url: str = argument("URL"),
    front: str = option("Origin of the archive to test.  [default: one is started]", default=""),
    replay: str = option("Origin of its copies.", default=""),
    keep: Path | None = option(
        "Run before the take-down: store in this file the validators that readers' caches hold.", "--before", type=FILE
    ),
    warm: Path | None = option(
        "Send the validators in this file, as readers with a cached copy do.", type=EXISTING_FILE
    ),
    show_logins: bool = option("The archive is served with --show-logins: captures made with a login may be shown."),
    stores: CollectionStores = STORES,
) -> int:
    """Prove that no route returns withheld content of URL.

    Each route is requested, and the responses are searched for the content. Withheld content is everything that was
    taken down or captured with a login.

    Routes are those that the applications themselves list. Each is requested for every covered capture, its artifacts,
    its payloads at other URLs, and pages in which it is framed; with GET, HEAD, Range and Accept-Datetime; and with the
    ETags of --warm. Ends with 1 when a response shows such content, or the proof is inconclusive.
    """
    if bool(front) != bool(replay):
        raise InputError("An archive has two origins: use both --front and --replay.")
    validators = None
    if warm is not None:
        try:
            validators = read_json(takedown_audit.HeldValidators, json.loads(warm.read_text(encoding="utf-8")))
        except (OSError, ValueError, InputError) as error:
            raise InputError(f"{warm} was not written by `weboid takedown prove --before`: {error}.") from error
    prove = partial(_prove, stores, url, validators, before=keep is not None, show_logins=show_logins)

    async def prove_own_server() -> takedown_audit.AuditReport:
        access = RateLimitPolicy(internal=parse_networks(["127.0.0.1"]))
        options = WebOptions(access=access, show_logins=show_logins)
        async with running_replay(stores.layout, stores.database_url, options=options, signals=True) as origins:
            return await asyncio.to_thread(prove, origins.front, origins.replay)

    proof = prove(front, replay) if front else asyncio.run(prove_own_server())
    if keep is not None:
        keep.write_text(json.dumps(asdict(proof.warm)), encoding="utf-8")
        click.echo(f"{len(proof.cases)} captures requested; their validators are in {keep}.")
        return ExitCode.OK
    rows = list(proof.by_route())
    names = ("server", "route", "answers", "verdict")
    document: dict[str, Any] = {
        "sound": proof.is_sound,
        "captures": len(proof.cases),
        "requests": len(proof.findings),
        "routes": [dict(zip(names, row, strict=True)) for row in rows],
        "leaks": [
            {**json_facts(each.probe, "server method target headers"), "status": each.status, "leak": each.leak}
            for each in proof.leaks
        ],
        "unproved": proof.unproved,
    }
    lines = table(names, rows, columns=width())
    for each in proof.leaks[:_MOST_LEAKS]:
        headers = ", ".join(f"{name}: {value}" for name, value in each.probe.headers)
        request = f"{each.probe.method} {each.probe.target} {headers}".strip()
        lines.append(clean(f"LEAK  {each.probe.server} {request} -> {each.status}. {each.leak}"))
    result = "nothing of it is shown" if proof.is_sound else "it is NOT proved"
    lines.append(f"{len(proof.cases):,} captures, {len(proof.findings):,} requests: {result}.")
    output.show(document, lines)
    return ExitCode.OK if proof.is_sound else ExitCode.SOME_FAILED


def _prove(
    stores: CollectionStores,
    url: str,
    warm: takedown_audit.HeldValidators | None,
    front: str,
    replay: str,
    *,
    before: bool,
    show_logins: bool,
) -> takedown_audit.AuditReport:
    """Test an archive; `warm`: what readers hold, `before`: the take-down is not in force, so all may be shown."""
    now = CLOCK.now()
    with stores.index() as index, stores.decisions() as decisions:
        permits = AccessControl(decisions, index.rows, lambda: now, show_logins=show_logins)
        named = normalize_target(TakedownKind.URL, url)
        cases = takedown_audit.cases_of(index, None if before else permits, named, now)
        if not cases:
            raise InputError(
                f"Nothing was captured at {named}."
                if before
                else f"No take-down covers a capture of {named}, and none was made with a login;"
                " `weboid takedown ls` shows the take-downs."
            )
        traces = takedown_audit.traces_of(stores.layout, index, cases, permits, now)
        cases += [] if before else takedown_audit.embedding_cases(index, permits, cases)
        app = takedown_audit.every_route(index, decisions, replay)
        with closing(takedown_audit.TakedownAuditor(front, replay)) as auditor:
            return auditor.prove(cases, traces, app, warm)
