"""Upkeep of an installation and a collection: `weboid doctor`, `setup`, `verify`, `collection`."""

import asyncio
import json
import os
from collections.abc import Sequence
from contextlib import ExitStack, closing, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn

from classify.page_excerpt import visible_text
from core.config.settings import Settings
from core.errors import InputError, TransientError, UnavailableError
from core.layout import Layout
from crawler.collection import open_collection, read_collection
from crawler.profiles import load_profile
from crawler.status.collection_status import is_in_use
from warc.checksums import add_missing_sums
from warc.index.database import IndexDatabase
from warc.index.outback import OutbackCdx, parse_outback_url
from warc.index.postgres import is_index_in_use
from warc.index.sqlite import open_index, open_shared
from warc.local_storage import closed_warcs, open_warcs, replace_file
from warc.rebuild import rebuild_index
from warc.text_index.indexer import rebuild_texts
from warc.uploads import UploadQueue, read_state
from warc.verification import VerificationResult, verify_collection
from weboid.app.setup_check import SetupFinding, SetupHealth, check_browser, check_pywb, check_setup
from weboid.app.text_table import clean
from weboid.cli.support import options
from weboid.cli.support.commands import CLOCK, CommandGroup, ExitCode, argument, cli_command, option
from weboid.cli.support.options import counted, output
from weboid.cli.support.progress import progress_bar, terminal_progress
from weboid.cli.support.run_output import format_size
from weboid.cli.support.stores import STORES, CollectionStores

_MARKS = {
    SetupHealth.GOOD: ("ok", "green"),
    SetupHealth.WARN: ("warn", "yellow"),
    SetupHealth.BAD: ("bad", "red"),
    SetupHealth.UNSET: ("--", "blue"),
}


@cli_command("doctor")
def doctor_command(
    *,
    collection: Path = options.COLLECTION,
    profile: str = options.PROFILE,
    shared: options.SharedStores = options.SHARED,
) -> int:
    """Check this machine and the collection, and name what to do.

    It checks browser, sandbox, proxy, pywb, fonts, disk, limits, clock, scanner and shared stores.
    """
    return _show_findings(check_setup(collection, shared.applied_to(load_profile(profile))))


@cli_command("setup")
def setup_command(
    *,
    part: str = argument(choices=("browser", "full")),
    check: bool = option("Report what is installed; install nothing."),
    profile: str = options.PROFILE,
) -> int:
    """Install the browser, or what the level full needs.

    `weboid doctor` reports missing parts. See docs/how-to/install.md.

    browser: looked for in this order: WEBOID_BROWSER, [browser] executable, programs on the PATH, builds of Playwright.
    If there is none, the distribution's package is installed as root with apt; otherwise Playwright's headless Chromium
    is downloaded. Then its sandbox is tested. Ends with 3 when there is no working browser.

    full: the environment with pywb, for copies at the level full. pywb needs other versions of some
    libraries, so it has an environment of its own, inside the one of Weboid, with exactly the versions
    of the release's lock. After an upgrade run the command again.
    """
    from weboid.app.installation import install_browser, install_pywb

    def report(text: str) -> None:
        if not output.is_quiet:
            click.echo(f"{text} …", err=True)

    if part == "browser":
        settings = load_profile(profile)
        if not check and not settings.browser.executable:
            install_browser(report)
        return _show_findings(asyncio.run(check_browser(settings)))
    if not check:
        install_pywb(report)
    finding = check_pywb()
    code = _show_findings([finding])
    return code if finding.health is SetupHealth.GOOD else ExitCode.UNAVAILABLE


def _show_findings(findings: Sequence[SetupFinding]) -> int:
    """Print the findings; return the exit code."""
    output.show([each.to_dict() for each in findings], map(finding_line, findings))
    bad = any(each.health is SetupHealth.BAD for each in findings)
    return ExitCode.UNAVAILABLE if bad else ExitCode.OK


def finding_line(finding: SetupFinding) -> str:
    """Return a finding in a line; the remedy, and the section about a problem, in lines below."""
    mark, colour = _MARKS[finding.health]
    line = f"{click.style(mark.ljust(4), fg=colour)}  {finding.subject.ljust(10)}  {finding.text}"
    below = [f"→ {finding.remedy}"] if finding.remedy else []
    below += [f"See {finding.see}"] if finding.see else []
    return "\n".join([line, *(f"      {'':10}  {each}" for each in below)])


