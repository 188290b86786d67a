"""What is sent: the headers of a reader's browser, and an honest name (W43).

Sites refuse what looks like a program, so Accept, Accept-Language and Accept-Encoding are what
browsers send, and HTTP/1.1 is spoken. They refuse more of what calls itself a *link* checker
(links.md 5.5), so the name never has that word; and it says why we ask, and whom to ask. No Referer is ever sent, and
no cookie that the same chain of redirects did not set.
"""

import re

from core.errors import ConfigError
from core.settings import LinksSettings
from links.asking.ways import Target

_PLAIN = re.compile(r"[!-~](?:[ -~]{0,510}[!-~])?")
_NAME = "Mozilla/5.0 (compatible; Weboid/0.1{pages})"
_UNLOVED = "link"


def user_agent(links: LinksSettings) -> str:
    """The name that the settings give.

    Raises:
        ConfigError: it has the word "link", or letters that no header may hold.
    """
    pages = "".join(f"; +{each}" for each in (links.purpose_page, links.contact) if each)
    name = links.user_agent or _NAME.format(pages=pages)
    setting = "user_agent" if links.user_agent else "contact or purpose_page"
    if not _PLAIN.fullmatch(name):
        raise ConfigError(f"[links] {setting} must be printable ASCII on one line, 500 characters.")
    if _UNLOVED in name.lower():
        raise ConfigError(
            f'[links] {setting} has the word "link", and many servers refuse whoever calls itself '
            "that: write another name, or the address of another page."
        )
    return name


class Requests:
    """Writes requests."""

    def __init__(self, links: LinksSettings) -> None:
        """Take the name; raises as `user_agent`."""
        lines = (
            f"User-Agent: {user_agent(links)}",
            "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
            "Accept-Language: en-US,en;q=0.9,*;q=0.5",
            "Accept-Encoding: gzip, deflate",
            "Cache-Control: max-age=0",
            "Connection: close",  # as it is done: the next request to the host comes seconds later
        )
        self._headers = "\r\n".join(lines)

    def write(self, method: str, target: Target, cookies: str = "") -> bytes:
        """The request, in bytes."""
        cookie = f"Cookie: {cookies}\r\n" if cookies else ""
        text = (
            f"{method} {target.path} HTTP/1.1\r\nHost: {target.authority}\r\n"
            f"{self._headers}\r\n{cookie}\r\n"
        )
        return text.encode("ascii", "replace")
