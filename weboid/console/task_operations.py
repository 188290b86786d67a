"""Exports, imports and quality checks in the console's API, as background tasks with files to download."""

import hashlib
import os
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from fastapi import Depends, Header, Query, Request
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import FileResponse
from typing_extensions import TypedDict

from core.errors import DiskFullError, InputError
from core.json_values import FactsOf
from core.layout import check_name
from qa.check_store import count_by_verdict, count_repairs, find_checks, list_worst_first
from qa.check_table import CheckFilter
from qa.web.check_pages import CheckFacts, check_fields
from qa.web.check_query import parse_check_filter, parse_start, verdict_name
from qa.web.review import ReviewAction, ReviewActions
from warc.local_storage import DiskReserve
from weboid.console.accounts import ConsoleRole, SignedInUser
from weboid.console.background_tasks import TaskFacts
from weboid.console.operations import (
    ListFields,
    NoFields,
    Number,
    OperationContext,
    OperationFields,
    StateConflictError,
    UnknownThingError,
    Url,
    operation,
    resource,
)
from weboid.console.page_frame import ConsoleStores

UPLOAD_PATH = "/imports/files"
UPLOAD_BYTES = 100 << 30
PART_AGE = timedelta(days=1)  # of an upload that nothing was added to
_ENDINGS = (".warc", ".warc.gz", ".warc.zst", ".arc", ".arc.gz", ".wacz")
_Names = Annotated[list[Annotated[str, Field(min_length=1, max_length=300)]], Field(max_length=1_000)]
_Urls = Annotated[list[Url], Field(max_length=1_000)]
_Moment = Annotated[str, Field(max_length=40)]


# --------------------------------------------------------------------------------------------------------------- tasks

TaskList = TypedDict("TaskList", {"tasks": list[TaskFacts], "next": str | None})
StoppedTask = TypedDict("StoppedTask", {"task": int, "message": str})
QueuedTask = Annotated[dict[str, Any], FactsOf("QueuedTask", TaskFacts, location=str, message=str)]


class TasksQuery(ListFields):
    """Tasks to list."""

    kind: Literal["", "export", "import", "quality", "quality report"] = ""


@resource("/tasks", ConsoleRole.OPERATOR)
def list_tasks(context: OperationContext, query: TasksQuery) -> TaskList:
    """Return background tasks, the newest first; they are removed with their files a week after their end."""
    before = query.after if query.cursor else None
    found = context.stores.tasks.tasks(kind=query.kind, before=before, limit=query.limit)
    return {"tasks": found, "next": str(found[-1]["id"]) if len(found) == query.limit else None}


class TaskFields(OperationFields):
    """A task."""

    task: Number


@resource("/tasks/task", ConsoleRole.OPERATOR)
def read_task(context: OperationContext, query: TaskFields) -> TaskFacts:
    """Return a task: its state, the sizes of its files so far, and at its end the command's result or error."""
    task = context.stores.tasks.task(query.task)
    if task is None:
        raise UnknownThingError(f"There is no task {query.task}.")
    return task


class TaskFileQuery(TaskFields):
    """File of a task."""

    name: str = Field(min_length=1, max_length=300)


@resource("/tasks/file", ConsoleRole.OPERATOR)
def download_task_file(context: OperationContext, query: TaskFileQuery) -> Any:
    """Send a file that a task has made; parts of it by Range."""
    path = context.stores.tasks.file(query.task, query.name)
    if path is None:
        raise UnknownThingError(f"Task {query.task} has no file {query.name[:200]!r}, or has not ended.")
    return FileResponse(path, filename=path.name, headers={"Cache-Control": "private, no-cache"})


@operation("/tasks/stop", ConsoleRole.OPERATOR, state=read_task)
def stop_task(context: OperationContext, fields: TaskFields) -> StoppedTask:
    """Stop a task that waits or runs."""
    read_task(context, fields)
    context.stores.tasks.stop(fields.task)
    return {"task": fields.task, "message": f"Task {fields.task} is stopped."}


