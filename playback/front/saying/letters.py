"""A form that was sent: whether this front's own page sent it, and what it holds.

Three things tell. The browser says where a form was sent from (``Sec-Fetch-Site``, ``Origin``), and no
page can change that. A browser that says neither, such as a text browser, has at least fetched the form
itself: the token in it names its moment, its purpose and the range of addresses it was made for. And
what is sent is a short form of the plainest kind, or it is not read at all.
"""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request

from links.reporters import Reporters

MOST_BYTES = 16_384
MOST_FIELDS = 20
TOKEN_S = 2 * 3600
_FORM = "application/x-www-form-urlencoded"
_OWN = frozenset({"same-origin", "none"})  # none: the reader's own doing, such as loading it again


@dataclass(frozen=True, slots=True)
class Tokens:
    """Makes and reads tokens of forms.

    Attributes:
        reporters: who can make them: all fronts that share the key.
    """

    reporters: Reporters

    def make(self, purpose: str, addresses: str, now: float) -> str:
        """A token for a form with that purpose, sent from that range of addresses."""
        made = int(now)
        return f"{made}.{self._digest(purpose, addresses, made)}"

    def holds(self, token: str, purpose: str, addresses: str, now: float) -> bool:
        """Whether it was made for that, a while ago at most."""
        made, _, digest = token.partition(".")
        if not (made.isascii() and made.isdigit() and len(made) < 12 and digest.isascii()):
            return False
        is_right = hmac.compare_digest(digest, self._digest(purpose, addresses, int(made)))
        return is_right and 0 <= now - int(made) <= TOKEN_S

    def _digest(self, purpose: str, addresses: str, made: int) -> str:
        return self.reporters.digest("form", f"{purpose}\n{addresses}\n{made}").hex()


def check_sender(request: Request, origin: str) -> None:
    """Return when one of our own pages may have sent the request.

    Args:
        request: that changes something.
        origin: the front's own; empty: whatever it was asked as.

    Raises:
        HTTPException: 403, another site's page sent it.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        if site not in _OWN:
            raise HTTPException(403)
        return
    sender = request.headers.get("origin")
    if sender is None:
        return
    own = urlsplit(origin).netloc or request.headers.get("host", "")
    scheme = urlsplit(origin).scheme or request.url.scheme
    if sender.lower() != f"{scheme}://{own}".lower():
        raise HTTPException(403)


async def read_letter(request: Request) -> Mapping[str, str]:
    """The fields of a form that was sent; of a field that comes twice the first.

    Raises:
        HTTPException: 415, it is no form of the plain kind; 413, it is too long; 400, it is no text.
    """
    kind, _, rest = request.headers.get("content-type", "").partition(";")
    charset = rest.strip().lower()
    if kind.strip().lower() != _FORM or charset not in ("", "charset=utf-8"):
        raise HTTPException(415)
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise HTTPException(415)
    said = request.headers.get("content-length", "0")
    if not (said.isascii() and said.isdigit()) or len(said) > 9 or int(said) > MOST_BYTES:
        raise HTTPException(413)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            raise HTTPException(413)
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            max_num_fields=MOST_FIELDS,
            errors="strict",
        )
    except ValueError:  # a byte that is no form's, too many fields, or no UTF-8
        raise HTTPException(400) from None
    found: dict[str, str] = {}
    for name, value in pairs:
        found.setdefault(name, value)
    return found
