"""Exports, imports and quality checks in the console's API, as background tasks with files to download."""

import hashlib
import os
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from fastapi import Depends, Header, Request
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import FileResponse
from typing_extensions import TypedDict

from core.errors import DiskFullError, InputError
from core.json_values import FactsOf
from core.layout import check_name
from playback.web.i18n import noop
from qa.check_store import count_by_verdict, count_repairs, find_checks, list_worst_first
from qa.check_table import CheckFilter
from qa.web.check_pages import CheckFacts, check_fields
from qa.web.check_query import parse_check_filter, parse_start, verdict_name
from qa.web.review import ReviewAction, ReviewActions
from warc.local_storage import DiskReserve
from weboid.console import operations
from weboid.console.accounts import ConsoleRole, SignedInUser
from weboid.console.background_tasks import TaskFacts
from weboid.console.page_frame import ConsoleStores

UPLOAD_PATH = "/imports/files"
UPLOAD_BYTES = 100 << 30
PART_AGE = timedelta(days=1)  # of an upload that nothing was added to
_ENDINGS = (".warc", ".warc.gz", ".warc.zst", ".arc", ".arc.gz", ".wacz")
_Names = Annotated[Sequence[operations.HostName], Field(max_length=1_000)]
_Urls = Annotated[Sequence[operations.Url], Field(max_length=1_000)]
_Moment = Annotated[str, Field(max_length=40)]
_IncomingName = Annotated[
    str, Field(min_length=1, max_length=200, description="Its name ends with .warc, .warc.gz, .arc, .wacz or similar.")
]
_LevelName = Annotated[str, Field(min_length=1, max_length=50)]


# --------------------------------------------------------------------------------------------------------------- tasks

TaskList = TypedDict("TaskList", {"tasks": list[TaskFacts], "next": str | None})
StoppedTask = TypedDict("StoppedTask", {"task": int, "message": str})
QueuedTask = Annotated[dict[str, Any], FactsOf("QueuedTask", TaskFacts, location=str, message=str)]


@operations.resource("/tasks", ConsoleRole.OPERATOR)
def list_tasks(
    context: operations.OperationContext,
    kind: Literal["", "export", "import", "quality", "quality report"] = "",
    cursor: operations.Cursor = "",
    limit: operations.Limit = 100,
) -> TaskList:
    """Return background tasks, the newest first; they are removed with their files a week after their end."""
    before = operations.cursor_number(cursor) if cursor else None
    tasks = context.stores.tasks.tasks(kind=kind, before=before, limit=limit)
    return {"tasks": tasks, "next": str(tasks[-1]["id"]) if len(tasks) == limit else None}


@operations.resource("/tasks/task", ConsoleRole.OPERATOR)
def read_task(context: operations.OperationContext, task: operations.Number) -> TaskFacts:
    """Return a task: its state, the sizes of its files so far, and at its end the command's result or error."""
    facts = context.stores.tasks.task(task)
    if facts is None:
        raise operations.UnknownThingError(f"There is no task {task}.")
    return facts


@operations.resource("/tasks/file", ConsoleRole.OPERATOR)
def download_task_file(
    context: operations.OperationContext,
    task: operations.Number,
    name: Annotated[str, Field(min_length=1, max_length=300)],
) -> Any:
    """Send a file that a task has made; parts of it by Range."""
    path = context.stores.tasks.file(task, name)
    if path is None:
        raise operations.UnknownThingError(f"Task {task} has no file {name[:200]!r}, or has not ended.")
    return FileResponse(path, filename=path.name, headers={"Cache-Control": "private, no-cache"})


@operations.operation("/tasks/stop", ConsoleRole.OPERATOR, state=read_task)
def stop_task(context: operations.OperationContext, task: operations.Number) -> StoppedTask:
    """Stop a task that waits or runs."""
    read_task(context, task)
    context.stores.tasks.stop(task)
    return {"task": task, "message": f"Task {task} is stopped."}


