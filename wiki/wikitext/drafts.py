"""Citations while they are read: what was found of each, and how that becomes a `Citation`."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from html.entities import html5
from typing import Final

from core.errors import BadUrlError, InputError
from core.urls import fetch_key
from links.archives.recognising import ArchiveUrl, is_same_page, make, recognise
from links.archives.services import SERVICES
from wiki.wikitext.citations import Citation, Parameter, Role, Span, Tag, Way
from wiki.wikitext.dates import FIRST_ARCHIVED, read_date
from wiki.wikitext.external import is_url
from wiki.wikitext.rules import ArchiveTemplate, Rules, fold

LONGEST_URL: Final = 65_536  # as in core.urls: more is no URL that anybody can fetch
_ENTITY = re.compile(
    r"&(#x[0-9a-f]{1,6}|#[0-9]{1,7}|[a-z][a-z0-9]{1,31});", re.IGNORECASE | re.ASCII
)
_HOST = re.compile(r"(?:https?:)?//([a-z0-9.-]+)(?=[/:?#]|\Z)", re.IGNORECASE | re.ASCII)
_STAMP = re.compile(r"\d{4,14}", re.ASCII)
_SHORT = re.compile(r"[A-Za-z0-9]{4,6}", re.ASCII)  # archive.today's own names of copies


@dataclass(slots=True)
class Draft:
    """A link that was found. The attributes are those of `Citation`, where they have its names.

    Attributes:
        written: the URL as it stands at `url_span`, comments taken out.
        scheme: what a template puts in front of it.
        archived: an archive's address that stands with it.
        dated: what the text says of when that was taken.
        accessed: words that name the access date, when no parameter does.
        tags: templates beside it.
        is_alone: nothing else stands in its reference.
    """

    way: Way
    span: Span
    url_span: Span
    written: str
    scheme: str = ""
    template: str = ""
    within: str = ""
    parameters: Mapping[Role, Parameter] = field(default_factory=dict)
    title: str = ""
    reference: Span | None = None
    archived: str = ""
    dated: str = ""
    accessed: str = ""
    dead_tag: Tag | None = None
    dead_says: str = ""
    archive_tag: Tag | None = None
    is_paywalled: bool = False
    is_malformed: bool = False
    is_held: bool = False
    is_alone: bool = False


@dataclass(frozen=True)
class Reader:
    """What is the same for all citations of a page."""

    rules: Rules
    today: date
    own: tuple[str, ...] = ()

    def finished(self, draft: Draft) -> Citation:
        """The citation."""
        address = address_of(draft)
        url, archived = address, draft.archived
        found = None if draft.is_malformed else self.archive(address)
        if found is not None:
            url, archived = found.original or address, draft.archived or address
        parameters = draft.parameters
        status = self._status(parameters, draft)
        return Citation(
            url=url,
            way=draft.way,
            span=draft.span,
            url_span=draft.url_span,
            template=draft.template,
            parameters=parameters,
            title=draft.title,
            reference=draft.reference,
            access_date=self._access_date(draft),
            archive_url=archived,
            archive_date=self._archive_date(draft, archived, found),
            status=status,
            dead_tag=draft.dead_tag,
            archive_tag=draft.archive_tag,
            is_paywalled=draft.is_paywalled or self._is_paywalled(parameters),
            is_malformed=draft.is_malformed or not is_fetched(url),
            is_convertible=draft.is_alone and not draft.is_malformed,
            is_held=draft.is_held,
            address=address,
            within=draft.within,
            is_treated_dead=bool(
                draft.dead_tag
                or status in ("dead", "unfit", "usurped")
                or (
                    archived
                    and not status
                    and draft.way is Way.CITATION
                    and self.rules.archive_implies_dead
                )
            ),
        )

    def archive(self, address: str) -> ArchiveUrl | None:
        """The known archive's address that it is; None when it is none."""
        if not self.own and not may_be_archive(address):
            return None
        found = recognise(address, own=self.own)
        return found if found is not None and found.is_known else None

    def copy_of(
        self, template: ArchiveTemplate, given: Mapping[str, Parameter]
    ) -> "tuple[str, str, Parameter] | None":
        """The address, the original (empty: unknown) and where it stands, of an archive template.

        The address is empty when the template names an original, and no copy that is known.
        """
        for name in template.address:
            value = given.get(name)
            if value is not None and is_url(value.value):
                address = decoded(value.value)
                found = self.archive(address)
                if found is not None:
                    return address, found.original, value
                if name not in template.original:
                    return address, "", value
        named = None
        for name in template.original:
            value = given.get(name)
            if value is None or not value.value:
                continue
            original = decoded(value.value)
            original = original if "//" in original else f"http://{original}"
            for parameter, service in template.stamps.items():
                stamp = given.get(parameter)
                if stamp is not None and is_url(stamp.value):
                    return decoded(stamp.value), original, value
                made = self._made(service, original, stamp)
                if made:
                    return made, original, value
            named = named or ("", original, value)
        return named if named is not None and is_fetched(named[1]) else None

    def _made(self, service: str, original: str, stamp: Parameter | None) -> str:
        if stamp is None:
            return ""
        digits = stamp.value.replace("-", "")
        if not _STAMP.fullmatch(digits):
            day = read_date(stamp.value, today=self.today, first=FIRST_ARCHIVED)
            digits = f"{day:%Y%m%d}" if day is not None else ""
            if not digits and service == "archive-today" and _SHORT.fullmatch(stamp.value):
                return f"https://{SERVICES[service].hosts[0]}/{stamp.value}"
        try:
            return make(service, original, digits) if digits else ""
        except InputError:
            return ""

    def _status(self, parameters: Mapping[Role, Parameter], draft: Draft) -> str:
        said = parameters.get(Role.STATUS)
        if said is not None and said.value:
            values = self.rules.status.get(fold(said.name), {})
            found = values.get(said.value.casefold(), values.get("*", ""))
            if found:
                return found
        return draft.dead_says if draft.dead_says == "usurped" else ""

    def _is_paywalled(self, parameters: Mapping[Role, Parameter]) -> bool:
        said = parameters.get(Role.ACCESS)
        if said is None or not said.value:
            return False
        return said.value.casefold() in self.rules.access.get(fold(said.name), ())

    def _access_date(self, draft: Draft) -> date | None:
        said = draft.parameters.get(Role.ACCESS_DATE)
        text = said.value if said is not None and said.value else draft.accessed
        return read_date(text, today=self.today)

    def _archive_date(self, draft: Draft, archived: str, found: ArchiveUrl | None) -> date | None:
        said = draft.parameters.get(Role.ARCHIVE_DATE)
        text = said.value if said is not None and said.value else draft.dated
        day = read_date(text, today=self.today, first=FIRST_ARCHIVED)
        if day is not None or not archived:
            return day
        if found is None or archived != draft.written:
            found = self.archive(decoded(archived))
        moment = found.moment if found is not None else None
        return moment.date() if moment is not None else None


