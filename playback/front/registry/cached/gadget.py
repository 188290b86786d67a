"""The gadget's script, which pages of any site load."""

from hashlib import sha256
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from playback.front.registry.programs import OPEN

GADGET_PATH = "/links/gadget.js"

_FRESH_S = 3_600  # then it is asked whether there is another


class Gadget:
    """Serves the script: one file, the same for all; what it is told stands in the loader's query."""

    def __init__(self) -> None:
        self._script = Path(__file__).with_name("gadget.js").read_bytes()
        self._headers = {
            **OPEN,
            "Cache-Control": f"public, max-age={_FRESH_S}",
            "ETag": f'"{sha256(self._script).hexdigest()[:32]}"',
        }

    def routes(self) -> list[BaseRoute]:
        """Its address."""
        return [Route(GADGET_PATH, self.answer)]

    def answer(self, request: Request) -> Response:
        """The script, or that the reader's copy is still the same (RFC 9110, 13.1.2)."""
        held = [each.strip() for each in request.headers.get("if-none-match", "").split(",")]
        if "*" in held or self._headers["ETag"] in [each.removeprefix("W/") for each in held]:
            return Response(status_code=304, headers=self._headers)
        return Response(self._script, headers=self._headers, media_type="text/javascript")
