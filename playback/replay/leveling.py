"""At which level replay answers: what the reader asked for, as far as the rules allow it.

The rules are asked anew for each answer, before anything that was made is looked up, so a change of
them counts at once. They are asked about the URLs of what is shown, not about the URL that found it:
an index look-up merges distinct pages, and rules about links must not.
"""

from dataclasses import replace

from core.captures import Capture
from core.records import ArtifactKind
from playback.addresses import Modifier
from playback.decisions.levels import Level, least
from playback.replay.answers import Answer, Request, redirect
from playback.replay.context import Context


def leveled(context: Context, request: Request, *urls: str) -> tuple[Request, Level] | Answer:
    """The request and the level to answer it at; or the way to what is allowed.

    A wiki that no rule speaks of is forgotten: whoever invents names must not have a copy made and kept for
    each of them (P-21).

    Args:
        context: where the rules are.
        request: for a page.
        urls: those of the capture that would be shown: the one cited, and the one it led to.

    Raises:
        TransientError: the rules cannot be read.
    """
    rules, address = context.levels.now(), request.memento
    most, asked = rules.of_page(urls, address.wiki), address.level
    if asked is not None and not most.covers(asked):
        return redirect(replace(address, modifier=Modifier.PAGE))
    if not rules.speak_of(address.wiki):
        address = replace(address, wiki="")
    # What has scripts has addresses of its own.
    level = asked if asked is not None else least(most, Level.IMAGES)
    return replace(request, memento=address, variant=level.value), level


def shows_image(
    context: Context, request: Request, capture: Capture, artifact: tuple[ArtifactKind, str] | None
) -> bool:
    """True when the image in `capture` may be shown.

    Where a page embeds it, that page's level has decided. By itself an image is a page of its own, and a
    screenshot is an image of the page in its name, wherever it is shown.

    Raises:
        TransientError: the rules or the index cannot be read.
    """
    if artifact is None:
        return request.destination == "image" or _may_be_seen(context, request, capture)
    page = context.index.page(artifact[1], request.at, on_purpose=True)
    is_its = page is not None and artifact[1] in (page.url, page.final_url)
    urls = (page.url, page.final_url) if page is not None and is_its else (artifact[1],)
    return context.levels.now().of_page(urls, request.memento.wiki).covers(Level.IMAGES)


def loads_font(context: Context, request: Request, capture: Capture) -> bool:
    """True when the font in `capture` may be handed out: to a page, whose level has decided.

    Nobody opens a font, which would be a download, and no script reads it. Browsers before Fetch Metadata,
    and all of them over plain HTTP, do not say what it is for; then the rules are asked about the font.

    Raises:
        TransientError: the rules cannot be read.
    """
    return _loads(context, request, capture, "font")


def loads_mask(context: Context, request: Request, capture: Capture) -> bool:
    """True when the shape of the image in `capture` may be handed out: to a page, as with fonts.

    Raises:
        TransientError: the rules cannot be read.
    """
    return _loads(context, request, capture, "image")


def _loads(context: Context, request: Request, capture: Capture, destination: str) -> bool:
    if request.destination:
        return request.destination == destination
    return _may_be_seen(context, request, capture)


def _may_be_seen(context: Context, request: Request, capture: Capture) -> bool:
    """True when what belongs to a page's look may be had by itself."""
    rules, wiki = context.levels.now(), request.memento.wiki
    level = least(rules.of(request.memento.url, wiki), rules.of(capture.url, wiki))
    return level.covers(Level.IMAGES)
