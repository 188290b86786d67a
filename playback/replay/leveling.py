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
    wiki = request.memento.wiki
    if artifact is None:
        if request.is_embedded:
            return True
        rules = context.levels.now()
        level = least(rules.of(request.memento.url, wiki), rules.of(capture.url, wiki))
    else:
        page = context.index.page(artifact[1], request.at, on_purpose=True)
        is_its = page is not None and artifact[1] in (page.url, page.final_url)
        urls = (page.url, page.final_url) if page is not None and is_its else (artifact[1],)
        level = context.levels.now().of_page(urls, wiki)
    return level.covers(Level.IMAGES)