def address_of(draft: Draft) -> str:
    """What the link leads to: entities replaced, with the scheme that it goes without in the text."""
    address = draft.scheme + decoded(draft.written)[:LONGEST_URL]
    return "https:" + address if address.startswith("//") else address


def is_of(archived_original: str, url: str) -> bool:
    """Whether an archive template's copy is one of the link beside it; when nobody can say, it is."""
    return not archived_original or is_same_page(archived_original, url)


def decoded(text: str) -> str:
    """The text with HTML's character references, of which only those with a ``;`` count, replaced.

    >>> decoded("http://a.test/?x=1&amp;copy=2")
    'http://a.test/?x=1&copy=2'
    """
    return _ENTITY.sub(_character, text) if "&" in text else text


def is_fetched(url: str) -> bool:
    """Whether somebody can fetch that; a scheme of the web or not."""
    if url[:6].lower() in ("ftp://", "ftps:/"):
        return len(url) > 6
    try:
        fetch_key(url)
    except BadUrlError:
        return False
    return True


def may_be_archive(address: str) -> bool:
    """Whether it is worth to ask `recognise`: false only where its answer is none, or no known archive."""
    host = _HOST.match(address)
    if host is None:
        return True
    return ".".join(host[1].lower().rstrip(".").rsplit(".", 2)[-2:]) in _ends_of_hosts()


@cache
def _ends_of_hosts() -> frozenset[str]:
    """The last two labels of all archives' hosts."""
    hosts: Iterable[str] = (
        host
        for service in SERVICES.values()
        for host in (*service.hosts, *(each for form in service.forms for each in form.hosts))
    )
    return frozenset(".".join(host.partition(":")[0].rsplit(".", 2)[-2:]) for host in hosts)


def _character(found: re.Match[str]) -> str:
    name = found[1]
    if name[0] != "#":
        return html5.get(name + ";", found[0])
    number = int(name[2:], 16) if name[1] in "xX" else int(name[1:])  # noqa: FURB166 - "#x"
    if number < 0x20 or 0xD800 <= number <= 0xDFFF or number > 0x10FFFF:
        return found[0]
    return chr(number)
