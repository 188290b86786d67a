"""Who may ask: readers within their rates, internal callers without (W23).

An internal caller comes from a network that a setting names, or says a token that only such callers
have. Both are off by default.
"""

import hmac
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from starlette.requests import Request

from core.errors import ConfigError
from playback.front.readers import Address, Network, Readers, within
from playback.front.registry.shared_throttle import SharedBuckets
from playback.front.registry.throttle import Rate, Rates, Throttle

_LEAST_TOKEN = 32  # characters
FORM_RATES = Rates(Rate(0.5, 15), Rate(2, 60), Rate(30, 300))


@dataclass(frozen=True, slots=True)
class Access:
    """The rules.

    Attributes:
        readers: how a reader's address is found.
        internal: networks whose callers are not throttled.
        token: what internal callers from elsewhere say as ``Authorization: Bearer …``; empty: none can.
        rates: for programs.
        form_rates: for the form, which people fill in (W20).
        shared: counts for several fronts together; None: each process counts for itself.
    """

    readers: Readers = field(default_factory=Readers)
    internal: tuple[Network, ...] = ()
    token: str = field(default="", repr=False)
    rates: Rates = field(default_factory=Rates)
    form_rates: Rates = FORM_RATES
    shared: SharedBuckets | None = None


class Door:
    """Holds the rules against requests. From any thread."""

    def __init__(self, access: Access, name: str = "links") -> None:
        """Prepare the counts; those of doors with different names are separate."""
        self._access = access
        self._programs = Throttle(access.rates, shared=access.shared, name=name)
        self._form = Throttle(access.form_rates, shared=access.shared, name=f"{name} form")

    def address_of(self, request: Request) -> Address:
        """The reader's address."""
        return self._access.readers.address_of(request)

    def is_internal(self, request: Request) -> bool:
        """Whether the caller need not wait."""
        is_known = not self._access.readers.is_relayed(request)
        if is_known and within(self.address_of(request), self._access.internal):
            return True
        said = request.headers.get("authorization", "")
        wanted = f"Bearer {self._access.token}"
        same = hmac.compare_digest(said.encode("utf-8", "replace"), wanted.encode())
        return bool(self._access.token) and same

    def wait_s(self, request: Request, now: float) -> int:
        """0 when a program's question may be answered; else whole seconds to wait."""
        if self.is_internal(request):
            return 0
        return self._programs.wait_s(self.address_of(request), now)

    def charge(self, request: Request, now: float, cost: float) -> None:
        """Count a program's question that is being answered as so many more."""
        if cost > 0 and not self.is_internal(request):
            self._programs.charge(self.address_of(request), now, cost)

    def form_wait_s(self, request: Request, now: float) -> int:
        """The same for the form."""
        if self.is_internal(request):
            return 0
        return self._form.wait_s(self.address_of(request), now)


def read_token(path: Path) -> str:
    """The token that a file holds.

    Raises:
        ConfigError: it cannot be read, others can read it, or it is too short to be a secret.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if stat.S_ISREG(mode) and mode & 0o077:
                raise ConfigError(f"{path} can be read by others: `chmod 600 {path}`.")
            token = file.read().decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The token in {path} cannot be read: {error}.") from error
    if len(token) < _LEAST_TOKEN:
        raise ConfigError(
            f"The token in {path} has fewer than {_LEAST_TOKEN} characters;"
            " `openssl rand -hex 32` prints a good one."
        )
    return token
