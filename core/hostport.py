"""``host:port`` as one text, for addresses of our own processes."""

import re

from core.errors import ConfigError

_FORM = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+)):(\d{1,5})")


def split_host_port(text: str) -> tuple[str, int]:
    """Host and port; an IPv6 address stands in brackets, port 0 means any free one.

    Raises:
        ConfigError: it is no such text.

    >>> split_host_port("proxy-1:8000"), split_host_port("[::1]:0")
    (('proxy-1', 8000), ('::1', 0))
    """
    match = _FORM.fullmatch(text)
    if match is None or int(match[3]) > 65_535:
        raise ConfigError(f"{text!r} is no host and port: write 192.0.2.7:8000 or [::1]:8000.")
    return match[1] or match[2], int(match[3])


def join_host_port(host: str, port: int) -> str:
    """The inverse of `split_host_port`.

    >>> join_host_port("::1", 8000)
    '[::1]:8000'
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
