"""The addresses of the pages on which readers speak, for other pages that lead there."""

from collections.abc import Callable
from urllib.parse import urlencode

from playback.front.languages import here
from playback.front.registry.desk import LinkRegistry

SAY_PATH = "/links/say"


def say_path(url: str, act: str = "") -> str:
    """The address of what is said about a URL, or of an act, in the reader's language."""
    path = f"{SAY_PATH}/{act}" if act else SAY_PATH
    return f"{here(path)}?{urlencode({'url': url})}"


def say_addresses(registry: LinkRegistry | None) -> Callable[[str], str]:
    """Gives the address for a URL; empty where readers have no voice."""
    has_voice = registry is not None and registry.voice is not None
    return say_path if has_voice else lambda _url: ""
