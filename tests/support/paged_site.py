"""A site of pages with a picture and a style sheet each, whose WARCs are damaged afterwards."""

import io
import random
from collections.abc import Iterable

from PIL import Image, ImageDraw

from core.layout import Layout
from tests.support.commands import WeboidRunner
from tests.support.linked_site import Answer, file
from tests.support.planted_faults import PlantedFault, plant

STYLE = (
    b"body { font: 20px serif; max-width: 40em; margin: 2em auto; background: #eef }"
    b" h1 { background: #336; color: #fff; padding: 1em }"
)
_WORDS = "Some words of a page that somebody wrote about ships and harbours. " * 20


def answers_of(*places: str) -> dict[str, Answer]:
    """Return answers for pages at ``host/name``, each with a picture of its own."""
    answers = {}
    for place in places:
        host, _, name = place.partition("/")
        answers[place] = page_named(name)
        answers[f"{place}.png"] = file(_picture(name), "image/png")
        answers[f"{host}/style.css"] = file(STYLE, "text/css")
    return answers


def page_named(name: str) -> Answer:
    """Return a page with its picture."""
    text = (
        f"<!DOCTYPE html><title>{name}</title><link rel=stylesheet href=/style.css>"
        f"<h1>{name}</h1><img src=/{name}.png width=600 height=400><p>{_WORDS}</p>"
    )
    return file(text.encode(), "text/html")


def damage(weboid: WeboidRunner, *, pictures: Iterable[str]) -> None:
    """Take pictures out of the archive; rebuild the index."""
    lost = tuple(f"/{name}.png" for name in pictures)
    fault = PlantedFault("lost", lambda held: held.kind == "response" and held.uri.endswith(lost))
    took = plant(Layout(weboid.collection), [fault])
    assert sum(map(len, took.values())) == len(lost)
    rebuilt = weboid.run("collection", "rebuild")
    assert rebuilt.code == 0, rebuilt.err


def _picture(seed: str) -> bytes:
    dice = random.Random(seed)
    image = Image.new("RGB", (600, 400), (dice.randrange(255), 80, 120))
    draw = ImageDraw.Draw(image)
    for _ in range(60):
        x, y = dice.randrange(600), dice.randrange(400)
        colour = (dice.randrange(255), dice.randrange(255), dice.randrange(255))
        draw.ellipse((x, y, x + 60, y + 60), fill=colour)
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()