def _queue(
    context: operations.OperationContext,
    kind: str,
    command: Callable[[Path], Sequence[str]],
    *,
    stops_runs: bool = False,
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


@operations.operation("/exports", ConsoleRole.OPERATOR, status=202)
def start_export(
    context: operations.OperationContext,
    *,
    form: Literal["wacz", "warc.gz", "cdxj"] = "wacz",
    urls: Annotated[_Urls, Field(description="Pages; a trailing * matches all that begin with it.")] = (),
    hosts: _Names = (),
    jobs: Annotated[_Names, Field(description="Names of crawls.")] = (),
    page_ids: _Names = (),
    since: Annotated[_Moment, Field(description="As 2026-12-31, or 30d.")] = "",
    until: _Moment = "",
    title: Annotated[str, Field(max_length=300)] = "",
    text: bool = True,
    upload: Annotated[bool, Field(description="Also upload to the bucket of [storage] url.")] = False,
) -> QueuedTask:
    """Export captures, those that readers may see, into a file in the background; `/tasks/file` sends it."""
    lists = (("host", hosts), ("job", jobs), ("page", page_ids))
    options = [f"--{name}={value}" for name, values in lists for value in values]
    texts = (("since", since), ("until", until), ("title", title))
    options += [f"--{name}={value}" for name, value in texts if value]
    options += ["--no-text"] * (not text) + ["--upload"] * upload
    name = f"{context.now:%Y%m%d-%H%M%S}.{form}"
    return _queue(context, "export", lambda folder: ["export", "--json", *options, "--", str(folder / name), *urls])


@operations.operation("/imports", ConsoleRole.OPERATOR, status=202)
def start_import(
    context: operations.OperationContext,
    *,
    names: Annotated[_Names, Field(description="Files and folders below `incoming/` of the collection.")] = (),
    urls: Annotated[_Urls, Field(description="Files on the web.")] = (),
    dry_run: bool = False,
    stop_runs: Annotated[
        bool,
        Field(
            description="Stop runs that write the collection, including those of a terminal, after their pages in "
            "progress; the console's worker and services continue after the import."
        ),
    ] = True,
) -> QueuedTask:
    """Import files in the background: uploaded ones, those in `incoming/`, or from the web."""
    if not names and not urls:
        raise InputError("Name a file of incoming/, or a URL.")
    incoming = context.stores.layout.incoming
    paths = []
    for name in names:
        parts = PurePosixPath(name)
        path = incoming / parts
        is_there = False
        with suppress(OSError, RuntimeError, ValueError):  # too long a name, a loop of links, a NUL
            is_there = path.resolve(strict=True).is_relative_to(incoming.resolve())  # also at the end of links
        if parts.is_absolute() or ".." in parts.parts or not is_there:
            raise InputError(
                noop("There is no file %(name)s in the collection's folder incoming/."), name=repr(name[:200])
            )
        paths.append(str(path))
    for url in urls:
        if not url.startswith(("http://", "https://")):
            raise InputError(noop("%(url)s is not an http or https URL."), url=repr(url[:200]))
    command = ["import", "--json", *["--dry-run"] * dry_run, "--", *paths, *urls]
    return _queue(context, "import", lambda _folder: command, stops_runs=stop_runs and not dry_run)


@operations.resource("/imports/files", ConsoleRole.OPERATOR)
def list_incoming_files(context: operations.OperationContext) -> IncomingFiles:
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
        name: _IncomingName,
        idempotency_key: Annotated[str | None, Header(min_length=1, max_length=200)] = None,
    ) -> UploadedFile:
        """Store the body as a file in `incoming/`, from which it can be imported."""
        check_name(name, of="a file", limit=200)
        if not name.endswith(_ENDINGS):
            raise InputError(noop("The name must end with %(endings)s."), endings=", ".join(_ENDINGS))
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
                raise operations.StateConflictError(f"incoming/ already has a file {name}.") from error
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


@operations.operation("/imports/files/remove", ConsoleRole.OPERATOR)
def remove_incoming_file(context: operations.OperationContext, name: _IncomingName) -> RemovedFile:
    """Remove an uploaded file; imported content stays."""
    path = context.stores.layout.incoming / check_name(name, of="a file", limit=200)
    if not path.is_file():
        raise operations.UnknownThingError(f"There is no file {name[:200]!r} in the collection's folder incoming/.")
    path.unlink()
    return {"name": name, "message": f"{name} was removed."}


# ------------------------------------------------------------------------------------------------------------- quality

QualityFacts = TypedDict(
    "QualityFacts", {"verdicts": dict[str, int], "repairs": dict[str, int], "last_run": TaskFacts | None}
)
CheckList = TypedDict("CheckList", {"checks": list[CheckFacts], "next": str | None})
ReviewedCheck = Annotated[dict[str, Any], FactsOf("ReviewedCheck", CheckFacts, message=str)]


