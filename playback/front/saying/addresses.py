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


def say_addresses(registry: LinkRegistry | None, origin: str) -> Callable[[str], str]:
    """Gives the address for a URL; empty where readers have no voice.

    It is whole, since lists of links also stand on pages of other sites; without an `origin` it is not.
    """
    has_voice = registry is not None and registry.voice is not None
    return (lambda url: origin + say_path(url)) if has_voice else lambda _url: ""