def _queue(
    context: OperationContext, kind: str, command: Callable[[Path], Sequence[str]], *, stops_runs: bool = False
) -> QueuedTask:
    layout = context.stores.layout
    DiskReserve(layout.root, context.stores.settings.proxy.disk_reserve_bytes).require_reserve()
    task = context.stores.tasks.queue(kind, context.user.name, command, stops_runs=stops_runs)
    return {**task, "location": f"/api/v1/tasks/task?task={task['id']}", "message": f"Task {task['id']} is queued."}


# -------------------------------------------------------------------------------------------- files in and out

IncomingFile = TypedDict("IncomingFile", {"name": str, "bytes": int | None})
IncomingFiles = TypedDict("IncomingFiles", {"files": list[IncomingFile]})
UploadedFile = TypedDict("UploadedFile", {"name": str, "bytes": int, "message": str})
RemovedFile = TypedDict("RemovedFile", {"name": str, "message": str})


class ExportFields(OperationFields):
    """Captures to export, as of `weboid export`; without any filter the whole collection."""

    form: Literal["wacz", "warc.gz", "cdxj"] = "wacz"
    urls: _Urls = Field(default=[], description="Pages; a trailing * matches all that begin with it.")
    hosts: _Names = Field(default=[])
    jobs: _Names = Field(default=[], description="Names of crawls.")
    page_ids: _Names = Field(default=[])
    since: _Moment = Field(default="", description="As 2026-12-31, or 30d.")
    until: _Moment = ""
    title: str = Field(default="", max_length=300)
    text: bool = True
    upload: bool = Field(default=False, description="Also upload to the bucket of [storage] url.")


@operation("/exports", ConsoleRole.OPERATOR, status=202)
def start_export(context: OperationContext, fields: ExportFields) -> QueuedTask:
    """Export captures that readers may see into a file, in the background; `/tasks/file` sends it."""
    lists = (("host", fields.hosts), ("job", fields.jobs), ("page", fields.page_ids))
    options = [f"--{name}={value}" for name, values in lists for value in values]
    texts = (("since", fields.since), ("until", fields.until), ("title", fields.title))
    options += [f"--{name}={value}" for name, value in texts if value]
    options += ["--no-text"] * (not fields.text) + ["--upload"] * fields.upload
    name = f"{context.now:%Y%m%d-%H%M%S}.{fields.form}"
    return _queue(
        context, "export", lambda folder: ["export", "--json", *options, "--", str(folder / name), *fields.urls]
    )


class IncomingQuery(OperationFields):
    """Name of a file to import."""

    name: str = Field(
        min_length=1, max_length=200, description="Its name ends with .warc, .warc.gz, .arc, .wacz or similar."
    )


class ImportFields(OperationFields):
    """WARC, ARC and WACZ files to import."""

    names: _Names = Field(default=[], description="Files and folders below `incoming/` of the collection.")
    urls: _Urls = Field(default=[], description="Files on the web.")
    dry_run: bool = False
    stop_runs: bool = Field(
        default=True,
        description="Stop runs that write the collection, including those of a terminal, after their pages in "
        "progress; the console's worker and services continue after the import.",
    )


@operation("/imports", ConsoleRole.OPERATOR, status=202)
def start_import(context: OperationContext, fields: ImportFields) -> QueuedTask:
    """Import files that were uploaded, put into `incoming/`, or are on the web, in the background."""
    if not fields.names and not fields.urls:
        raise InputError("Name a file of incoming/, or a URL.")
    incoming = context.stores.layout.incoming
    paths = []
    for name in fields.names:
        parts = PurePosixPath(name)
        path = incoming / parts
        is_there = False
        with suppress(OSError, RuntimeError, ValueError):  # too long a name, a loop of links, a NUL
            is_there = path.resolve(strict=True).is_relative_to(incoming.resolve())  # also at the end of links
        if parts.is_absolute() or ".." in parts.parts or not is_there:
            raise InputError(f"There is no file {name[:200]!r} in the collection's folder incoming/.")
        paths.append(str(path))
    for url in fields.urls:
        if not url.startswith(("http://", "https://")):
            raise InputError(f"{url[:200]!r} is not an http or https URL.")
    command = ["import", "--json", *["--dry-run"] * fields.dry_run, "--", *paths, *fields.urls]
    return _queue(context, "import", lambda _folder: command, stops_runs=fields.stop_runs and not fields.dry_run)


