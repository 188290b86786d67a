"""The cookies of one chain of redirects: some sites set one and lead to the same URL again.

They live as long as the look at one URL, and go to the host that set them, or to the hosts of the
domain that it names when that is its own. Nothing else is kept.
"""

from links.domains import registrable

COOKIES = 30
BYTES = 4_096  # one cookie, as browsers allow


class Cookies:
    """What a chain's servers have set."""

    def __init__(self) -> None:
        self._set: dict[tuple[str, str], str] = {}  # (host, or "." and its domain; name) -> value

    def take(self, host: str, headers: list[str]) -> None:
        """Keep what the host's Set-Cookie headers say."""
        for header in headers[:COOKIES]:
            pair, _, attributes = header.partition(";")
            name, equals, value = pair.partition("=")
            name, value = name.strip(), value.strip()
            plain = header.isascii() and header.isprintable()
            if not equals or not name or not plain or len(pair) > BYTES:
                continue
            key = (self._reach(host, attributes), name)
            self._set.pop(key, None)
            if "max-age=0" not in attributes.lower().replace(" ", "") and len(self._set) < COOKIES:
                self._set[key] = value

    def header(self, host: str) -> str:
        """The Cookie header for the host; empty without cookies."""
        if not self._set:
            return ""
        places = (host, "." + registrable(host))
        return "; ".join(
            f"{name}={value}" for (place, name), value in self._set.items() if place in places
        )

    def _reach(self, host: str, attributes: str) -> str:
        for attribute in attributes.split(";"):
            name, _, value = attribute.partition("=")
            if name.strip().lower() == "domain":
                domain = value.strip().lstrip(".").lower()
                own = registrable(host)
                if domain and (domain == own or domain.endswith("." + own)):
                    return "." + own
        return host
