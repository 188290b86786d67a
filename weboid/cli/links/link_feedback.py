"""`weboid links mark`, `replace` and `report`: decisions and reports of people on links."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace as changed

from core.config.settings import LinksSettings, Settings
from core.errors import InputError
from core.json_values import json_facts
from core.urls import fetch_key
from links.check_history import date_of
from links.checker.check_worker import ReplacementTester
from links.checker.host_turns import HostTurns
from links.checker.http_probe import HttpProber
from links.feedback import marks as link_marks
from links.feedback import replacements
from links.feedback.reporter_limits import limits_of
from links.feedback.reports import ReportResult, WithdrawalResult, add_report, withdraw_reports
from links.registry.database import RegistryStore, RegistryThread
from links.registry.urls import require_observed
from links.states import LinkState
from net.address_policy import is_own
from weboid.app.link_facts import mark_json, moment_text, proposal_context, replacement_json
from weboid.app.text_table import clean
from weboid.cli.support.commands import CLOCK, ExitCode, argument, cli_command, option
from weboid.cli.support.options import PROFILE, end_moment, output, table_lines
from weboid.cli.support.progress import search_progress
from weboid.cli.support.stores import STORES, CollectionStores, actor_name, registry_settings, reporter_digest

_BECOMES = {
    LinkState.PERMALIVE: "always alive",
    LinkState.PERMADEAD: "always dead",
    LinkState.EXCLUDED: "never requested",
    LinkState.UNKNOWN: "watched again",
}


_STATES = [str(kind) for kind in link_marks.MarkKind if kind is not link_marks.MarkKind.SETTING]


@cli_command("mark")
def mark_command(
    *,
    words: tuple[str, ...] = argument("[STATE|KEY=VALUE] [PATTERN]..."),
    reason: str = option("Reason, for the history; required for a mark.", default=""),
    until: str | None = option("Expires after this time (90d), or on this day (2027-01-31).", metavar="WHEN"),
    is_removal: bool = option("Remove marks, by NUMBER or PATTERN; they stay in the history.", "--remove"),
    url: str | None = option("List the mark that applies to the URL.", "--for", metavar="URL"),
    with_all: bool = option("Include expired marks.", "--all"),
    is_settling: bool = option("Continue an interrupted change, lift expired marks.", "--settle"),
    actor: str | None = option("Author of the decision.  [default: you]", metavar="NAME"),
    dry_run: bool = option("Show how many links would change."),
    stores: CollectionStores = STORES,
) -> None:
    """Mark links as alive, dead or never to be requested; list marks.

    \b
    mark                     list the marks
    mark STATE PATTERN...    set the state of links that match
    mark KEY=VALUE PATTERN   set how they are checked
    mark --remove PATTERN    remove marks; the links are watched
                             again within a week

    \b
    permalive  alive; not checked
    permadead  dead; not checked
    never      never requested; no state
    always     checked, despite any less specific pattern
    KEY=VALUE  how links are checked: every_days=30, method=get,
               preset=dewiki; for hosts gap_s=1, seconds between two
               requests in place of [links] host_gap_s

    A pattern is a host (example.org with its subdomains; =example.org alone), the beginning of a
    URL (example.org/path), a URL, a SURT prefix (org,example)/path) or a regular expression
    (re:...). The most specific one decides. A running checker follows within a second. See
    docs/reference/registry.md.
    """  # noqa: D301 a sign for click
    is_listing = url is not None or with_all
    if sum((is_settling, is_listing, is_removal, bool(words) and not is_removal)) > 1 or (is_removal and not words):
        raise InputError(
            "Write `mark` to list marks, `mark STATE PATTERN...` to set one, `mark --remove"
            " NUMBER|PATTERN...` to remove one, or `mark --settle`."
        )
    if is_settling:
        with stores.registry() as registry:
            tally = _settled(registry)
        _print_marked("settled", (), tally, dry_run=False)
    elif is_removal:
        _change_marks(stores, [], words, actor, dry_run=dry_run)
    elif words:
        _change_marks(stores, _new_marks(words, reason, until, actor), (), actor, dry_run=dry_run)
    else:
        _list_marks(stores, url, with_all=with_all)


def _new_marks(words: Sequence[str], reason: str, until: str | None, actor: str | None) -> list[link_marks.LinkMark]:
    """Return the marks that a command line describes. Raises InputError."""
    key, is_setting, value = (part.strip() for part in words[0].partition("="))
    if not is_setting and key not in _STATES:
        raise InputError(f"{key[:80]!r} is not a state: write {', '.join(_STATES)}, or KEY=VALUE.")
    if len(words) == 1 or not reason:
        raise InputError("Name the links, and the reason: `mark STATE PATTERN... --reason TEXT`.")
    kind = link_marks.MarkKind.SETTING if is_setting else link_marks.MarkKind(key)
    now = CLOCK.now()
    expires = None if until is None else int(end_moment(until, now=now, option="--until").timestamp())
    mark = link_marks.LinkMark(
        id=0,
        kind=kind,
        pattern="",
        reason=reason,
        actor=actor_name(actor),
        moment=int(now.timestamp()),
        expires=expires,
        key=key if is_setting else "",
        value=value,
    )
    return [link_marks.check_mark(changed(mark, pattern=pattern)) for pattern in words[1:]]


def _change_marks(
    stores: CollectionStores, new: list[link_marks.LinkMark], names: Sequence[str], actor: str | None, *, dry_run: bool
) -> None:
    """Set marks, and remove those with the names; print them and the links that change."""
    with stores.registry() as registry:
        with registry.reading() as rows:
            lifted = link_marks.named_marks(rows, names) if names else []
        if dry_run:
            tally = link_marks.preview_marks(registry, new, [mark.id for mark in lifted], CLOCK)
        else:
            with registry.writing() as rows:
                new = link_marks.put_marks(rows, new)
                link_marks.lift_marks(rows, lifted, actor_name(actor), CLOCK.now())
            tally = _settled(registry)
    _print_marked("lifted" if names else "marked", lifted or new, tally, dry_run=dry_run)


def _list_marks(stores: CollectionStores, url: str | None, *, with_all: bool) -> None:
    now = CLOCK.now()
    with stores.registry() as registry, registry.reading() as rows:
        marks = link_marks.read_marks(rows, with_lifted=with_all)
        waiting = {mark.id for mark in link_marks.pending_marks(rows, now)}
        if url is not None:
            decides = link_marks.MarkSet(link_marks.read_marks(rows), CLOCK.now).first(fetch_key(url))
            marks = [mark for mark in marks if decides is not None and mark.id == decides.id]
    shown = [mark for mark in marks if with_all or mark.holds(now) or mark.id in waiting]
    facts = [{**mark_json(mark), "settled": mark.id not in waiting} for mark in shown]
    table = []
    for mark in shown:
        ends = "never" if mark.until is None else f"{mark.until:%Y-%m-%d %H:%M}"
        if mark.lifted is not None:
            ends = f"lifted {(moment_text(mark.lifted) or '')[:10]} by {mark.lifted_by}"
        elif not mark.holds(now):
            ends = f"over since {mark.until:%Y-%m-%d}"
        kind, moment = f"{mark.kind} {mark.key}={mark.value}" if mark.key else mark.kind, moment_text(mark.moment) or ""
        table.append((str(mark.id), kind, mark.pattern, ends, mark.actor, moment[:10], mark.reason))
    head = ("#>", "kind", "pattern", "ends", "by", "made", "reason")
    lines = table_lines(head, table) if table else ["There is no mark."]
    if waiting:
        many = f"{len(waiting):,} of the marks"
        lines.append(f"{many} are not applied to all links yet: `weboid links mark --settle` continues it.")
    output.show(facts, lines)


def _settled(registry: RegistryStore) -> link_marks.MarkTally:
    with search_progress("links") as progress:
        task = progress.add_task("", total=None)
        return link_marks.apply_marks(registry, CLOCK, on_progress=lambda count: progress.update(task, completed=count))


def _print_marked(
    done: str, marks: Sequence[link_marks.LinkMark], tally: link_marks.MarkTally, *, dry_run: bool
) -> None:
    counts = {state: tally.changed[state] for state in _BECOMES if tally.changed[state]}
    facts = {
        done: [mark_json(mark) for mark in marks],
        "links": tally.looked,
        "changed": {state.name.lower(): count for state, count in counts.items()},
        "dry_run": dry_run,
    }
    lines, would = [], "would be " if dry_run else ""
    for mark in marks:
        setting = f" {mark.key}={mark.value}" if mark.key else ""
        prefix = "" if dry_run else f"{done}: #{mark.id} "
        lines.append(f"{prefix}{clean(f'{mark.kind}{setting} {mark.pattern}')}")
    lines += [
        f"{count:,} {'link' if count == 1 else 'links'} {would}{_BECOMES[state]}." for state, count in counts.items()
    ]
    if not counts:
        lines.append("No link's state would change." if dry_run else "No link's state changed.")
    output.show(facts, lines)


_STAGES = {
    replacements.ProposalStage.WAITING: "waits for its test; not shown yet",
    replacements.ProposalStage.WORKS: "works, and is shown",
    replacements.ProposalStage.FAILED: "failed its test; not shown",
}


@cli_command("replace")
def replace_command(
    *,
    url: str | None = argument("[URL]"),
    address: str | None = argument("[NEW]"),
    is_removal: bool = option("Remove the proposal for URL.", "--remove"),
    is_approval: bool = option("Approve NEW, without waiting for its test.", "--approve"),
    is_test: bool = option("Test proposals that wait or are due again.", "--test"),
    limit: int = option("With --test: maximum number of proposals.", within=(1, None), default=500),
    actor: str | None = option("Author of the change.  [default: you]", metavar="NAME"),
    stores: CollectionStores = STORES,
    profile: str = PROFILE,
) -> int:
    """Propose another URL for a dead one; show or test proposals.

    It is shown once a test has found it working; --test makes those tests, and repeats them each
    month. That both pages have the same content is the proposer's responsibility. A copy in a known
    archive is added to the copies of the link.
    """
    is_unclear = is_test == bool(url) or is_test + is_removal + is_approval > 1
    if is_unclear or (is_removal and address is not None) or (is_approval and address is None):
        raise InputError(
            "Write `replace URL NEW` to propose, `replace URL NEW --approve` or `replace URL --remove` to decide,"
            " `replace URL` to see, or `replace --test`."
        )
    settings = registry_settings(profile, stores.database_url, stores.root)
    with stores.registry() as registry:
        if url is None:
            return _test(registry, settings, limit)
        if is_removal:
            with registry.writing() as rows:
                removed = replacements.remove_replacement(rows, url, reporter_digest(stores, actor), CLOCK.now())
            output.show({"removed": removed}, f"Removed {clean(removed)}.")
        elif is_approval:
            around = proposal_context(registry, limits_of(settings.links.reports_per_day), CLOCK)
            with registry.writing() as rows:
                replacements.approve_replacement(rows, url, address or "", CLOCK.now(), around)
                approved = replacements.replacements_of(rows, [require_observed(rows, url).id]).popitem()[1]
            facts: dict[str, object] = {"url": approved.url, "replacement": replacement_json(approved)}
            output.show(facts, f"{clean(approved.address)} is shown.")
        elif address is None:
            with registry.reading() as rows:
                observed = require_observed(rows, url)
                proposal = replacements.replacements_of(rows, [observed.id]).get(observed.id)
            lines = [f"No replacement is proposed for {clean(observed.url)}."]
            if proposal is not None:
                lines = [f"{clean(proposal.address)} {_STAGES[proposal.stage]}."]
                if proposal.tested_day is not None:
                    lines.append(f"It was tested on {date_of(proposal.tested_day).isoformat()}.")
            output.show({"url": observed.url, "replacement": proposal and replacement_json(proposal)}, lines)
        else:
            around = proposal_context(registry, limits_of(settings.links.reports_per_day), CLOCK)
            who = reporter_digest(stores, actor)
            with registry.writing() as rows:
                done = replacements.propose_replacement(rows, url, address, who, CLOCK.now(), around)
            text = "is shown once a test has succeeded." if done.is_new else "is proposed already."
            if done.archive:
                text = f"is a copy in {done.archive}: stored as a copy."
            facts = {"address": done.address, "archive": done.archive or None, "new": done.is_new}
            output.show(facts, f"{clean(done.address)} {text}")
    return ExitCode.OK


def _test(registry: RegistryStore, settings: Settings, limit: int) -> int:
    def show(which: replacements.ReplacementProposal, stage: replacements.ProposalStage) -> None:
        facts = {"url": which.url, **replacement_json(changed(which, stage=stage))}
        output.show(facts, f"{clean(which.address)} {_STAGES[stage]}.")

    async def run() -> int:
        turns = HostTurns(settings.links.host_gap_s, monotonic=CLOCK.monotonic)
        registry_thread = RegistryThread(registry, monotonic=CLOCK.monotonic, patience_s=0.0)
        async with HttpProber(settings, is_own=is_own, turns=turns, clock=CLOCK) as prober:
            around = proposal_context(registry, limits_of(settings.links.reports_per_day), CLOCK)
            tester = ReplacementTester(registry_thread, prober, turns, CLOCK, around)
            stages = await tester.run(limit, on_result=show)
        registry_thread.close()
        return stages.total()

    count = asyncio.run(run())
    output.say(f"{count:,} tested." if count else "No proposal awaits a test.")
    return ExitCode.OK


_MOST_SHOWN = 20


@cli_command("report")
def report_command(
    *,
    named: tuple[str, ...] = argument("URL...", required=True),
    is_pattern: bool = option("The arguments are domains, optionally with a path: example.org/docs/.", "--domain"),
    is_withdrawal: bool = option("Withdraw all such reports.", "--withdraw"),
    actor: str | None = option("Author of the change.  [default: you]", metavar="NAME"),
    per_day: int = option(
        "Maximum number of reports per day, by all people together.",
        within=(1, None),
        default=LinksSettings().reports_per_day,
    ),
    stores: CollectionStores = STORES,
) -> None:
    """Report links as reachable that are shown as dead.

    A report adds a note to a link for six months; nothing else changes. The next regular check that
    finds the page ends it, and any user may withdraw it. One report a minute, of any number of URLs
    that are watched. When three reporters on two days report half of a domain, a note marks all of
    it as presumed reachable, and the bot leaves its links alone.
    """
    now = CLOCK.now()
    with stores.registry() as registry:
        who = reporter_digest(stores, actor)
        with registry.writing() as rows:
            done: ReportResult | WithdrawalResult
            if is_withdrawal:
                done = withdraw_reports(rows, named, who, now, is_pattern=is_pattern)
            else:
                done = add_report(rows, named, who, now, is_pattern=is_pattern, limits=limits_of(per_day))
    if isinstance(done, ReportResult):
        until = date_of(done.until_day).isoformat()
        facts = {**json_facts(done, "renewed", reported="urls", domain_presumed_reachable="presumed"), "until": until}
        lines = [clean(url) for url in done.urls[:_MOST_SHOWN]]
        if len(done.urls) > _MOST_SHOWN:
            lines.append(f"… and {len(done.urls) - _MOST_SHOWN:,} more.")
        again = f", {done.renewed:,} of them again" if done.renewed else ""
        lines.append(f"{len(done.urls):,} reported as reachable until {until}{again}.")
        if done.presumed:
            lines.append("Enough of the domain's links are reported: the whole domain is presumed reachable.")
    else:
        facts = {"withdrawn": done.reports, "domain_no_longer_presumed": done.presumption}
        lines = [f"{done.reports:,} reports withdrawn."]
        if done.presumption:
            lines.append("The domain is no longer presumed reachable.")
    output.show(facts, lines)
