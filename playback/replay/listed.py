"""The notice before the copy of an address that is on a list of bad ones."""

from http import HTTPStatus

from playback.addresses import page_path
from playback.decisions.lists import ListEffect, ListHit
from playback.replay.answers import HTML, Answer, Request
from playback.replay.context import Context
from playback.replay.html import notice_document

CONFIRMED_VIEW = "as-captured"  # of the front: the copy, for who was told


def warned(context: Context, request: Request, *urls: str) -> Answer | None:
    """The notice that stands before the copy; None when none of the addresses is held back.

    Its link leads to the front, whose page says it in the reader's language.

    Raises:
        TransientError: the lists cannot be read.
    """
    hit = context.permits.holds.listed(*urls)
    if hit is None or hit.on.effect is not ListEffect.HOLD:
        return None
    address = request.memento
    path = page_path(address.timestamp, address.url, view=CONFIRMED_VIEW)
    link = (f"{context.front}{path}", "See the copy all the same")
    document = notice_document("This address is on a list", said(hit), link=link)
    return Answer(HTTPStatus.FORBIDDEN, HTML, document.encode())


def said(hit: ListHit) -> str:
    """What is said of an address that was found on a list."""
    on = "is" if hit.is_sure else "may be"
    text = f"It {on} on the list {hit.on.name}, as of {hit.on.added_at:%Y-%m-%d}"
    return f"{text}: {hit.on.reason}." if hit.on.reason else f"{text}."
