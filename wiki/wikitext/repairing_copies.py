"""What an archive's address that stands on a page is worth, and how a copy's own is written (B07, B13)."""

from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Final

from links.archives.recognising import ArchiveUrl, belongs, recognise
from links.archives.services import WEBOID
from links.archives.stamps import moment_of
from wiki.wikitext.escaping import is_url_safe, url_value
from wiki.wikitext.repairing_types import Archived, CannotRepairError, Reason, Remedy

LONGEST_URL: Final = 8_192


class Worth(StrEnum):
    """What an address in an archive is worth to the reader."""

    NONE = "none"  # there is none
    GOOD = "good"  # a copy of the link, as far as its text tells
    BAD = "bad"  # no archive's, of another page, or of an archive that is gone


@dataclass(frozen=True, slots=True)
class Standing:
    """An address that stands on the page.

    Attributes:
        worth: what it is worth.
        address: as it stands there.
        secure: the same with https, where its archive has that; the same when it has it.
        found: what it means; None when it is no archive's.
    """

    worth: Worth
    address: str
    secure: str = ""
    found: ArchiveUrl | None = None


def standing(address: str, url: str, remedy: Remedy, own: tuple[str, ...]) -> Standing:
    """What the address is worth as a copy of the URL.

    What merely reads like an archive's address is somebody's archive, and stays, unless the remedy says
    that it shows nothing: bots that replace what they do not know lose good copies.
    """
    if not address:
        return Standing(Worth.NONE, "")
    plain = address.replace("&amp;", "&")  # as the wiki reads it
    found = recognise(plain, own=own) if len(address) <= LONGEST_URL else None
    is_bad = (
        found is None
        or not found.is_usable
        or belongs(found, url) is False
        or not {address, plain}.isdisjoint(remedy.bad_archives)
    )
    return Standing(Worth.BAD if is_bad else Worth.GOOD, address, _secure(address, found), found)


def usable(copy: Archived | None, url: str, own: tuple[str, ...]) -> Archived | None:
    """The copy, fit to be written; None when there is none.

    Raises:
        CannotRepairError: it is one of another page, of no archive, or cannot be written.
    """
    if copy is None:
        return None
    address = url_value(copy.address)
    found = recognise(copy.address, own=own) if len(copy.address) <= LONGEST_URL else None
    stamp = copy.timestamp or (found.timestamp if found is not None else "")
    if (
        found is None
        or not found.is_usable
        or belongs(found, url) is False
        or not is_url_safe(address)
        or not address.startswith(("https://", "http://"))
        or day_of_stamp(stamp) is None
    ):
        raise CannotRepairError(Reason.UNSAFE)
    return Archived(_secure(address, found), stamp, copy.service or found.service, copy.title)


def day_of_stamp(stamp: str) -> date | None:
    """The day of a timestamp of 4 to 14 digits; None when it says no day."""
    if not (stamp.isascii() and stamp.isdigit() and 8 <= len(stamp) <= 14) or stamp[4:8] == "0000":
        return None
    try:
        return moment_of(stamp.ljust(14, "0")).date()
    except ValueError:
        return None


def _secure(address: str, found: ArchiveUrl | None) -> str:
    """With https where the archive's own form has it (B15); nothing else is changed."""
    if found is None or not found.is_known or not found.address.startswith("https://"):
        return address
    if found.service == WEBOID:
        return address  # our own front is at the address that its operator gave, and perhaps nowhere else
    return f"https://{address[7:]}" if address[:7].lower() == "http://" else address
