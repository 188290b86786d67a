"""What a finding tells of oddities: of its host, and of its URL (W42, W47, W56).

Pure: `links.checking.quirk_rows` keeps them. A host's quirk is seen, seen to be gone, or neither; a row
goes as soon as it is seen to be gone.
"""

from links.findings import Finding, Hop, How, Verdict
from links.locator import Locator
from links.quirks import HostQuirk, UrlQuirk
from links.status import Code

_PERMANENT = (301, 308)
_NAMELESS = frozenset({Code.DNS_REFUSED, Code.DNS_UNKNOWN, Code.DNS_EMPTY, Code.DNS_FAULT})
_VALUE_LIMIT = 16_384  # characters of a moved URL that are kept: nobody asks for a longer one
_BROWSER_SAW = frozenset({Verdict.OK, Verdict.DEVIATED})


def host_traits(
    asked: Locator, finding: Finding, *, is_known_failing: bool = False
) -> dict[HostQuirk, bool]:
    """Quirks of the host that were seen, or seen to be gone; about all others nothing was seen.

    Args:
        asked: the URL.
        finding: what was found.
        is_known_failing: looks without a browser have been failing for it.
    """
    if finding.how is How.INFERRED or finding.how is How.PERSON:
        return {}
    if finding.how is How.BROWSER:
        saw_page = is_known_failing and finding.verdict in _BROWSER_SAW
        return {HostQuirk.UNVERIFIABLE: True} if saw_page else {}
    found: dict[HostQuirk, bool] = {}
    if finding.head_fails:
        found[HostQuirk.GET_NEEDED] = True
    if finding.verdict is Verdict.OK or finding.http is not None:
        found[HostQuirk.DNS_ERROR] = False
        found[HostQuirk.SERVER_ERROR] = False
    elif finding.whole_host and finding.verdict in (Verdict.GONE, Verdict.FAILING):
        is_name = finding.code in _NAMELESS
        found[HostQuirk.DNS_ERROR if is_name else HostQuirk.SERVER_ERROR] = True
    if asked.port == 0 and finding.verdict is Verdict.OK:
        found |= _scheme_traits(asked, finding)
    return found


def url_traits(asked: Locator, finding: Finding) -> dict[UrlQuirk, str]:
    """Quirks of the URL that were seen, each with its text; an empty text: seen to be gone."""
    if finding.how in (How.INFERRED, How.PERSON):
        return {}
    if finding.verdict is Verdict.UNDECIDED and finding.retry_after_s is not None:
        return {UrlQuirk.RATE_LIMIT: str(round(finding.retry_after_s))}
    if finding.verdict is not Verdict.OK:
        return {}
    moved = moved_to(asked, finding.hops)
    return {UrlQuirk.MOVED: moved, UrlQuirk.CERTIFICATE: finding.tls_fault[:200]}


def moved_to(asked: Locator, hops: tuple[Hop, ...]) -> str:
    """Where the URL has moved for good: as far as redirects were permanent from the beginning on.

    Empty when it has not. That a host wants https is the host's quirk, not a move of each URL.

    >>> from links.locator import locate
    >>> hops = (Hop(301, "https://a.example/x"), Hop(301, "https://a.example/y"), Hop(302, "https://b/"))
    >>> moved_to(locate("http://a.example/x"), hops), moved_to(locate("http://a.example/x"), hops[:1])
    ('https://a.example/y', '')
    """
    target = ""
    for hop in hops:
        if hop.status not in _PERMANENT:
            break
        target = hop.url
    if not target or len(target) > _VALUE_LIMIT or target.partition("#")[0] == asked.url:
        return ""
    return "" if _is_upgrade(asked, target) else target


def _is_upgrade(asked: Locator, target: str) -> bool:
    scheme, _, rest = target.partition("#")[0].partition("://")
    return asked.scheme == "http" and scheme == "https" and rest == asked.url.partition("://")[2]


def _scheme_traits(asked: Locator, finding: Finding) -> dict[HostQuirk, bool]:
    first = finding.hops[0].url if finding.hops else ""
    if finding.code == Code.OTHER_SCHEME:  # the one that was asked for does not answer
        first = finding.final_url
    if asked.scheme == "https":
        left_https = first.startswith(f"http://{asked.host}/")
        return {HostQuirk.HTTP_NEEDED: bool(finding.tls_fault) or left_https}
    return {HostQuirk.HTTPS_NEEDED: first.startswith(f"https://{asked.host}/")}
