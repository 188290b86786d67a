"""Console pages of cited links (by state, host and citing page, one link with all that is known) and of the bot."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from core.errors import BadUrlError, ConfigError, InputError, UnavailableError
from core.urls import fetch_key, identity_key
from links.check_history import date_of, day_of, unpack_history
from links.checker.check_schedule import STATE_DAYS, states_by_day
from links.feedback.marks import read_marks
from links.feedback.replacements import ProposalStage
from links.feedback.reports import list_reports
from links.registry.bot_edits import BotEdit, EditState, newest_edits
from links.registry.lookups import EVERY_STATE, list_urls, page_facts, url_facts, uses_anywhere
from links.registry.pages import find_pages
from links.registry.schema import replacements
from links.registry.urls import find_urls, latest_observations, urls_by_id
from links.registry.wikis import all_wikis
from links.states import LinkState
from playback.web.i18n import noop, translate
from playback.web.registry.registry_service import NoRegistryError
from playback.web.text_diff import compare_texts
from weboid.console.bot_operations import list_bots, list_pages_to_repair, preview_repair, read_bot
from weboid.console.link_operations import known_page
from weboid.console.operations import OperationContext
from weboid.console.page_frame import EDIT_STATES, LINK_STATES, ConsolePages, ConsoleStores, console_page, console_path

LISTED = 100
USES_SHOWN = 50
PROPOSALS_SHOWN = 50
MARKS_SHOWN = 100
_PAGE_LINKS = 1_000
STATE_GROUPS = {
    "good": noop("Works"),
    "fair": noop("Failing, blocked or changed"),
    "bad": noop("Dead or usurped"),
    "unknown": noop("Not checked"),
}


@dataclass(frozen=True, slots=True)
class StateChart:
    """Links by state over the last days: areas of a chart of 600 by 100 units, stacked from the bottom."""

    areas: Sequence[tuple[str, str]]  # class of the states and the points of their area
    most: int  # links on one day
    days: Sequence[tuple[str, Sequence[int]]]  # date and counts of each group, the newest first


def state_chart(days: Mapping[int, Mapping[LinkState, int]]) -> StateChart | None:
    """Lay out the chart of counts by day, at their distance in time; None for less than two days."""
    if len(days) < 2:
        return None
    counts = {
        day: [
            sum(states.get(state, 0) for state, (kind, _) in LINK_STATES.items() if kind == group)
            for group in STATE_GROUPS
        ]
        for day, states in days.items()
    }
    first, last = min(counts), max(counts)
    most = max(map(sum, counts.values())) or 1
    areas = []
    for place, kind in enumerate(STATE_GROUPS):
        upper, lower = (
            [
                f"{600 * (day - first) / (last - first):.1f},{100 - 100 * sum(parts[:end]) / most:.2f}"
                for day, parts in counts.items()
            ]
            for end in (place + 1, place)
        )
        areas.append((kind, " ".join([*upper, *reversed(lower)])))
    return StateChart(areas, most, [(str(date_of(day)), counts[day]) for day in sorted(counts, reverse=True)])


def wiki_edits(
    reader: Any, states: Sequence[EditState] = tuple(EDIT_STATES), *, limit: int, wiki: str = ""
) -> list[tuple[str, str, BotEdit]]:
    """Return the newest edits in these states, of all wikis or of one, with wiki and title, the newest first."""
    named_edits = []
    for each in all_wikis(reader):
        if not wiki or str(each.name) == wiki:
            edits = newest_edits(reader, each.id, states, limit=limit)
            pages = find_pages(reader, each.id, {edit.page_id for edit in edits})
            titles = {page_id: page.title for page_id, page in pages.items()}
            named_edits += [(str(each.name), titles.get(edit.page_id, str(edit.page_id)), edit) for edit in edits]
    return sorted(named_edits, key=lambda line: line[2].moment, reverse=True)[:limit]


def read_state_chart(stores: ConsoleStores) -> StateChart | None:
    """Return the chart of the last days; None for less than two. Raises NoRegistryError, TransientError."""
    with stores.registry.store().reading() as rows:
        return state_chart(states_by_day(rows, since=day_of(stores.clock.now()) - STATE_DAYS))


@contextmanager
def reading_registry(stores: ConsoleStores) -> Iterator[Any]:
    """Yield a snapshot of the registry; HTTPException 404: there is none."""
    try:
        with stores.registry.store().snapshot() as reader:
            yield reader
    except NoRegistryError:
        raise HTTPException(404) from None


class LinkPages(ConsolePages):
    """Pages of links."""

    @console_page("links")
    def links(self, request: Request) -> Response:
        """Return links by state and host, and proposed replacements."""
        query = request.query_params
        words, state, after = query.get("q", "").strip()[:20_000], query.get("state", ""), query.get("after", "")
        start = int(after) if after.isascii() and after.isdecimal() and len(after) < 18 else 0
        is_search = bool(words or state or start)
        chosen = LinkState[state] if state in LinkState.__members__ else None
        with reading_registry(self._stores) as reader:
            if "/" in words:
                rows = []
                with suppress(BadUrlError):
                    spelled = words if "://" in words else f"https://{words}"
                    identity = identity_key(fetch_key(spelled, allow_single_label=True))
                    rows = list(find_urls(reader, [identity]).values())
            else:
                states = [int(chosen)] if chosen is not None else EVERY_STATE
                rows = list_urls(reader, limit=LISTED + 1, after=start, host=words.lower(), states=states)
        more = console_path("links", q=words, state=state, after=str(rows[LISTED - 1].id)) if len(rows) > LISTED else ""
        return self._frame(
            "links.html",
            request,
            words=words,
            state=state,
            states=[(each.name, translate(name)) for each, (_, name) in LINK_STATES.items()],
            rows=rows[:LISTED],
            more=more,
            groups=[translate(name) for name in STATE_GROUPS.values()],
            **({"proposals": [], "reports": [], "marks": [], "trend": None} if is_search else self._overview()),
        )

    @console_page("links/page")
    def page(self, request: Request) -> Response:
        """Return the links of a wiki's page with their states."""
        wiki, title = (request.query_params.get(name, "") for name in ("wiki", "title"))
        context = OperationContext(self._stores, request.state.user)
        try:
            wiki_row, page = known_page(context, wiki, title)
        except InputError:
            raise HTTPException(404) from None
        with reading_registry(self._stores) as reader:
            facts = page_facts(reader, wiki_row.id, [page.page_id], day=day_of(context.now)).get(page.page_id)
        if facts is None:  # deleted since it was found
            raise HTTPException(404)
        rows = [each.facts.row for each in facts.links[:_PAGE_LINKS]]
        return self._frame("page_links.html", request, wiki=wiki, title=page.title, rows=rows)

    @console_page("links/{number}")
    def link(self, request: Request) -> Response:
        """Return all that is known of one link."""
        text, now = request.path_params["number"], self._stores.clock.now()
        number = int(text) if text.isascii() and text.isdecimal() and len(text) < 18 else 0
        with reading_registry(self._stores) as reader:
            facts = url_facts(reader, [number], day=day_of(now)).get(number)
            if facts is None:
                raise HTTPException(404)
            names = {wiki.id: str(wiki.name) for wiki in all_wikis(reader)}
            uses = uses_anywhere(reader, number, limit=USES_SHOWN)
            checks = latest_observations(reader, number)
        return self._frame(
            "link.html",
            request,
            facts=facts,
            runs=unpack_history(facts.row.history)[: -USES_SHOWN - 1 : -1],
            uses=uses,
            wikis=names,
            checks=checks,
        )

    def _overview(self) -> dict[str, Any]:
        """Return proposed addresses, waiting ones first, reports, the newest marks that hold, and the states by day."""
        now = self._stores.clock.now()
        columns = (replacements.c.url_id, replacements.c.address, replacements.c.state)
        query = select(*columns).order_by(replacements.c.state, replacements.c.tested_day).limit(PROPOSALS_SHOWN)
        with self._stores.registry.store().reading() as connection:
            proposals = connection.execute(query).all()
            rows = urls_by_id(connection, [each.url_id for each in proposals])
            reports = list_reports(connection, day_of(now), limit=PROPOSALS_SHOWN)
            marks = [each for each in read_marks(connection) if each.holds(now)]
        known = [each for each in proposals if each.url_id in rows]
        return {
            "proposals": [(rows[each.url_id], each.address, ProposalStage(each.state)) for each in known],
            "reports": reports,
            "marks": marks[: -MARKS_SHOWN - 1 : -1],
            "trend": read_state_chart(self._stores),
        }


