"""What spreads from one page to many: templates and trees of categories. Pure.

A template's new links come to the pages that use it when the wiki's job queue has run, which nobody
tells us. So these pages are read at once and again after a while, `AGAIN` tells when. What stands in
more than `USERS_LIMIT` pages is left to the sweep. The lists are kept in the registry, as feeds.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta

AGAIN = (
    *(timedelta(seconds=20), timedelta(minutes=5)),
    *(timedelta(hours=1), timedelta(hours=6)),
)  # after the change
USERS_LIMIT = 5_000
TASKS_LIMIT = 1_000
_TITLE_LIMIT = 1_024


@dataclass(frozen=True, slots=True)
class Task:
    """A list of pages that are to be read.

    Attributes:
        kind: ``template``, ``category`` or ``namespace``.
        title: whose users or members; a namespace's number.
        began: seconds since 1970, when it changed.
        due: when to go on.
        resume: where in the list.
        step: how often the list was gone through.
        found: pages of this round.
    """

    kind: str
    title: str
    began: int
    due: int
    resume: str = ""
    step: int = 0
    found: int = 0


def read_tasks(text: str) -> tuple[Task, ...]:
    """The tasks in a cursor; those that cannot be read are left to the sweep."""
    try:
        return tuple(Task(**each) for each in json.loads(text or "[]"))
    except (ValueError, TypeError):
        return ()


def tasks_text(tasks: Iterable[Task]) -> str:
    """The tasks as a cursor."""
    return json.dumps([asdict(task) for task in tasks])


def begun(
    tasks: Iterable[Task], templates: Iterable[str], categories: Iterable[str], *, now: datetime
) -> tuple[Task, ...]:
    """The tasks and those that changes bring; one that changes again begins anew."""
    moment = int(now.timestamp())
    found = {(task.kind, task.title): task for task in tasks}
    for title in templates:
        first = int((now + AGAIN[0]).timestamp())
        found.pop(("template", title), None)
        found["template", title] = Task("template", title[:_TITLE_LIMIT], moment, first)
    for title in categories:
        found.setdefault(
            ("category", title), Task("category", title[:_TITLE_LIMIT], moment, moment)
        )
    return tuple(found.values())[-TASKS_LIMIT:]


def ordered(
    tasks: Iterable[Task], lists: Iterable[tuple[str, str]], *, now: datetime
) -> tuple[Task, ...]:
    """Return the tasks and one for each of the lists that somebody wants read now, by kind and title."""
    moment = int(now.timestamp())
    found = {(task.kind, task.title): task for task in tasks}
    for kind, title in lists:
        found.setdefault((kind, title), Task(kind, title[:_TITLE_LIMIT], moment, moment))
    return tuple(found.values())[-TASKS_LIMIT:]


def next_task(tasks: Iterable[Task], *, now: datetime) -> Task | None:
    """The task that has been due longest."""
    due = [task for task in tasks if task.due <= now.timestamp()]
    return min(due, key=lambda task: (task.due, task.kind, task.title), default=None)


def went_on(tasks: Iterable[Task], task: Task, resume: str, more: int) -> tuple[Task, ...]:
    """The tasks after a part of one's list was gone through.

    Args:
        tasks: all.
        task: that one.
        resume: where its list goes on; empty: it is at its end.
        more: how many pages that part had.
    """
    others = [each for each in tasks if (each.kind, each.title) != (task.kind, task.title)]
    found = task.found + more
    if resume and (task.kind != "template" or found < USERS_LIMIT):
        return (*others, replace(task, resume=resume, found=found))
    step = task.step + 1
    if task.kind != "template" or step >= len(AGAIN):
        return tuple(others)
    due = task.began + int(AGAIN[step].total_seconds())
    return (*others, replace(task, resume="", found=0, step=step, due=due))
