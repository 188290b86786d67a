"""Crawls in the console's API: limits of running ones, seeds of weboid.toml, lists, settings for parts of the web."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Annotated, Any

from pydantic import Field, model_validator
from typing_extensions import TypedDict

from core.config.settings import PolitenessSettings
from core.config.sheets import surt_prefix
from core.errors import InputError
from core.json_values import FactsOf, json_facts, json_value
from crawler.frontier.base import JOB_ORDER, STOP_ORDER, JobCounts, Lane, NewItem
from crawler.jobs.crawl_orders import Job, change_sheet, jobs_of_groups, live_sheets, parse_job
from crawler.jobs.job_settings import SHEET_ORDER
from crawler.jobs.list_files import parse_lines
from weboid.app.collection_config import file_values, read_config, seeds_by_scope
from weboid.console.accounts import ConsoleRole
from weboid.console.operations import (
    HostFields,
    LaneName,
    NoFields,
    OperationContext,
    OperationFields,
    UnknownThingError,
    Url,
    crawl_settings,
    operation,
    resource,
    submit,
    url_lines,
)

JOB_LIMITS = ("pages", "depth", "bytes", "seconds", "host_pages", "host_bytes", "host_seconds")
MAX_DELAY_S = PolitenessSettings().max_delay_s
_Limit = Annotated[int, Field(ge=0, lt=1 << 53)] | None


class CrawlName(OperationFields):
    """A crawl."""

    name: str = Field(min_length=1, max_length=100)


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


@resource("/crawls/crawl")
def read_job(context: OperationContext, query: CrawlName) -> CrawlFacts:
    """Return a crawl with its limits, its lane and its counts."""
    limits = read_limits(context, query)
    return {**limits, "counts": json_value(asdict(context.frontier.job_counts(query.name)))}


@resource("/crawls/limits")
def read_limits(context: OperationContext, query: CrawlName) -> CrawlLimits:
    """Return a crawl without its counts, which change while it runs: its ETag is for If-Match."""
    job = _job(context, query.name)
    scope = asdict(job.settings.scope)
    facts = {"seeds": len(job.seeds), "scope": scope["kind"], "limits": {name: scope[name] for name in JOB_LIMITS}}
    return {**json_facts(job, "name lane", made="made_at"), **facts}


def _job(context: OperationContext, name: str) -> Job:
    text = context.frontier.orders(JOB_ORDER).get(name)
    if text is None:
        raise UnknownThingError(f"There is no crawl {name[:100]!r}.")
    return parse_job(name, text)


class LimitsFields(CrawlName):
    """New limits of a crawl; omitted and empty ones do not change."""

    @model_validator(mode="before")
    @classmethod
    def leave_out_empty(cls, values: Any) -> Any:
        """Leave out what is empty in a form."""
        return {name: each for name, each in values.items() if each != ""} if isinstance(values, dict) else values

    pages: _Limit = Field(default=None, description="Limit of the whole crawl; 0: no limit.")
    bytes: _Limit = None
    seconds: _Limit = None
    host_pages: _Limit = None
    host_bytes: _Limit = None
    host_seconds: _Limit = None
    depth: Annotated[int, Field(ge=-1, le=10_000)] | None = Field(default=None, description="-1: no limit.")
    lane: LaneName | None = None


@operation("/crawls/limits", ConsoleRole.OPERATOR, state=read_limits)
def change_limits(context: OperationContext, fields: LimitsFields) -> ChangedCrawl:
    """Change limits and lane of a crawl, also while it runs; pages that a limit had kept out are queued again."""
    job = _job(context, fields.name)
    changes = {name: getattr(fields, name) for name in JOB_LIMITS if getattr(fields, name) is not None}
    lane = Lane[fields.lane.upper()] if fields.lane else job.lane
    scope = replace(job.settings.scope, **changes)
    changed = replace(job, settings=replace(job.settings, scope=scope), lane=lane)
    revived = submit(context, changed).revived
    return {**read_job(context, fields), "requeued": revived, "message": f"The limits of {fields.name} were changed."}


class ConfiguredFields(OperationFields):
    """Crawl of the seeds of weboid.toml."""

    name: str = Field(default="", max_length=100)
    lane: LaneName = "standard"
    dry_run: bool = False


@operation("/crawls/configured", ConsoleRole.OPERATOR, status=201)
def crawl_configured(context: OperationContext, fields: ConfiguredFields) -> ConfiguredCrawls:
    """Crawl the seeds in weboid.toml, each with its own scope, as `weboid crawl` does."""
    seeds = read_config(context.stores.layout.root).seeds()
    if not seeds:
        raise InputError("weboid.toml has no seeds: add [[seed]] tables, or name URLs.")
    settings = crawl_settings(context)
    groups = seeds_by_scope(seeds, settings.scope)
    jobs = jobs_of_groups(groups, settings, Lane[fields.lane.upper()], fields.name, now=context.now)
    added = 0 if fields.dry_run else sum(submit(context, job).added.added for job in jobs)
    if not fields.dry_run:
        context.frontier.take_back(STOP_ORDER, "")  # as the command does
    crawls: list[ConfiguredCrawl] = [
        {"name": job.name, "seeds": job.seeds[:100], "scope": job.settings.scope.kind} for job in jobs
    ]
    verb = "would begin" if fields.dry_run else "have begun"
    return {"crawls": crawls, "added": added, "dry_run": fields.dry_run, "message": f"{len(jobs)} crawls {verb}."}


class ListFileFields(OperationFields):
    """URLs to archive, without following their links."""

    urls: str | list[Url] = Field(description="As a list, or one per line.")
    lane: LaneName = "standard"
    again: bool = Field(default=False, description="Include URLs that were archived before.")


@operation("/lists", ConsoleRole.OPERATOR, status=202)
def queue_list(context: OperationContext, fields: ListFileFields) -> QueuedList:
    """Queue a list of URLs; lines that are not URLs are reported, the others are queued."""
    parsed = list(parse_lines(url_lines(fields.urls), source="urls"))
    urls = [each for each in parsed if isinstance(each, str)]
    problems = [str(each) for each in parsed if not isinstance(each, str)]
    if not urls:
        raise InputError(problems[0] if problems else "Name at least one URL.")
    items = [NewItem(url, Lane[fields.lane.upper()]) for url in urls]
    again = {"again": timedelta(0)} if fields.again else {}
    done = context.frontier.add(items, now=context.now, **again)
    queued = done.added + done.requeued
    return {
        "queued": queued,
        "known": len(urls) - queued,
        "problems": problems[:100],
        "message": f"{queued:,} queued, {len(urls) - queued:,} known before, {len(problems):,} are not URLs.",
    }


class SheetFields(OperationFields):
    """Part of the web with settings of its own."""

    prefix: Annotated[str, Field(min_length=1, max_length=2_000)] = Field(description="As in `weboid sheet`.")


@resource("/sheets", ConsoleRole.REVIEWER)
def list_sheets(context: OperationContext, query: NoFields) -> SheetList:  # noqa: ARG001
    """Return the settings for parts of the web that were set while crawls run."""
    return {"sheets": [{"prefix": each.prefix, "settings": each.changes()} for each in live_sheets(context.frontier)]}


class SheetChangeFields(SheetFields):
    """Settings for a part of the web; others of it stay."""

    settings: dict[str, dict[str, Any]] = Field(description='As in a profile: {"politeness": {"min_delay_s": 5}}.')


@operation("/sheets", ConsoleRole.OPERATOR, state=list_sheets)
def set_sheet(context: OperationContext, fields: SheetChangeFields) -> ChangedSheet:
    """Change settings for a part of the web; workers follow within a second. Files are named on the machine only."""
    prefix = surt_prefix(fields.prefix)
    for name, _ in file_values(fields.settings):
        raise InputError(f"{name} names a program or a file: change it in weboid.toml on its machine.")
    settings = change_sheet(context.frontier, prefix, fields.settings)
    return {"prefix": prefix, "settings": settings, "message": f"The settings of {prefix} were changed."}


@operation("/sheets/remove", ConsoleRole.OPERATOR, state=list_sheets)
def remove_sheet(context: OperationContext, fields: SheetFields) -> RemovedSheet:
    """Remove the settings for a part of the web."""
    prefix = surt_prefix(fields.prefix)
    if not context.frontier.take_back(SHEET_ORDER, prefix):
        raise UnknownThingError(f"There are no settings for {prefix}.")
    return {"prefix": prefix, "message": f"The settings of {prefix} were removed."}


class DelayFields(HostFields):
    """Delay of a host."""

    delay_s: Annotated[float, Field(ge=0, le=86_400, description="Between two visits.")]


@operation("/hosts/delay", ConsoleRole.OPERATOR, state=list_sheets)
def set_host_delay(context: OperationContext, fields: DelayFields) -> ChangedDelay:
    """Set the delay of a host and its subdomains, from the next visit on."""
    prefix = surt_prefix(fields.host)
    change_sheet(
        context.frontier,
        prefix,
        {"politeness": {"min_delay_s": fields.delay_s, "max_delay_s": max(fields.delay_s, MAX_DELAY_S)}},
    )
    return {"prefix": prefix, "delay_s": fields.delay_s, "message": f"{fields.host} rests {fields.delay_s:g} s."}