@resource("/imports/files", ConsoleRole.OPERATOR)
def list_incoming_files(context: OperationContext, query: NoFields) -> IncomingFiles:  # noqa: ARG001
    """Return the files and folders in `incoming/`, which can be imported."""
    files: list[IncomingFile] = []
    for each in sorted(context.stores.layout.incoming.glob("[!.]*"))[:1_000]:
        with suppress(OSError):  # a link to nothing, or removed by now
            files.append({"name": each.name, "bytes": None if each.is_dir() else each.stat().st_size})
    return {"files": files}


def upload_endpoint(stores: ConsoleStores, require: Callable[..., SignedInUser]) -> Callable[..., Any]:
    """Return the handler of uploads: the body is the file, whose name is in the query."""

    async def upload_file(
        request: Request,
        user: Annotated[SignedInUser, Depends(require)],
        query: Annotated[IncomingQuery, Query()],
        idempotency_key: Annotated[str | None, Header(min_length=1, max_length=200)] = None,
    ) -> UploadedFile:
        """Store the body as a file in `incoming/`, from which it can be imported."""
        name = check_name(query.name, of="a file", limit=200)
        if not name.endswith(_ENDINGS):
            raise InputError(f"The name must end with {', '.join(_ENDINGS)}.")
        folder, target = stores.layout.incoming, stores.layout.incoming / name
        folder.mkdir(exist_ok=True)
        reserve = DiskReserve(folder, stores.settings.proxy.disk_reserve_bytes)
        reserve.require_reserve()
        for each in folder.glob(".*.part"):  # uploads whose console has ended
            with suppress(OSError):
                if stores.clock.now().timestamp() - each.stat().st_mtime > PART_AGE.total_seconds():
                    each.unlink()
        partial = folder / f".{name}.{secrets.token_hex(8)}.part"
        size, digest = 0, hashlib.sha256()

        def finish() -> UploadedFile:
            try:
                os.link(partial, target)  # never replaces one
            except FileExistsError as error:
                raise StateConflictError(f"incoming/ already has a file {name}.") from error
            stores.accounts.log(user.name, "upload_file", {"name": name, "bytes": size}, "done")
            return {"name": name, "bytes": size, "message": f"{name} can be imported."}

        try:
            with partial.open("wb") as file:
                async for piece in request.stream():
                    size += len(piece)
                    if reserve.is_low():
                        raise DiskFullError("The disk is nearly full: free some space, then upload again.")
                    await run_in_threadpool(file.write, piece)
                    if idempotency_key is not None:
                        await run_in_threadpool(digest.update, piece)
            if idempotency_key is None:
                return await run_in_threadpool(finish)
            key, sent = f"{user.name} {idempotency_key}", f"upload_file {name} {size} {digest.hexdigest()}"
            return await run_in_threadpool(stores.accounts.answer_once, key, sent, finish)
        finally:
            partial.unlink(missing_ok=True)

    return upload_file


@operation("/imports/files/remove", ConsoleRole.OPERATOR)
def remove_incoming_file(context: OperationContext, fields: IncomingQuery) -> RemovedFile:
    """Remove a file of `incoming/`; imported content stays."""
    path = context.stores.layout.incoming / check_name(fields.name, of="a file", limit=200)
    if not path.is_file():
        raise UnknownThingError(f"There is no file {fields.name[:200]!r} in the collection's folder incoming/.")
    path.unlink()
    return {"name": fields.name, "message": f"{fields.name} was removed."}


# ------------------------------------------------------------------------------------------------------------- quality

QualityFacts = TypedDict(
    "QualityFacts", {"verdicts": dict[str, int], "repairs": dict[str, int], "last_run": TaskFacts | None}
)
CheckList = TypedDict("CheckList", {"checks": list[CheckFacts], "next": str | None})
ReviewedCheck = Annotated[dict[str, Any], FactsOf("ReviewedCheck", CheckFacts, message=str)]


class QualityFields(OperationFields):
    """Copies to check, as of `weboid qa`."""

    urls: _Urls = Field(default=[])
    sample: Annotated[int, Field(ge=1, le=100_000)] = 100
    host: str = Field(default="", max_length=300)
    since: _Moment = ""
    again: bool = Field(default=False, description="Include copies that were checked before.")
    repair: bool = Field(default=True, description="Capture broken pages again, once.")


