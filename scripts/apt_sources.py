"""The distribution's own entries among a machine's apt sources, as one-line entries.

``python3 -m scripts.apt_sources CODENAME FOLDER`` reads ``sources.list`` and ``sources.list.d``
below FOLDER, in the one-line and the deb822 format (sources.list(5)), and prints the entries whose
suite is CODENAME, its updates or its security suite and whose components hold ``main``. Whatever
else the machine is subscribed to stays behind. It needs nothing but Python's own library, since it
runs before there is an environment.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

_ONE_LINE = re.compile(r"deb\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)\s+(.+)")
_FIELD = re.compile(r"([A-Za-z][\w-]*):[ \t]*(.*)")


@dataclass(frozen=True, slots=True)
class AptSource:
    """One archive that apt reads.

    Attributes:
        uri: where it lies.
        suite: e.g. ``bookworm-security``.
        components: e.g. ``("main", "contrib")``.
        signed_by: the keyring file that its signature is held to; empty for apt's own keyrings.
    """

    uri: str
    suite: str
    components: tuple[str, ...]
    signed_by: str = ""

    def __str__(self) -> str:
        """Return the entry in the one-line format."""
        option = f"[signed-by={self.signed_by}] " if self.signed_by else ""
        return f"deb {option}{self.uri} {self.suite} {' '.join(self.components)}"


def one_line_sources(text: str) -> Iterator[AptSource]:
    """Yield the binary sources in a ``.list`` file; comments and ``deb-src`` are skipped."""
    for line in text.splitlines():
        match = _ONE_LINE.fullmatch(line.partition("#")[0].strip())
        if match is None:
            continue
        options, uri, suite, components = match.groups()
        signed = re.search(r"signed-by=(/\S+)", options or "")
        yield AptSource(uri, suite, tuple(components.split()), signed.group(1) if signed else "")


def deb822_sources(text: str) -> Iterator[AptSource]:
    """Yield the binary sources in a ``.sources`` file, one for each URI and suite of a stanza."""
    plain = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for stanza in re.split(r"\n[ \t]*\n", plain):
        fields = _fields(stanza)
        if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes") == "no":
            continue
        signed = fields.get("signed-by", "")
        for uri in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                components = tuple(fields.get("components", "").split())
                # An embedded key is no file; apt's own keyrings must do then.
                yield AptSource(uri, suite, components, signed if signed.startswith("/") else "")


def own_sources(sources: Iterator[AptSource], codename: str) -> list[AptSource]:
    """Return the distribution's own: its release, updates and security suites, each once, in order."""
    suites = {codename, f"{codename}-updates", f"{codename}-security"}
    unique_sources = {
        replace(source, uri=source.uri.rstrip("/")): None
        for source in sources
        if source.suite in suites and "main" in source.components
    }
    return list(unique_sources)


def read_sources(folder: Path) -> Iterator[AptSource]:
    """Yield every binary source that apt would read below `folder`, usually ``/etc/apt``."""
    parts = folder / "sources.list.d"
    for path in (folder / "sources.list", *sorted(parts.glob("*.list"))):
        if path.is_file():
            yield from one_line_sources(path.read_text())
    for path in sorted(parts.glob("*.sources")):
        yield from deb822_sources(path.read_text())


def _fields(stanza: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    name = ""
    for line in stanza.splitlines():
        match = _FIELD.fullmatch(line)
        if match is not None:
            name = match.group(1).lower()
            fields[name] = match.group(2).strip()
        elif name and line.startswith((" ", "\t")):
            fields[name] = f"{fields[name]} {line.strip()}".strip()
    return fields


def main(arguments: list[str]) -> int:
    """Print the entries; 1 when there are none."""
    codename, folder = arguments
    sources = own_sources(read_sources(Path(folder)), codename)
    for source in sources:
        print(source)
    return 0 if sources else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
