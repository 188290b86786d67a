"""The page about the crawler, which visited sites find in the User-Agent: why they are visited, how to refuse."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from playback.front.views import Render

ABOUT_PATH: Final = "/about-crawler"


@dataclass(frozen=True, slots=True)
class Crawler:
    """What its operator says of it.

    Attributes:
        contact: a page or mail address; empty: none.
        addresses: where its visits come from; empty: nobody said.
    """

    contact: str = ""
    addresses: str = ""


NOBODY: Final = Crawler()


def about_crawler(crawler: Crawler, render: Render) -> Callable[[Request], Response]:
    """Return what answers with the page."""
    contact = crawler.contact
    if contact.startswith(("http://", "https://")):
        address = contact
    else:
        address = f"mailto:{contact}" if "@" in contact else ""

    def answer(_request: Request) -> Response:
        return render(
            "about_crawler.html",
            contact=contact,
            contact_url=address,
            addresses=crawler.addresses,
        )

    return answer