@cli_command("verify")
def verify_command(
    *,
    path: Path | None = argument("[FILE.wacz|COLLECTION]", type=click.Path(path_type=Path)),
    stores: CollectionStores = STORES,
    key: Path | None = option("Public key, PEM, that the WACZ file must be signed with.", type=options.EXISTING_FILE),
    trust: tuple[Path, ...] = option(
        "Certificate authorities, PEM, that are trusted besides those of browsers.", type=options.EXISTING_FILE
    ),
    chain: str = option(
        "Link that SHA256SUMS.chain of the collection must have, as an earlier run printed it.",
        default="",
        metavar="LINK",
    ),
    quick: bool = option("Compare sizes and the index only; read no WARC."),
    jobs: int = option(
        "Number of files to read at the same time.",
        within=(1, 64),
        default=lambda: os.cpu_count() or 1,
        show_default="one a core",
    ),
) -> int:
    """Check a collection, or the signature of a WACZ file.

    Verifies every record of COLLECTION against its digests and the index, every closed file against archive/SHA256SUMS,
    every revisit against the response that it refers to. Changes nothing, and works while the collection is being
    written. Ends with 1 when there is a fault; each is reported with its location and the remedy.

    Of a WACZ file it verifies the digest of every entry, the signature, its certificate and its time
    stamp (docs/how-to/export.md).
    """
    if path is not None and (path.is_file() or path.suffix == ".wacz"):
        return _verify_wacz(path, key, trust)
    layout = read_collection(path or stores.root)
    progress = terminal_progress(TextColumn("verifying"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    task = progress.add_task("", total=None)

    def show(done: int, total: int) -> None:
        progress.start()  # only now: its thread would be in the way of starting processes
        progress.update(task, completed=done, total=total)

    try:
        index = options.with_database(Settings(), stores.database_url).index
        live = is_in_use(layout) or bool(index.url and is_index_in_use(index.url))
        result = verify_collection(layout, quick=quick, live=live, jobs=jobs, progress=show, index=index)
        result.check_link(layout, chain.lower())
    finally:
        progress.stop()
    output.show(result.to_dict(), verify_lines(result, quick=quick))
    return ExitCode.OK if result.is_sound else ExitCode.SOME_FAILED


def _verify_wacz(path: Path, key: Path | None, trust: tuple[Path, ...]) -> int:
    """Print the checks of a WACZ file; return the exit code."""
    from warc.wacz_signature import WaczVerifier, read_public_key, trusted_roots

    verifier = WaczVerifier(trusted_roots(trust), expected_key=None if key is None else read_public_key(key))
    with progress_bar("verifying", path.stat().st_size if path.exists() else None) as advance:
        checks = verifier.verify(path, advance)
    is_sound = all(each.passed is not False for each in checks)
    marks = {True: ("ok  ", "green"), False: ("bad ", "red"), None: ("note", "cyan")}
    lines = []
    for each in checks:
        mark, colour = marks[each.passed]
        lines.append(f"{click.style(mark, fg=colour)}  {each.name.ljust(10)}  {clean(each.text)}")
    output.show({"file": str(path), "sound": is_sound, "checks": [each.to_dict() for each in checks]}, lines)
    return ExitCode.OK if is_sound else ExitCode.SOME_FAILED


def verify_lines(result: VerificationResult, *, quick: bool) -> list[str]:
    """Return the result as lines of text."""
    lines = []
    for fault in (*result.notes, *result.faults):
        mark = click.style("note", fg="cyan") if fault.is_note else click.style("bad ", fg="red")
        place = f" at {fault.offset}" if fault.offset is not None else ""
        lines.append(f"{mark}  {fault.filename or 'index'}{place}: {fault.text}")
        if fault.remedy:
            lines.append(f"      → {fault.remedy}")
    if result.more:
        lines.append(f"      … and {result.more:,} more in these files.")
    read = "not read" if quick else f"{counted(result.records, 'record')}, {counted(result.rows, 'row')}"
    count = len(result.faults) + result.more
    faults = counted(count, "fault") if count else "no fault"
    lines.append(f"{counted(result.files, 'WARC')}, {format_size(result.size)}, {read}: {faults}.")
    if result.chain_head:
        lines.append(f"Last link of SHA256SUMS.chain: {result.chain_head}")
    return lines


# Check records are not captures; captures made with a login are not sent to other indexes.
_CAPTURES = """login IS NULL AND NOT EXISTS (SELECT 1 FROM qualities
    WHERE qualities.filename = captures.filename AND qualities."offset" = captures."offset")"""
_ROWS = f"""
SELECT id, url, urlkey, captured_ms, record_type, mime, status, digest, filename, "offset", length,
    orig_filename, orig_offset, orig_length
FROM captures WHERE id > :after AND {_CAPTURES} ORDER BY id LIMIT :limit
"""  # noqa: S608 constants


@click.group("collection", cls=CommandGroup)
def collection_group() -> None:
    """Rebuild the indexes of a collection from its WARCs."""


@cli_command("push", collection_group, hidden=True)
def push_command(
    *,
    url: str = argument("cdx+http://HOST/NAME"),
    batch: int = option("Captures a request.", within=(1, 100_000), default=2_000),
    everything: bool = option("Start from the beginning: send captures again that were sent before.", "--all"),
    dry_run: bool = option("Show the number of captures, without sending them."),
    stores: CollectionStores = STORES,
) -> None:
    """Send new captures of the index to an OutbackCDX server.

    Captures that were made with a login are not sent.

    Continues where it stopped: the position is stored after each request. A repeated send creates
    no duplicate. `weboid serve --captures-index` reads it. See docs/reference/index-sources.md.
    """
    layout, address = read_collection(stores.root), parse_outback_url(url)
    with ExitStack() as stack:
        database = stack.enter_context(stores.index())
        top = _number(database, "SELECT coalesce(max(id), 0) AS n FROM captures", {})
        after = 0 if everything else _positions(layout).get(str(address), 0)
        after = after if after <= top else 0  # the index was rebuilt
        if dry_run:
            query = f"SELECT count(*) AS n FROM captures WHERE id > :after AND {_CAPTURES}"  # noqa: S608 constants
            count = _number(database, query, {"after": after})
            output.show({"captures": count}, f"{count:,} captures would be sent.")
            return
        source = OutbackCdx(address)
        stack.callback(source.close)
        step, sent = stack.enter_context(progress_bar("sending", top - after)), 0
        while rows := database.rows(_ROWS, {"after": after, "limit": batch}):
            sent += source.add(rows)
            step(rows[-1]["id"] - after)
            after = rows[-1]["id"]
            replace_file(_positions_file(layout), json.dumps({**_positions(layout), str(address): after}))
    output.show({"captures": sent}, f"{sent:,} captures sent.")


def _number(database: IndexDatabase, query: str, values: dict[str, Any]) -> int:
    rows = database.rows(query, values)
    return int(rows[0]["n"]) if rows else 0


def _positions_file(layout: Layout) -> Path:
    return layout.databases / "pushed.json"


def _positions(layout: Layout) -> dict[str, int]:
    try:
        positions = json.loads(_positions_file(layout).read_text())
        return {str(url): int(number) for url, number in positions.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        text = f"{_positions_file(layout)} cannot be read: {error}. Remove it to send everything again."
        raise TransientError(text) from error


@cli_command("rebuild", collection_group)
def rebuild_command(
    *,
    only: str | None = option(
        "Rebuild this one alone: the captures index, or the full-text index.", choices=("captures", "texts")
    ),
    stores: CollectionStores = STORES,
    dedup_url: str = options.DEDUP,
    profile: str = options.PROFILE,
) -> None:
    """Rebuild the captures index and the full-text index from the WARCs.

    The old ones stay until the new ones are complete.
    """
    read_collection(stores.root)
    shared = options.SharedStores(database_url=stores.database_url, dedup_url=dedup_url)
    settings = shared.set_in(load_profile(profile))

    async def rebuild() -> dict[str, int]:
        async with open_collection(stores.root, clock=CLOCK) as opened:
            counts = {} if only == "texts" else rebuild_captures(opened.layout)
            if only == "captures" or not settings.index.text:
                return counts
            with stores.index() as database:
                total = _number(database, "SELECT count(*) AS n FROM pages", {})
            with progress_bar("texts", total) as step:
                texts = rebuild_texts(opened.layout, settings.index.url, visible_text, step)
            return counts | {"texts": texts}

    def rebuild_captures(layout: Layout) -> dict[str, int]:
        if settings.storage.url:
            names = UploadQueue(layout, settings.storage).adopt(CLOCK)
            if names:
                click.echo(f"{len(names):,} WARCs are only in {settings.storage.url}.", err=True)
        total = len(closed_warcs(layout)) + len(open_warcs(layout))
        index = open_shared(layout, settings.proxy)
        with closing(index) if index else nullcontext(), progress_bar("indexing", total) as step:
            return rebuild_index(
                layout,
                bucket=settings.proxy.dedup_bucket,
                min_bytes=settings.proxy.dedup_min_bytes,
                also=settings.proxy.dedup_also,
                shared=index,
                progress=lambda _name, _rows: step(1),
                report=lambda text: click.echo(text, err=True),
                index=settings.index,
            )

    counts = asyncio.run(rebuild())
    lines = [f"{counted(counts['texts'], 'page')} in the full-text index."] if "texts" in counts else []
    if "captures" in counts:
        captures, pages = (counted(counts[f"{noun}s"], noun) for noun in ("capture", "page"))
        lines.insert(0, f"{captures} of {pages} in {counted(counts['files'], 'WARC')} indexed.")
    output.show(counts, lines)


@cli_command("upload", collection_group, hidden=True)
def upload_command(
    *,
    collection: Path = options.COLLECTION,
    storage_url: str = options.STORAGE,
    dry_run: bool = option("Show pending files, without uploading them."),
    profile: str = options.PROFILE,
) -> None:
    """Upload the closed WARCs that [storage] url does not have.

    `weboid archive`, `crawl` and `wiki watch` do it while they run. An interrupted upload continues
    where it stopped. See docs/how-to/object-storage.md.
    """
    layout = read_collection(collection)
    settings = options.SharedStores(storage_url=storage_url).applied_to(load_profile(profile))
    if not settings.storage.url:
        raise InputError(
            'There is no bucket: set url = "s3://bucket/prefix" in [storage] of weboid.toml, or --storage.'
        )
    if not (dry_run or is_in_use(layout)):
        with closing(open_index(layout, settings.index)) as index:
            add_missing_sums(layout, index)
    queue = UploadQueue(layout, settings.storage)
    waiting = {path.name: path.stat().st_size for path in queue.pending()}
    size = sum(waiting.values())
    if dry_run:
        names = [f"{clean(name)}  {format_size(count)}" for name, count in waiting.items()]
        facts = {"pending": [{"file": name, "bytes": count} for name, count in waiting.items()], "bytes": size}
        output.show(facts, [*names, f"{len(waiting):,} files, {format_size(size)} would be uploaded."])
        return
    with progress_bar("uploading", size) as advance:
        done = queue.upload(CLOCK, on_bytes=advance)
    state = read_state(layout, settings.storage)
    document = {"uploaded": done, **(asdict(state) if state is not None else {})}
    output.show(document, f"{len(done):,} files uploaded to {settings.storage.url}.")


@cli_command("cache", collection_group, hidden=True)
def cache_command(
    *,
    collection: Path = options.COLLECTION,
    clear: bool = option("Delete all of them; possible while the collection is served."),
    dry_run: bool = option("With --clear: show the amount, without deleting."),
) -> None:
    """Show the size of the sanitised copies that playback caches, or delete them.

    They are made again on request; nothing that was archived is lost.
    """
    from playback.replay.made_cache import cache_usage, clear_cache

    folder = read_collection(collection).made
    words = "would delete" if clear and dry_run else "deleted" if clear else "kept"
    usage = cache_usage(folder)
    if words == "deleted" and usage.values and not (usage := clear_cache(folder)).values:
        raise UnavailableError(
            f"Nothing in {folder} could be deleted: run the command as its owner, or change the rights."
        )
    document = {words.replace(" ", "_"): {"copies": usage.values, "bytes": usage.size}, "folder": str(folder)}
    copies = "1 copy" if usage.values == 1 else f"{usage.values:,} copies"
    output.show(document, f"{words.capitalize()} {copies}, {usage.size / 1e6:,.1f} MB, in {folder}.")
