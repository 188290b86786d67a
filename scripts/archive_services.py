"""The table of web archives in docs/how-to/archives.md, from `links.archives.archive_urls`."""

from pathlib import Path

from links.archives.adapters import KNOWN_ADAPTERS, KNOWN_TIMEMAPS
from links.archives.archive_urls import SERVICES, ArchiveService

PAGE = Path(__file__).resolve().parent.parent / "docs" / "how-to" / "archives.md"
BEGIN = "<!-- made by python -m scripts.reference -->"
END = "<!-- end -->"


def page() -> str:
    """Return the page with an up-to-date table."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return "\n".join([before + BEGIN, *_table(), END + after])


def _table() -> list[str]:
    return [
        "| name | archive | hosts | stored address | name in `archives` |",
        "|---|---|---|---|---|",
        *(_row(service) for service in SERVICES.values()),
    ]


def _row(service: ArchiveService) -> str:
    hosts = dict.fromkeys((*service.hosts, *(host for form in service.forms for host in form.hosts)))
    shown = ", ".join(list(hosts)[:4]) + (f" and {len(hosts) - 4} more" if len(hosts) > 4 else "")
    address = f"`{service.template}`" if service.template else "unchanged"
    if service.fault:
        address = f"none: the service is {service.fault}"
    names = [name for name in (*KNOWN_ADAPTERS, *KNOWN_TIMEMAPS) if name.removesuffix("-cdx") == service.name]
    adapters = ", ".join(f"`{name}`" for name in names) or "-"
    return f"| `{service.name}` | {service.title} | {shown} | {address} | {adapters} |"