EDITS_SHOWN = 50
PAGES_SHOWN = 50
_RESULTS = {
    "proposed": noop("This edit would be made."),
    "nothing": noop("There is nothing to repair on this page now."),
    "off": noop("The bot does not edit this page: it is excluded."),
}


class BotPages(ConsolePages):
    """Pages of the bot: wikis with their switch, edits, pages to repair, the preview of a repair."""

    @console_page("bot")
    def edits(self, request: Request) -> Response:
        """Return wikis with their switch, and edits with their differences."""
        query = request.query_params
        wanted, wiki = query.get("state", ""), query.get("wiki", "")
        states = [EditState[wanted]] if wanted in EditState.__members__ else list(EDIT_STATES)
        with reading_registry(self._stores) as reader:
            edits = wiki_edits(reader, states, limit=EDITS_SHOWN, wiki=wiki)
        return self._frame(
            "bot.html",
            request,
            wikis=list_bots(OperationContext(self._stores, request.state.user))["wikis"],
            edits=edits,
            wiki=wiki,
            state=wanted,
            states=[(each.name, translate(name)) for each, (_, name) in EDIT_STATES.items()],
            EditState=EditState,
            compare=compare_texts,
        )

    @console_page("bot/repairs")
    def repairs(self, request: Request) -> Response:
        """Return pages of a wiki with dead links, and what is excluded from repairs there."""
        wiki = request.query_params.get("wiki", "")
        context = OperationContext(self._stores, request.state.user)
        try:
            repairs = list_pages_to_repair(context, wiki, request.query_params.get("after", ""), PAGES_SHOWN)
            bot = read_bot(context, wiki)
        except InputError:
            raise HTTPException(404) from None
        except ConfigError as error:
            return self._frame.problem(request, 422, str(error), console_path("bot"))
        return self._frame(
            "repairs.html",
            request,
            wiki=wiki,
            bot=bot,
            pages=repairs["pages"],
            more=console_path("bot", "repairs", wiki=wiki, after=repairs["next"]) if repairs["next"] else "",
            states={each.name.lower(): (mark, translate(name)) for each, (mark, name) in EDIT_STATES.items()},
        )

    @console_page("bot/preview")
    def preview(self, request: Request) -> Response:
        """Return what the bot would change on a page now, read from its wiki."""
        wiki, title = (request.query_params.get(name, "") for name in ("wiki", "title"))
        if not title:
            raise HTTPException(404)
        back = console_path("bot", "repairs", wiki=wiki)
        try:
            repair = preview_repair(OperationContext(self._stores, request.state.user), wiki, title)
        except (InputError, ConfigError, UnavailableError) as error:
            return self._frame.problem(request, 422, str(error), back)
        # A unified diff starts with two lines of file names; each hunk with a line of line numbers.
        lines = [" …" if line.startswith("@@") else line for line in repair["diff"][3:]]
        before, after = ("\n".join(line[1:] for line in lines if line[:1] in ("", " ", sign)) for sign in "-+")
        result = repair["did"]
        return self._frame(
            "repair.html",
            request,
            wiki=wiki,
            title=title,
            seen=repair,
            says=translate(_RESULTS[result]) if result in _RESULTS else result,
            change=compare_texts(before, after) if lines else None,
            back=back,
        )
