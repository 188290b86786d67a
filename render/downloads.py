"""Files that a page saves instead of showing them: one is pulled whole, all others are refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

# A main document that is saved instead of shown is pulled up to here, so that all of it passes
# through the proxy.
DOWNLOAD_LIMIT_BYTES = 512 * 1024 * 1024

Post = Callable[[str, dict[str, Any]], None]


class Download:
    """A file that the browser saves.

    Attributes:
        guid: the browser's name for it, and that of the file.
        state: ``inProgress``, ``completed`` or ``canceled``.
        received: bytes so far.
    """

    def __init__(self, guid: str) -> None:
        self.guid = guid
        self.state = "inProgress"
        self.received = 0


class Downloads:
    """The downloads of one tab.

    Attributes:
        main: what the main frame saves instead of showing, if it does.
    """

    def __init__(self, context_id: str, folder: Path, post: Post) -> None:
        self._context_id = context_id
        self._folder = folder
        self._post = post
        self._all: list[Download] = []
        self.main: Download | None = None

    def start(self) -> None:
        """Have the browser save into our folder, under names of its own, and tell us."""
        self._post(
            "Browser.setDownloadBehavior",
            {
                "behavior": "allowAndName",
                "browserContextId": self._context_id,
                "downloadPath": str(self._folder),
                "eventsEnabled": True,
            },
        )

    def begins(self, params: dict[str, Any], *, wanted: bool) -> None:
        """Note a download that begins; only the first that is wanted may go on (C-11)."""
        download = Download(params["guid"])
        self._all.append(download)
        if wanted and self.main is None:
            self.main = download
        else:
            self._cancel(download)

    def goes_on(self, params: dict[str, Any]) -> None:
        """Note how far the main download came; one over the limit is cut."""
        download = self.main
        if download is None or params["guid"] != download.guid:
            return
        download.state = params["state"]
        download.received = int(params.get("receivedBytes", 0))
        if download.received > DOWNLOAD_LIMIT_BYTES and download.state == "inProgress":
            self._cancel(download)

    def remove(self) -> None:
        """Remove every file; what was wanted went through the proxy."""
        for download in self._all:
            for name in (download.guid, f"{download.guid}.crdownload"):
                (self._folder / Path(name).name).unlink(missing_ok=True)

    def _cancel(self, download: Download) -> None:
        facts = {"guid": download.guid, "browserContextId": self._context_id}
        self._post("Browser.cancelDownload", facts)
