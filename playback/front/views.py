"""How the front's answers are made: templates, the addresses they hold, and what every view may use."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse

from core.clock import Clock
from core.records import ArtifactKind
from playback.addresses import (
    LEVEL_MODIFIERS,
    Memento,
    Modifier,
    PageAddress,
    escape_url,
    is_web_url,
    memento_path,
    page_path,
)
from playback.front import languages
from playback.front.cautions import Cautions
from playback.front.facets import EVERYTHING, Facets
from playback.front.languages import here, spoken
from playback.front.pages import Page, PageStore
from playback.front.records import Records
from playback.front.searching import Search
from playback.front.skew import Skew, rough
from playback.front.standing import Status

if TYPE_CHECKING:
    from playback.front.levels import Offers

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Means:
    """What the front's views work with.

    Attributes:
        store: which pages there are.
        search: finds them.
        records: reads texts and manifests; None where the WARCs are not.
        status: knows what is queued; None when nobody does.
        clock: the time.
        origin: the front's own, for addresses that leave it; empty when every Host is answered.
        replay_origin: where the copies are.
        render: makes a page of a template, with a status code and the template's values.
        offers: the levels that readers may choose.
        cautions: what readers are warned of.
        page_headers: what the answer with a capture's page says in its headers.
        skews: how far the parts of copies are from their moments, as far as that is soon known.
    """

    store: PageStore
    search: Search
    records: Records | None
    status: Status | None
    clock: Clock
    origin: str
    replay_origin: str
    render: "Render"
    offers: "Offers"
    cautions: Cautions
    page_headers: Callable[[Page], Mapping[str, str]]
    skews: Callable[[Sequence[Page]], Sequence[Skew | None]]


class Render:
    """Makes pages of templates."""

    def __init__(self, replay_origin: str, **functions: Callable[..., object]) -> None:
        """Take where the copies are, and more functions that templates may call."""
        self._templates = _environment(replay_origin)
        self._templates.globals.update(rough=rough, **functions)

    def __call__(
        self,
        template: str,
        code: int = 200,
        headers: Mapping[str, str] | None = None,
        **values: object,
    ) -> HTMLResponse:
        """The page, in the reader's language."""
        said = spoken.get()
        values = {"language": said.language, "address": said.path, **values}
        text = self._templates.get_template(template).render(values)
        response = HTMLResponse(text, code, headers=headers)
        response.headers["Content-Language"] = said.language
        if not said.prefix:
            response.headers["Vary"] = "Accept-Language"
        return response


def reader_path(
    timestamp: str, url: str, *, view: str = "page", asked: PageAddress | None = None
) -> str:
    """`page_path` in the language that the reader chose, with the level and the wiki of `asked`."""
    level, wiki = (asked.level, asked.wiki) if asked is not None else (None, "")
    return here(page_path(timestamp, url, view=view, level=level, wiki=wiki))


def history_path(url: str, period: str = "", facets: Facets = EVERYTHING) -> str:
    """Return the path of a URL's captures: all, or those of `period`, or up to it, and of `facets`."""
    return here("/".join(("/url", *filter(None, (facets.segment, period)), escape_url(url))))


def changes_path(older: Page, newer: Page) -> str:
    """The path of what changed between two captures."""
    return here(f"/changes/{older.timestamp}/{newer.timestamp}/{escape_url(newer.url)}")


def _environment(replay_origin: str) -> Environment:
    """Templates that escape everything and know the addresses of front and replay.

    Text that people read stands in ``_()`` or ``ngettext()``.
    """
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )

    def replayed(timestamp: str, modifier: Modifier, url: str, wiki: str = "") -> str:
        return replay_origin + memento_path(Memento(timestamp, modifier, url, wiki))

    def image_address(timestamp: str, uri: str, asked: PageAddress | None = None) -> str:
        return replayed(timestamp, Modifier.IMAGE, uri, asked.wiki if asked is not None else "")

    def copy_address(page: Page, asked: PageAddress) -> str:
        modifier = LEVEL_MODIFIERS[asked.level] if asked.level is not None else Modifier.PAGE
        return replayed(page.timestamp, modifier, page.url, asked.wiki)

    def very_address(page: Page, asked: PageAddress) -> str:
        return replayed(page.timestamp, Modifier.VERY, page.url, asked.wiki)

    def file_address(page: Page, asked: PageAddress) -> str:
        return replayed(page.timestamp, Modifier.FILE, page.url, asked.wiki)

    def text_address(page: Page) -> str:
        return replayed(page.timestamp, Modifier.TEXT, page.artifacts[ArtifactKind.TEXT])

    functions: list[Callable[..., object]] = [
        image_address,
        copy_address,
        very_address,
        file_address,
        text_address,
        history_path,
        changes_path,
        escape_url,
        here,
        is_web_url,
    ]
    environment.globals.update({each.__name__: each for each in functions})
    environment.globals.update(
        _=languages.translate,
        ngettext=languages.translate_count,
        page_path=reader_path,
        languages=[(each, languages.language_name(each)) for each in languages.languages()],
        month_name=languages.month,
        weekdays=languages.weekdays,
    )
    environment.filters.update(
        when=languages.when,
        day=languages.day,
        minute=languages.minute,
        moment=languages.moment_of,
        month_and_year=languages.month_and_year,
        number=languages.number,
        size=size_of,
    )
    return environment


def size_of(count: int) -> str:
    """A number of bytes as people say it.

    >>> size_of(999), size_of(4_321), size_of(12_345_678)
    ('999 B', '4.3 kB', '12.3 MB')
    """
    if count < 1000:
        return f"{languages.number(count)} B"
    value, unit = (count / 1000, "kB") if count < 1_000_000 else (count / 1_000_000, "MB")
    return f"{languages.number(round(value, 1))} {unit}"
