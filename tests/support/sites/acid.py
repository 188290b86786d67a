"""The acid pages: one for each way in which a page can be made, each with marks that tell.

A mark is a square of 100 CSS pixels at a known place that is green only when the way worked, in the
browser that archives and again when the copy is played back. A cell also names the URLs that must
be in the archive. The pages answer under `hosts.ACID` and again under `hosts.APART`, another site.
"""

import asyncio
from collections.abc import Callable

from tests.support.sites.acid_cell import AcidCell
from tests.support.sites.acid_loading import LOADING
from tests.support.sites.acid_making import MAKING
from tests.support.sites.acid_moving import MOVING
from tests.support.sites.acid_parts import film, picture, sound, typeface, typeface_woff2
from tests.support.sites.acid_showing import SHOWING
from tests.support.sites.acid_writing import WRITING
from tests.support.sites.http1 import Answer, PacedWriter, SiteRequest, response

CELLS: tuple[AcidCell, ...] = (*MAKING, *LOADING, *SHOWING, *WRITING, *MOVING)
_OPEN = (("Access-Control-Allow-Origin", "*"), ("Cache-Control", "max-age=600"))


def _answers() -> dict[str, Answer]:
    answers: dict[str, Answer] = {}
    for each in CELLS:
        answers[f"/{each.name}/"] = each.page
        for path, answer in each.files.items():
            answers[path if path.startswith("/") else f"/{each.name}/{path}"] = answer
    return answers


_ANSWERS = _answers()


def acid(request: SiteRequest) -> Answer:
    """Answer for the site; pictures, fonts, sounds and films exist at any path with such an ending."""
    path = request.path
    if path in _ANSWERS:
        return _ANSWERS[path]
    if path.startswith("/moved/"):
        return _moved(request)
    if path.endswith("/echo"):
        return _echo(request)
    if path.endswith("/late.json"):
        return response(body="{}", content_type="application/json")
    for ending, make in _MADE.items():
        if path.endswith(ending):
            body, mime = make(path)
            return response(body=body, content_type=mime, headers=_OPEN)
    made = picture(path)
    if made is not None:
        return response(body=made[0], content_type=made[1], headers=_OPEN)
    return response(404, "No such acid page.", content_type="text/plain")


_MADE: dict[str, Callable[[str], tuple[bytes, str]]] = {
    ".webm": lambda _path: (film(), "video/webm"),
    ".wav": lambda _path: (sound(), "audio/wav"),
    ".ttf": lambda path: (typeface(path), "font/ttf"),
    ".woff2": lambda path: (typeface_woff2(path), "font/woff2"),
}


def _moved(request: SiteRequest) -> Answer:
    """Redirect ``/moved/<status>/<path>``, with that status, to that path on this host."""
    status, _, rest = request.path.removeprefix("/moved/").partition("/")
    headers = (("Location", f"/{rest}"), ("Access-Control-Allow-Origin", "*"))
    return response(int(status), b"", headers=headers)


def _echo(request: SiteRequest) -> Answer:
    """Answer with the request's method, cookies and body."""
    text = f"{request.method}|{request.header('cookie')}|{request.body.decode('latin-1')}"
    return response(body=text, content_type="text/plain")


def waiting(seconds: float, answer: Answer) -> Answer:
    """Return an answer that is sent after so many seconds."""

    async def later(out: PacedWriter) -> None:
        await asyncio.sleep(seconds)
        await out.reply(answer)  # type: ignore[arg-type]

    return later
