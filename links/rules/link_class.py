"""Classification of the URLs on a page: watched, invalid, example, own host, spam.

Rules in order: schemes other than HTTP are ignored, except that FTP is recorded but not requested (W44); invalid URLs,
and those outside the public web, are recorded but never requested (W48); example domains are ignored (W45); the farm's
own hosts are not stored (W50); spam list matches are recorded but not requested (W52). All others are watched.
"""

import ipaddress
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from urllib.parse import unquote_to_bytes

import re2

from core.errors import BadUrlError
from core.hosts import canonical_host
from core.regexes import REGEX_LIMIT_BYTES, check_regex, re2_options
from core.urls import UrlFault, fetch_key, identity_key
from links.rules.exclusion_list import ExclusionList
from links.rules.spam_list import SpamLine, SpamLists
from links.url_parts import UrlParts, split_identity
from net.address_policy import is_public


class OwnHosts:
    """Hosts of a farm and of one of its wikis."""

    def __init__(self, expression: str = "", servers: Iterable[str] = ()) -> None:
        """Compile the farm's expression (InputError if RE2 rejects it), and the wiki's server names."""
        self._servers = frozenset(filter(None, map(server_name, servers)))
        options = re2_options(REGEX_LIMIT_BYTES)
        self._search = re2.compile(check_regex(expression), options).search if expression else None

    def has(self, host: str) -> bool:
        """Return True when the canonical host is one of them."""
        return host in self._servers or (self._search is not None and self._search(host) is not None)


def server_name(text: str) -> str:
    """Return the host of a server name or address, as in `$wgServer`; empty when it is not valid.

    >>> server_name("//Wiki.example.org"), server_name("https://[::1]:8080"), server_name("-x/")
    ('wiki.example.org', '[::1]', '')
    """
    rest = text.strip().partition("://")[2] or text.strip().removeprefix("//")
    authority = rest.partition("/")[0].rpartition("@")[2]
    if not authority.endswith("]"):
        host, colon, port = authority.rpartition(":")
        authority = host if colon and port.isdigit() else authority
    try:
        host = canonical_host(authority)
    except BadUrlError:
        return ""
    return host if host[:1].isalnum() or host.startswith("[") else ""


class LinkClass(StrEnum):
    """Class of a URL on a page."""

    WATCHED = "watched"
    PASSED_OVER = "passed-over"  # mailto:, tel:, …
    NOT_CHECKED = "not-checked"  # ftp: not checked by us
    INVALID = "invalid"
    EXAMPLE = "example"
    INTERNAL = "internal"
    SPAM = "spam"
    EXCLUDED = "excluded"  # from link search alone
    MISSING = "missing"  # it leads to the farm itself, to a page that is not there


class LinkWarning(StrEnum):
    """Oddity of a URL that can be requested nevertheless (W50)."""

    BIDI = "encoded-bidi"  # an escaped character that turns the direction of text
    HIDDEN = "encoded-invisible"  # an escaped control or zero-width character
    MIXED = "mixed-scripts"  # a label in letters of several scripts, one of them Latin's look-alike
    LONG = "long"  # servers commonly accept 8 KB
    CREDENTIALS = "credentials"  # a user name or password stood in it


class UnreachableReason(StrEnum):
    """Reason that a host is not on the public web, besides the faults of `core.urls.UrlFault`."""

    ADDRESS = "private-address"  # this machine, a local network, a reserved block
    NAME = "private-name"  # resolved by local networks and not by the web
    ONION = "onion"  # Tor's own names (RFC 7686)


@dataclass(frozen=True, slots=True)
class ClassifiedLink:
    """Classified URL of a page."""

    text: str  # as written on the page
    sort: LinkClass
    identity: str = ""  # its identity key; empty when it has none
    note: str = ""  # the reason, a constant first: a fault, a list's line, an entry; may be empty
    hit: SpamLine | None = None  # the matching line of a spam list
    entry: str = ""  # the matching entry of the exclusion list
    warnings: tuple[LinkWarning, ...] = ()  # its oddities
    spelling: str = ""  # the URL to request, as written on the page (A17); empty: the identity key

    @property
    def is_watched(self) -> bool:
        """Return True when it is stored with its page, archived and checked; exclusion lists do not matter."""
        return self.sort in WATCHED


@dataclass(frozen=True)
class WikiRules:
    """URL rules of a wiki and its farm."""

    own: OwnHosts = field(default_factory=OwnHosts)  # of the farm and of the wiki itself (X02)
    spam: SpamLists = field(default_factory=SpamLists)  # the farm's spam lists and the wiki's own
    exclusions: ExclusionList = field(default_factory=ExclusionList)  # the wiki's exclusion list
    # the wiki is on a private network, so that private addresses and names, and hosts without a
    # dot, are watched, too. `[egress] allow` must permit requests to them.
    is_private: bool = False


NO_RULES = WikiRules()
MISSING_TARGET = "missing-target"  # the note of links that are `LinkClass.MISSING`
FTP = "ftp"  # the note of links that are `LinkClass.NOT_CHECKED`
_FTP = re.compile(r"\s*(?:ftps?|sftp)://[^/\s]", re.IGNORECASE)
WATCHED = frozenset({LinkClass.WATCHED, LinkClass.EXCLUDED})
LONG_CHARS = 8_192
# RFC 2606 2 and 3, RFC 6761 6: for tests, texts and this machine.
_EXAMPLE_TOPS = frozenset({"example", "invalid", "localhost", "test"})
_EXAMPLE_DOMAINS = re.compile(r"(?:^|\.)example\.(?:com|net|org)$")
# RFC 6762 (local), RFC 8375 (home.arpa), ICANN's reservation of 2024 (internal), RFC 9476 (alt), and
# what routers assign, which ICANN has not delegated.
_PRIVATE_NAMES = re.compile(r"(?:^|\.)(?:local|internal|alt|home\.arpa|corp|home|lan|localdomain)$")

_BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\xad\u034f\u180e\u200b-\u200d\u2028\u2029\u2060-\u2064\ufeff]")
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
_CREDENTIALS = re.compile(r"[a-z+.-]*:?//[^/?#\\]*@", re.IGNORECASE)
# Characters in everyday words that Unicode does not name by their script.
_ALSO = {"KATAKANA-HIRAGANA": "KATAKANA", "IDEOGRAPHIC": "CJK", "HALFWIDTH": "KATAKANA"}
# Scripts that are written together in one word (Unicode TR39, "highly restrictive", without Latin).
_WRITTEN_TOGETHER = (
    frozenset({"CJK", "HIRAGANA", "KATAKANA", "LATIN"}),
    frozenset({"CJK", "BOPOMOFO", "LATIN"}),
    frozenset({"CJK", "HANGUL", "LATIN"}),
)


def classify_link(text: str, rules: WikiRules = NO_RULES) -> ClassifiedLink:
    """Classify a URL by a wiki's rules; without any, by its text alone."""
    try:
        fetched = fetch_key(text, allow_single_label=True)
        identity = identity_key(fetched)
    except BadUrlError as error:
        passed = error.reason == UrlFault.SCHEME
        if passed and _FTP.match(text):
            return ClassifiedLink(text, LinkClass.NOT_CHECKED, note=FTP)
        return ClassifiedLink(text, LinkClass.PASSED_OVER if passed else LinkClass.INVALID, note=error.reason)
    url = split_identity(identity)
    sort, why = LinkClass.WATCHED, ""
    if is_example(url.host):
        sort = LinkClass.EXAMPLE
    elif rules.own.has(url.host):  # before all else: a private farm's own hosts are not public
        sort = LinkClass.INTERNAL
    elif not rules.is_private:
        is_name = "." not in url.host and not url.host.startswith("[")
        why = UrlFault.SINGLE_LABEL if is_name else unreachable_reason(url.host) or ""
        sort = LinkClass.INVALID if why else sort
    if sort is LinkClass.INVALID:  # W51: invalid addresses have no normal form
        return ClassifiedLink(text, sort, note=why, warnings=warnings_of(text, url))
    if sort is LinkClass.WATCHED:
        spelling = fetched if fetched != identity else ""
        link = ClassifiedLink(text, sort, identity, warnings=warnings_of(text, url), spelling=spelling)
        hit = rules.spam.hit_of(link.text, link.identity)
        if hit is not None:
            return replace(link, sort=LinkClass.SPAM, note=str(hit), hit=hit)
        entry = rules.exclusions.entry_for(url)
        if entry is not None:
            return replace(link, sort=LinkClass.EXCLUDED, note=f"entry {entry.text}", entry=entry.text)
        return link
    return ClassifiedLink(text, sort, identity, why, warnings=warnings_of(text, url))


def is_example(host: str) -> bool:
    """Return True for hosts reserved for examples and tests (RFC 2606, RFC 6761; W45).

    >>> is_example("www.example.com"), is_example("a.test"), is_example("example.co.uk")
    (True, True, False)
    """
    return host.rpartition(".")[2] in _EXAMPLE_TOPS or _EXAMPLE_DOMAINS.search(host) is not None


@lru_cache(maxsize=4_096)  # a page's links are on few hosts
def unreachable_reason(host: str) -> UnreachableReason | None:
    """Return the reason that no public server can have the canonical host; None when one may.

    >>> unreachable_reason("127.0.0.1"), unreachable_reason("[::ffff:7f00:1]"), unreachable_reason("example.org")
    (<UnreachableReason.ADDRESS: 'private-address'>, <UnreachableReason.ADDRESS: 'private-address'>, None)
    """
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        if host.endswith(".onion"):
            return UnreachableReason.ONION
        return UnreachableReason.NAME if _PRIVATE_NAMES.search(host) else None
    return None if is_public(address) else UnreachableReason.ADDRESS


def warnings_of(text: str, url: UrlParts) -> tuple[LinkWarning, ...]:
    """Return the oddities of a URL, as written and as requested."""
    warnings = []
    if "%" in url.path and _ESCAPE.search(url.path):
        path_text = unquote_to_bytes(url.path).decode("utf-8", "ignore")
        warnings += [LinkWarning.BIDI] if _BIDI.search(path_text) else []
        warnings += [LinkWarning.HIDDEN] if _HIDDEN.search(path_text) else []
    if "xn--" in url.host and any(map(_is_mixed, url.host.split("."))):
        warnings.append(LinkWarning.MIXED)
    if len(url.url) > LONG_CHARS:
        warnings.append(LinkWarning.LONG)
    if "@" in text and _CREDENTIALS.match(text.strip()):
        warnings.append(LinkWarning.CREDENTIALS)
    return tuple(warnings)


def _is_mixed(label: str) -> bool:
    """Return True when the label mixes scripts that are not written together."""
    if not label.startswith("xn--"):
        return False
    try:
        spoken = label.encode("ascii")[4:].decode("punycode")
    except UnicodeError:
        return True  # a reader could not recognise it
    named = {unicodedata.name(each, "?").split()[0] for each in spoken if each.isalpha()}
    scripts = {_ALSO.get(name, name) for name in named - {"MODIFIER"}}
    return len(scripts) > 1 and not any(scripts <= together for together in _WRITTEN_TOGETHER)