@operations.operation("/quality/runs", ConsoleRole.OPERATOR, status=202)
def start_quality_run(
    context: operations.OperationContext,
    *,
    urls: _Urls = (),
    sample: Annotated[int, Field(ge=1, le=100_000)] = 100,
    host: Annotated[str, Field(max_length=300)] = "",
    since: _Moment = "",
    again: Annotated[bool, Field(description="Include copies that were checked before.")] = False,
    repair: Annotated[bool, Field(description="Capture broken pages again, once.")] = True,
) -> QueuedTask:
    """Compare copies with their captures, in the background."""
    options = [f"--{name}={value}" for name, value in (("host", host), ("since", since)) if value]
    options += ["--again"] * again + [f"--sample={sample}", "--repair" if repair else "--no-repair"]
    return _queue(context, "quality", lambda _folder: ["qa", "--json", *options, "--", *urls])


@operations.resource("/quality")
def read_quality(context: operations.OperationContext) -> QualityFacts:
    """Return the numbers of checked copies by verdict, of repairs by state, and the last run."""
    with context.registry.snapshot() as reader:
        verdicts, repairs = count_by_verdict(reader, CheckFilter()), count_repairs(reader)
    last = context.stores.tasks.tasks(kind="quality", limit=1)
    return {
        "verdicts": {verdict_name(each): count for each, count in verdicts.items()},
        "repairs": {str(each): count for each, count in repairs.items()},
        "last_run": last[0] if last else None,
    }


@operations.resource("/quality/checks", ConsoleRole.CURATOR)
def list_quality_checks(
    context: operations.OperationContext,
    *,
    verdict: str = "",
    host: Annotated[str, Field(max_length=300)] = "",
    page_class: str = "",
    fault: str = "",
    level: str = "",
    below: Annotated[str, Field(max_length=20, description="Only scores below this: 0.8, or 80%.")] = "",
    unreviewed: bool = False,
    cursor: operations.Cursor = "",
    limit: operations.Limit = 100,
) -> CheckList:
    """Return results of checks per page, the worst first, also of pages that were taken down."""
    texts = {"verdict": verdict, "host": host, "class": page_class, "fault": fault, "level": level, "below": below}
    wanted = parse_check_filter({**texts, "unreviewed": "1" if unreviewed else ""})
    with context.registry.snapshot() as reader:
        rows = list_worst_first(reader, wanted, parse_start(cursor), limit)
    following = str(rows[-1].place) if len(rows) == limit else None
    return {"checks": [check_fields(each) for each in rows], "next": following}


@operations.resource("/quality/check", ConsoleRole.CURATOR)
def read_quality_check(context: operations.OperationContext, page_id: operations.Name, level: _LevelName) -> CheckFacts:
    """Return the check of a copy with its review."""
    with context.registry.reading() as rows:
        check = next((each for each in find_checks(rows, [page_id]) if each.check.level == level), None)
    if check is None:
        raise operations.UnknownThingError("There is no check of that copy.")
    return check_fields(check)


@operations.operation("/quality/reviews", ConsoleRole.CURATOR, status=201, state=read_quality_check)
def review_copy(
    context: operations.OperationContext,
    page_id: operations.Name,
    level: _LevelName,
    action: Annotated[
        ReviewAction, Field(description="`clear` withdraws a review; `recrawl` captures the page again.")
    ],
    note: Annotated[str, Field(max_length=1_000)] = "",
) -> ReviewedCheck:
    """Rate a copy, which goes before the program's verdict, or capture its page again."""
    reviews = ReviewActions(lambda: context.registry, context.stores.clock)
    if not reviews.do(action, page_id, level, by=context.user.name, note=note):
        raise operations.UnknownThingError("There is no check of that copy.")
    return {**read_quality_check(context, page_id, level), "message": "The review has been stored."}


@operations.operation("/quality/reports", ConsoleRole.OPERATOR, status=202)
def start_quality_report(context: operations.OperationContext) -> QueuedTask:
    """Write the results of checks into one HTML file, in the background; `/tasks/file` sends it."""
    return _queue(context, "quality report", lambda folder: ["qa ls --html", f"--out={folder / 'report.html'}"])
