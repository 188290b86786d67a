"""Crawls in the console's API: limits of running ones, seeds of weboid.toml, lists, settings for parts of the web."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from typing_extensions import TypedDict

from core.config.settings import PolitenessSettings
from core.config.sheets import surt_prefix
from core.errors import InputError
from core.json_values import FactsOf, json_facts, json_value
from crawler.frontier.base import JOB_ORDER, STOP_ORDER, JobCounts, Lane, NewItem
from crawler.jobs.crawl_orders import Job, change_sheet, jobs_of_groups, live_sheets, parse_job
from crawler.jobs.job_settings import SHEET_ORDER
from crawler.jobs.list_files import parse_lines
from playback.web.i18n import noop
from weboid.app.collection_config import file_values, read_config, seeds_by_scope
from weboid.console import operations
from weboid.console.accounts import ConsoleRole

JOB_LIMITS = ("pages", "depth", "bytes", "seconds", "host_pages", "host_bytes", "host_seconds")
MAX_DELAY_S = PolitenessSettings().max_delay_s
_UNCHANGED = BeforeValidator(lambda value: None if value == "" else value)  # of a form
_Limit = Annotated[Annotated[int, Field(ge=0, lt=1 << 53)] | None, _UNCHANGED]
_Prefix = Annotated[str, Field(min_length=1, max_length=2_000, description="As in `weboid sheet`.")]
CrawlLimits = Annotated[dict[str, Any], FactsOf(
    "CrawlLimits", Job, "name lane", made=datetime, seeds=int, scope=str, limits=dict[str, float],
)]  # fmt: skip
CrawlFacts = Annotated[dict[str, Any], FactsOf("CrawlFacts", CrawlLimits, counts=JobCounts)]
ChangedCrawl = Annotated[dict[str, Any], FactsOf("ChangedCrawl", CrawlFacts, requeued=int, message=str)]
ConfiguredCrawl = TypedDict("ConfiguredCrawl", {"name": str, "seeds": tuple[str, ...], "scope": str})
ConfiguredCrawls = TypedDict(
    "ConfiguredCrawls", {"crawls": list[ConfiguredCrawl], "added": int, "dry_run": bool, "message": str}
)
QueuedList = TypedDict("QueuedList", {"queued": int, "known": int, "problems": list[str], "message": str})
SheetFacts = TypedDict("SheetFacts", {"prefix": str, "settings": Mapping[str, Mapping[str, Any]]})
SheetList = TypedDict("SheetList", {"sheets": list[SheetFacts]})
ChangedSheet = TypedDict("ChangedSheet", {"prefix": str, "settings": Mapping[str, Mapping[str, Any]], "message": str})
RemovedSheet = TypedDict("RemovedSheet", {"prefix": str, "message": str})
ChangedDelay = TypedDict("ChangedDelay", {"prefix": str, "delay_s": float, "message": str})


@operations.resource("/crawls/crawl")
def read_job(context: operations.OperationContext, name: operations.Name) -> CrawlFacts:
    """Return a crawl with its limits, its lane and its counts."""
    return {**read_limits(context, name), "counts": json_value(asdict(context.frontier.job_counts(name)))}


@operations.resource("/crawls/limits")
def read_limits(context: operations.OperationContext, name: operations.Name) -> CrawlLimits:
    """Return a crawl without its counts, which change while it runs: its ETag is for If-Match."""
    job = _job(context, name)
    scope = asdict(job.settings.scope)
    facts = {"seeds": len(job.seeds), "scope": scope["kind"], "limits": {name: scope[name] for name in JOB_LIMITS}}
    return {**json_facts(job, "name lane", made="made_at"), **facts}


def _job(context: operations.OperationContext, name: str) -> Job:
    text = context.frontier.orders(JOB_ORDER).get(name)
    if text is None:
        raise operations.UnknownThingError(f"There is no crawl {name[:100]!r}.")
    return parse_job(name, text)


@operations.operation("/crawls/limits", ConsoleRole.OPERATOR, state=read_limits)
def change_limits(
    context: operations.OperationContext,
    *,
    name: operations.Name,
    pages: Annotated[_Limit, Field(description="Limit of the whole crawl; 0: no limit.")] = None,
    bytes: _Limit = None,  # noqa: A002 of this name in the API
    seconds: _Limit = None,
    host_pages: _Limit = None,
    host_bytes: _Limit = None,
    host_seconds: _Limit = None,
    depth: Annotated[
        Annotated[int, Field(ge=-1, le=10_000)] | None, _UNCHANGED, Field(description="-1: no limit.")
    ] = None,
    lane: Annotated[operations.LaneName | None, _UNCHANGED] = None,
) -> ChangedCrawl:
    """Change limits and lane of a crawl, also while it runs; pages that a limit had kept out are queued again."""
    job = _job(context, name)
    limits = (pages, depth, bytes, seconds, host_pages, host_bytes, host_seconds)
    changes: Any = {key: limit for key, limit in zip(JOB_LIMITS, limits, strict=True) if limit is not None}
    settings = replace(job.settings, scope=replace(job.settings.scope, **changes))
    changed = replace(job, settings=settings, lane=Lane[lane.upper()] if lane else job.lane)
    revived = operations.submit(context, changed).revived
    return {**read_job(context, name), "requeued": revived, "message": f"The limits of {name} were changed."}


@operations.operation("/crawls/configured", ConsoleRole.OPERATOR, status=201)
def crawl_configured(
    context: operations.OperationContext,
    *,
    name: Annotated[str, Field(max_length=100)] = "",
    lane: operations.LaneName = "standard",
    dry_run: bool = False,
) -> ConfiguredCrawls:
    """Crawl the seeds in weboid.toml, each with its own scope, as `weboid crawl` does."""
    seeds = read_config(context.stores.layout.root).seeds()
    if not seeds:
        raise InputError(noop("weboid.toml has no seeds: add [[seed]] tables, or name URLs."))
    settings = operations.crawl_settings(context)
    groups = seeds_by_scope(seeds, settings.scope)
    jobs = jobs_of_groups(groups, settings, Lane[lane.upper()], name, now=context.now)
    added = 0 if dry_run else sum(operations.submit(context, job).added.added for job in jobs)
    if not dry_run:
        context.frontier.take_back(STOP_ORDER, "")  # as the command does
    crawls: list[ConfiguredCrawl] = [
        {"name": job.name, "seeds": job.seeds[:100], "scope": job.settings.scope.kind} for job in jobs
    ]
    begun = "would begin" if dry_run else "has begun" if len(jobs) == 1 else "have begun"
    message = f"{len(jobs)} crawl{'s' * (len(jobs) != 1)} {begun}."
    return {"crawls": crawls, "added": added, "dry_run": dry_run, "message": message}


@operations.operation("/lists", ConsoleRole.OPERATOR, status=202)
def queue_list(
    context: operations.OperationContext,
    *,
    urls: Annotated[str | list[operations.Url], Field(description="As a list, or one per line.")],
    lane: operations.LaneName = "standard",
    again: Annotated[bool, Field(description="Include URLs that were archived before.")] = False,
) -> QueuedList:
    """Queue a list of URLs; lines that are not URLs are reported, the others are queued."""
    parsed = list(parse_lines(operations.url_lines(urls), source="urls"))
    items = [NewItem(each, Lane[lane.upper()]) for each in parsed if isinstance(each, str)]
    problems = [str(each) for each in parsed if not isinstance(each, str)]
    if not items:
        raise InputError(problems[0] if problems else "Name at least one URL.")
    done = context.frontier.add(items, now=context.now, **({"again": timedelta(0)} if again else {}))
    queued = done.added + done.requeued
    return {
        "queued": queued,
        "known": len(items) - queued,
        "problems": problems[:100],
        "message": f"{queued:,} queued, {len(items) - queued:,} known before, {len(problems):,} are not URLs.",
    }


@operations.resource("/sheets", ConsoleRole.REVIEWER)
def list_sheets(context: operations.OperationContext) -> SheetList:
    """Return the settings for parts of the web that were set while crawls run."""
    return {"sheets": [{"prefix": each.prefix, "settings": each.changes()} for each in live_sheets(context.frontier)]}


@operations.operation("/sheets", ConsoleRole.OPERATOR, state=list_sheets)
def set_sheet(
    context: operations.OperationContext,
    prefix: _Prefix,
    settings: Annotated[
        dict[str, dict[str, Any]], Field(description='As in a profile: {"politeness": {"min_delay_s": 5}}.')
    ],
) -> ChangedSheet:
    """Change settings for a part of the web; workers follow within a second. Files are named on the machine only."""
    prefix = surt_prefix(prefix)
    for name, _ in file_values(settings):
        raise InputError(
            noop("%(name)s names a program or a file: change it in %(path)s on its machine."),
            name=name,
            path="weboid.toml",
        )
    changed = change_sheet(context.frontier, prefix, settings)
    return {"prefix": prefix, "settings": changed, "message": f"The settings of {prefix} were changed."}


@operations.operation("/sheets/remove", ConsoleRole.OPERATOR, state=list_sheets)
def remove_sheet(context: operations.OperationContext, prefix: _Prefix) -> RemovedSheet:
    """Remove the settings for a part of the web."""
    prefix = surt_prefix(prefix)
    if not context.frontier.take_back(SHEET_ORDER, prefix):
        raise operations.UnknownThingError(f"There are no settings for {prefix}.")
    return {"prefix": prefix, "message": f"The settings of {prefix} were removed."}


@operations.operation("/hosts/delay", ConsoleRole.OPERATOR, state=list_sheets)
def set_host_delay(
    context: operations.OperationContext,
    host: operations.HostName,
    delay_s: Annotated[float, Field(ge=0, le=86_400, description="Between two visits.")],
) -> ChangedDelay:
    """Set the delay of a host and its subdomains, from the next visit on."""
    prefix = surt_prefix(host)
    delays = {"min_delay_s": delay_s, "max_delay_s": max(delay_s, MAX_DELAY_S)}
    change_sheet(context.frontier, prefix, {"politeness": delays})
    return {"prefix": prefix, "delay_s": delay_s, "message": f"{host} rests {delay_s:g} s."}
