"""Processes of services, asked in such a way that one may end meanwhile, and the browser for one command each."""

import os
import shutil

import psutil

_BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome-stable", "google-chrome")


def browser_path() -> str:
    """The browser that ``$WEBOID_BROWSER`` names, else the first that is installed."""
    return os.environ.get("WEBOID_BROWSER") or next(path for name in _BROWSERS if (path := shutil.which(name)))


def arguments(process: psutil.Process) -> str:
    """Its words with blanks between; empty when it has ended, which a browser's processes do."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