@operation("/quality/runs", ConsoleRole.OPERATOR, status=202)
def start_quality_run(context: OperationContext, fields: QualityFields) -> QueuedTask:
    """Compare copies with their captures, in the background."""
    texts = (("host", fields.host), ("since", fields.since))
    options = [f"--{name}={value}" for name, value in texts if value] + ["--again"] * fields.again
    options += [f"--sample={fields.sample}", "--repair" if fields.repair else "--no-repair"]
    return _queue(context, "quality", lambda _folder: ["qa", "--json", *options, "--", *fields.urls])


@resource("/quality")
def read_quality(context: OperationContext, query: NoFields) -> QualityFacts:  # noqa: ARG001
    """Return the numbers of checked copies by verdict, of repairs by state, and the last run."""
    with context.registry.snapshot() as reader:
        verdicts, repairs = count_by_verdict(reader, CheckFilter()), count_repairs(reader)
    last = context.stores.tasks.tasks(kind="quality", limit=1)
    return {
        "verdicts": {verdict_name(each): count for each, count in verdicts.items()},
        "repairs": {str(each): count for each, count in repairs.items()},
        "last_run": last[0] if last else None,
    }


class ChecksQuery(ListFields):
    """Results to list."""

    verdict: str = ""
    host: str = Field(default="", max_length=300)
    page_class: str = ""
    fault: str = ""
    level: str = ""
    below: str = Field(default="", max_length=20, description="Only scores below this: 0.8, or 80%.")
    unreviewed: bool = False


@resource("/quality/checks", ConsoleRole.CURATOR)
def list_quality_checks(context: OperationContext, query: ChecksQuery) -> CheckList:
    """Return results of checks per page, the worst first, also of pages that were taken down."""
    values = {**query.model_dump(), "class": query.page_class, "unreviewed": "1" if query.unreviewed else ""}
    wanted = parse_check_filter({name: str(value) for name, value in values.items()})
    with context.registry.snapshot() as reader:
        rows = list_worst_first(reader, wanted, parse_start(query.cursor), query.limit)
    return {
        "checks": [check_fields(each) for each in rows],
        "next": str(rows[-1].place) if len(rows) == query.limit else None,
    }


class CheckFields(OperationFields):
    """Checked copy."""

    page_id: str = Field(min_length=1, max_length=100)
    level: str = Field(min_length=1, max_length=50)


@resource("/quality/check", ConsoleRole.CURATOR)
def read_quality_check(context: OperationContext, query: CheckFields) -> CheckFacts:
    """Return the check of a copy with its review."""
    with context.registry.reading() as rows:
        found = next((each for each in find_checks(rows, [query.page_id]) if each.check.level == query.level), None)
    if found is None:
        raise UnknownThingError("There is no check of that copy.")
    return check_fields(found)


class ReviewFields(CheckFields):
    """Review of a checked copy."""

    action: ReviewAction = Field(description="`clear` withdraws a review; `recrawl` captures the page again.")
    note: str = Field(default="", max_length=1_000)


@operation("/quality/reviews", ConsoleRole.CURATOR, status=201, state=read_quality_check)
def review_copy(context: OperationContext, fields: ReviewFields) -> ReviewedCheck:
    """Rate a copy, which goes before the program's verdict, or capture its page again."""
    reviews = ReviewActions(lambda: context.registry, context.stores.clock)
    if not reviews.do(fields.action, fields.page_id, fields.level, by=context.user.name, note=fields.note):
        raise UnknownThingError("There is no check of that copy.")
    return {**read_quality_check(context, fields), "message": "The review has been stored."}


@operation("/quality/reports", ConsoleRole.OPERATOR, status=202)
def start_quality_report(context: OperationContext, fields: NoFields) -> QueuedTask:  # noqa: ARG001
    """Write the results of checks into one HTML file, in the background; `/tasks/file` sends it."""
    return _queue(context, "quality report", lambda folder: ["qa ls --html", f"--out={folder / 'report.html'}"])
