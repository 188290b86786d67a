"""The middleware that settles the language of an answer."""

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from playback.front.languages import Spoken, check_language, split_prefix, spoken, wanted_language


class Speaking:
    """ASGI middleware: ``/de/…`` is ``/…`` in German; without such a prefix the browser's wish holds.

    Raises:
        ConfigError: there is no language `default`.
    """

    def __init__(self, app: ASGIApp, default: str) -> None:
        self._app = app
        self._default = check_language(default)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        language, raw_path = split_prefix(scope["raw_path"])
        prefix = f"/{language}" if language else ""
        if prefix:
            path = scope["path"][len(prefix) :] or "/"
            scope = {**scope, "raw_path": raw_path, "path": path}
        else:
            accepted = ",".join(Headers(scope=scope).getlist("accept-language"))
            language = wanted_language(accepted, self._default)
        query = scope["query_string"].decode("latin-1")
        here = raw_path.decode("latin-1") + (f"?{query}" if query else "")
        spoken.set(Spoken(language, prefix, here))
        await self._app(scope, receive, send)
