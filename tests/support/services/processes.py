"""Processes of services, asked in such a way that one may end meanwhile; browser and environment of started ones."""

import os
import shutil

import psutil

_BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome-stable", "google-chrome")


def browser_path() -> str:
    """Return the browser that ``$WEBOID_BROWSER`` names, else the first that is installed."""
    return os.environ.get("WEBOID_BROWSER") or next(path for name in _BROWSERS if (path := shutil.which(name)))


def plain_environment(**variables: str) -> dict[str, str]:
    """Return this environment with `variables`, and of Weboid's own variables only the browser's."""
    known = {k: v for k, v in os.environ.items() if not k.startswith("WEBOID") or k == "WEBOID_BROWSER"}
    return known | variables


def arguments(process: psutil.Process) -> str:
    """Return the command line, joined by blanks; empty when it has ended, which a browser's processes do."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
