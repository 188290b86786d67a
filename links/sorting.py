"""What becomes of a URL that stands on a page: watched, or why not (W50).

In this order: a scheme that no server answers is passed over, and FTP is noted and not asked for (W44); what breaks the rules of URLs is invalid
and never asked for (W48); example domains are passed over (W45); the farm's own hosts are not kept;
what a spam list names is noted and not asked for (W52). All else is watched; what the wiki's exclusion
list names is left out of link search, and of nothing else (X05).

Addresses and names that are no part of the public web can never be asked for, so they are invalid too,
however they are written. What is odd but harmless is watched, with warnings.
"""

import ipaddress
import re
import unicodedata
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from urllib.parse import unquote_to_bytes

from core.addresses import is_public
from core.errors import BadUrlError
from core.urls import UrlFault, fetch_key, identity_key
from links.exclusion import Exclusions
from links.farms import OwnHosts
from links.locator import Locator, split
from links.spam import Hit, SpamLists


class Sort(StrEnum):
    """What a URL on a page is to the registry."""

    WATCHED = "watched"
    PASSED_OVER = "passed-over"  # mailto:, tel:, …
    NOT_CHECKED = "not-checked"  # ftp: a server answers it, and nobody here asks
    INVALID = "invalid"
    EXAMPLE = "example"
    INTERNAL = "internal"
    SPAM = "spam"
    EXCLUDED = "excluded"  # from link search alone
    MISSING = "missing"  # it leads to the farm itself, to a page that is not there


class Warned(StrEnum):
    """What is odd about a URL that can be asked for nevertheless (W50)."""

    BIDI = "encoded-bidi"  # an escaped character that turns the direction of text
    HIDDEN = "encoded-invisible"  # an escaped control or zero-width character
    MIXED = "mixed-scripts"  # a label in letters of several scripts, one of them Latin's look-alike
    LONG = "long"  # servers commonly accept 8 KB
    CREDENTIALS = "credentials"  # a user name or password stood in it


class Unreachable(StrEnum):
    """Why nobody on the public web answers, beside the faults of `core.urls.UrlFault`."""

    ADDRESS = "private-address"  # this machine, a local network, a reserved block
    NAME = "private-name"  # resolved by local networks and not by the web
    ONION = "onion"  # Tor's own names (RFC 7686)


@dataclass(frozen=True, slots=True)
class Sorted:
    """A URL of a page, sorted.

    Attributes:
        text: as it stands on the page.
        sort: what it is.
        identity: its identity key; empty when it has none.
        note: why, a constant first: a fault, a list's line, an entry; empty when nothing is to be said.
        hit: the line of a spam list that names it, when that is why.
        entry: the entry of the exclusion list that names it, when that is why.
        warnings: what is odd about it.
        spelling: what is asked for, as it stands on the page (A17); empty: the identity key.
    """

    text: str
    sort: Sort
    identity: str = ""
    note: str = ""
    hit: Hit | None = None
    entry: str = ""
    warnings: tuple[Warned, ...] = ()
    spelling: str = ""

    @property
    def is_watched(self) -> bool:
        """Whether it is kept with its page, archived and checked; an exclusion list changes nothing of that."""
        return self.sort in WATCHED


@dataclass(frozen=True)
class WikiRules:
    """What a wiki and its farm say of URLs.

    Attributes:
        own: the hosts of the farm and of the wiki itself (X02).
        spam: the farm's spam lists and the wiki's own.
        exclusions: the wiki's exclusion list.
        is_private: the wiki's readers sit in a network of their own, so that addresses and names
            which are not public, and hosts without a dot, are watched, too. `[egress] allow` must let them be asked for.
    """

    own: OwnHosts = field(default_factory=OwnHosts)
    spam: SpamLists = field(default_factory=SpamLists)
    exclusions: Exclusions = field(default_factory=Exclusions)
    is_private: bool = False


NO_RULES = WikiRules()
MISSING_TARGET = "missing-target"  # the note of what is `Sort.MISSING`
FTP = "ftp"  # the note of what is `Sort.NOT_CHECKED`
_FTP = re.compile(r"\s*(?:ftps?|sftp)://[^/\s]", re.IGNORECASE)
WATCHED = frozenset({Sort.WATCHED, Sort.EXCLUDED})
LONG_CHARS = 8_192
# RFC 2606 2 and 3, RFC 6761 6: for tests, texts and this machine.
_EXAMPLE_TOPS = frozenset({"example", "invalid", "localhost", "test"})
_EXAMPLE_DOMAINS = re.compile(r"(?:^|\.)example\.(?:com|net|org)$")
# RFC 6762 (local), RFC 8375 (home.arpa), ICANN's reservation of 2024 (internal), RFC 9476 (alt), and
# what routers hand out, which ICANN delegates to nobody.
_PRIVATE_NAMES = re.compile(r"(?:^|\.)(?:local|internal|alt|home\.arpa|corp|home|lan|localdomain)$")

_BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u180e\u200b-\u200d\u2028\u2029\u2060-\u2064\ufeff]"
)
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
_CREDENTIALS = re.compile(r"[a-z+.-]*:?//[^/?#\\]*@", re.IGNORECASE)
# What Unicode names otherwise than by its script, in words that are written every day.
_ALSO = {"KATAKANA-HIRAGANA": "KATAKANA", "IDEOGRAPHIC": "CJK", "HALFWIDTH": "KATAKANA"}
# Scripts that are written together in one word (Unicode TR39, "highly restrictive", without Latin).
_WRITTEN_TOGETHER = (
    frozenset({"CJK", "HIRAGANA", "KATAKANA", "LATIN"}),
    frozenset({"CJK", "BOPOMOFO", "LATIN"}),
    frozenset({"CJK", "HANGUL", "LATIN"}),
)


def sort_link(text: str, rules: WikiRules = NO_RULES) -> Sorted:
    """What the URL is to a wiki with these rules; without any, as far as its own text tells."""
    try:
        asked = fetch_key(text, allow_single_label=True)
        identity = identity_key(asked)
    except BadUrlError as error:
        passed = error.reason == UrlFault.SCHEME
        if passed and _FTP.match(text):
            return Sorted(text, Sort.NOT_CHECKED, note=FTP)
        return Sorted(text, Sort.PASSED_OVER if passed else Sort.INVALID, note=error.reason)
    url = split(identity)
    sort, why = _by_host(url.host, rules)
    if sort is Sort.INVALID:  # W51: what is invalid has no normal form
        return Sorted(text, sort, note=why, warnings=warnings_of(text, url))
    if sort is Sort.WATCHED:
        spelling = asked if asked != identity else ""
        found = Sorted(text, sort, identity, warnings=warnings_of(text, url), spelling=spelling)
        return _by_lists(found, url, rules)
    return Sorted(text, sort, identity, why, warnings=warnings_of(text, url))


def _by_host(host: str, rules: WikiRules) -> tuple[Sort, str]:
    if is_example(host):
        return Sort.EXAMPLE, ""
    # A farm that is no part of the web has hosts that are not public, and they are its own first.
    if rules.own.has(host):
        return Sort.INTERNAL, ""
    closed = "" if rules.is_private else _closed(host)
    return (Sort.INVALID, closed) if closed else (Sort.WATCHED, "")


def _by_lists(found: Sorted, url: Locator, rules: WikiRules) -> Sorted:
    hit = rules.spam.hit_of(found.text, found.identity)
    if hit is not None:
        return replace(found, sort=Sort.SPAM, note=str(hit), hit=hit)
    entry = rules.exclusions.entry_for(url)
    if entry is not None:
        return replace(found, sort=Sort.EXCLUDED, note=f"entry {entry.text}", entry=entry.text)
    return found


def is_example(host: str) -> bool:
    """Whether the canonical host is kept free for examples and tests (RFC 2606, RFC 6761; W45).

    >>> is_example("www.example.com"), is_example("a.test"), is_example("example.co.uk")
    (True, True, False)
    """
    return host.rpartition(".")[2] in _EXAMPLE_TOPS or _EXAMPLE_DOMAINS.search(host) is not None


@lru_cache(maxsize=4_096)  # a page's links are on few hosts
def unreachable(host: str) -> Unreachable | None:
    """Why no public server can be at the canonical host; None when one may be.

    >>> unreachable("127.0.0.1"), unreachable("[::ffff:7f00:1]"), unreachable("example.org")
    (<Unreachable.ADDRESS: 'private-address'>, <Unreachable.ADDRESS: 'private-address'>, None)
    """
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        if host.endswith(".onion"):
            return Unreachable.ONION
        return Unreachable.NAME if _PRIVATE_NAMES.search(host) else None
    return None if is_public(address) else Unreachable.ADDRESS


def _closed(host: str) -> str:
    """Why no public server can be at the host, a name without dots among the reasons."""
    if "." not in host and not host.startswith("["):
        return UrlFault.SINGLE_LABEL
    return unreachable(host) or ""


def warnings_of(text: str, url: Locator) -> tuple[Warned, ...]:
    """What is odd about a URL: as it was written, and as it is asked for."""
    found = []
    if "%" in url.path and _ESCAPE.search(url.path):
        said = unquote_to_bytes(url.path).decode("utf-8", "ignore")
        found += [Warned.BIDI] if _BIDI.search(said) else []
        found += [Warned.HIDDEN] if _HIDDEN.search(said) else []
    if "xn--" in url.host and any(map(_is_mixed, url.host.split("."))):
        found.append(Warned.MIXED)
    if len(url.url) > LONG_CHARS:
        found.append(Warned.LONG)
    if "@" in text and _CREDENTIALS.match(text.strip()):
        found.append(Warned.CREDENTIALS)
    return tuple(found)


def _is_mixed(label: str) -> bool:
    """Whether letters of several scripts that are not written together make up the label."""
    if not label.startswith("xn--"):
        return False
    try:
        spoken = label.encode("ascii")[4:].decode("punycode")
    except UnicodeError:
        return True  # no reader could tell what it is
    named = {unicodedata.name(each, "?").split()[0] for each in spoken if each.isalpha()}
    scripts = {_ALSO.get(name, name) for name in named - {"MODIFIER"}}
    return len(scripts) > 1 and not any(scripts <= together for together in _WRITTEN_TOGETHER)
