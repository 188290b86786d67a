"""Console pages of the bot: wikis with their switch, edits, pages to repair, and the preview of a repair."""

from typing import Any

from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from core.errors import ConfigError, InputError, UnavailableError
from links.registry.bot_edits import EditKind, EditState, count_edits
from links.registry.wikis import all_wikis
from playback.web.i18n import noop, translate
from playback.web.text_diff import compare_texts
from weboid.app.wiki.wiki_clients import settings_of_wiki
from weboid.console.accounts import AccountStore
from weboid.console.bot_operations import RepairsQuery, list_pages_to_repair, preview_repair, read_bot
from weboid.console.link_operations import WikiFields, WikiPageFields
from weboid.console.link_pages import EDIT_STATES, edit_lines, reading_registry
from weboid.console.operations import OperationContext
from weboid.console.page_frame import CONSOLE_PATH, ConsoleFrame, ConsoleStores, console_path

EDITS_SHOWN = 50
PAGES_SHOWN = 50
_RESULTS = {
    "proposed": noop("This edit would be made."),
    "nothing": noop("There is nothing to repair on this page now."),
    "off": noop("The bot leaves this page alone."),
}


class BotPages:
    """Pages of the bot. Plain functions, run by Starlette in threads."""

    def __init__(self, stores: ConsoleStores, frame: ConsoleFrame, accounts: AccountStore) -> None:
        self._stores = stores
        self._frame = frame
        self._accounts = accounts

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [
            Route(f"{CONSOLE_PATH}/bot", self.edits),
            Route(f"{CONSOLE_PATH}/bot/repairs", self.repairs),
            Route(f"{CONSOLE_PATH}/bot/preview", self.preview),
        ]

    def edits(self, request: Request) -> Response:
        """Return wikis with their switch, and edits with their differences."""
        asked = request.query_params
        wanted, wiki = asked.get("state", ""), asked.get("wiki", "")
        states = [EditState[wanted]] if wanted in EditState.__members__ else list(EDIT_STATES)
        wikis = []
        with reading_registry(self._stores) as reader:
            for each in all_wikis(reader):
                counts = count_edits(reader, each.id, EditKind.PAGE)
                try:
                    is_on: bool | None = settings_of_wiki(each).bot.enabled
                except ConfigError:
                    is_on = None
                wikis.append((str(each.name), is_on, counts))
            edits = edit_lines(reader, states, limit=EDITS_SHOWN, wiki=wiki, with_changes=True)
        return self._frame(
            "bot.html",
            request,
            section="bot",
            wikis=wikis,
            edits=edits,
            wiki=wiki,
            state=wanted,
            states=[(each.name, translate(name)) for each, (_, name) in EDIT_STATES.items()],
            EditState=EditState,
        )

    def repairs(self, request: Request) -> Response:
        """Return pages of a wiki with dead links, and what the bot leaves alone there."""
        wiki = request.query_params.get("wiki", "")
        query = {"wiki": wiki, "cursor": request.query_params.get("after", ""), "limit": PAGES_SHOWN}
        context = self._context(request)
        try:
            found = list_pages_to_repair(context, RepairsQuery.model_validate(query))
            bot = read_bot(context, WikiFields(wiki=wiki))
        except (ValidationError, InputError):
            raise HTTPException(404) from None
        except ConfigError as error:
            return self._frame.problem(request, 422, str(error), console_path("bot"))
        return self._frame(
            "repairs.html",
            request,
            section="bot",
            wiki=wiki,
            bot=bot,
            pages=found["pages"],
            more=console_path("bot", "repairs", wiki=wiki, after=found["next"]) if found["next"] else "",
            states={each.name.lower(): (mark, translate(name)) for each, (mark, name) in EDIT_STATES.items()},
        )

    def preview(self, request: Request) -> Response:
        """Return what the bot would change on a page now, read from its wiki."""
        wiki, title = (request.query_params.get(name, "") for name in ("wiki", "title"))
        back = console_path("bot", "repairs", wiki=wiki)
        try:
            seen = preview_repair(self._context(request), WikiPageFields(wiki=wiki, title=title))
        except ValidationError:
            raise HTTPException(404) from None
        except (InputError, ConfigError, UnavailableError) as error:
            return self._frame.problem(request, 422, str(error), back)
        # Two lines of file names begin a unified diff; a line of line numbers each of its parts.
        lines = [" …" if line.startswith("@@") else line for line in seen["diff"][3:]]
        before, after = ("\n".join(line[1:] for line in lines if line[:1] in ("", " ", sign)) for sign in "-+")
        result = seen["did"]
        says = translate(_RESULTS[result]) if result in _RESULTS else result
        return self._frame(
            "repair.html",
            request,
            section="bot",
            wiki=wiki,
            title=title,
            seen=seen,
            says=says,
            change=compare_texts(before, after) if lines else None,
            back=back,
        )

    def _context(self, request: Request) -> OperationContext:
        user: Any = request.state.user
        return OperationContext(self._stores, self._accounts, user)
