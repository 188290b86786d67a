"""Parser of level targets: link, domain, wiki or everything."""

from core.errors import BadUrlError, InputError
from core.urls import fetch_key, host_of, identity_key
from playback.access.levels import LevelScope, LevelTarget, check_wiki

_NEVER_IN_DOMAINS = frozenset("/?#@\\")


def target_of(*, wiki: str = "", domain: str = "", link: str = "") -> LevelTarget:
    """Return the target for a link, a domain, a wiki or, without any of them, everything.

    Raises:
        InputError: one of them is invalid, or both a link and a domain are given.
    """
    wiki = check_wiki(wiki) if wiki else ""
    if link and domain:
        raise InputError("A rule is about a link or about a domain, not about both.")
    if link:
        return LevelTarget(
            LevelScope.LINK, wiki, identity_key(fetch_key(link, allow_single_label=True))
        )
    if domain:
        text = domain
        bare = text.strip().removeprefix("*.").rstrip(".")
        has_port = ":" in bare and not bare.startswith("[")
        try:
            host = host_of(fetch_key(f"http://{bare}/", allow_single_label=True)) if bare else ""
        except BadUrlError:
            host = ""
        if not host or has_port or _NEVER_IN_DOMAINS & set(bare):
            raise InputError(
                f"{text[:200]!r} is no domain: write example.org, without scheme, port or path."
            )
        return LevelTarget(LevelScope.DOMAIN, wiki, host)
    return LevelTarget(LevelScope.WIKI, wiki) if wiki else LevelTarget(LevelScope.DEFAULT)
