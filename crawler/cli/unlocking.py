"""Opening the logins that a profile names, before anything is started."""

import os
import sys
from pathlib import Path

import click

from core.clock import SystemClock
from core.errors import UnavailableError
from core.layout import Layout
from core.settings import Settings
from crawler.login_file import Key, passphrase
from crawler.logins import NO_LOGINS, Logins, open_logins

PASSPHRASE_VARIABLE = "WEBOID_LOGIN_PASSPHRASE"  # noqa: S105 its name


def unlocked(settings: Settings, root: Path) -> Logins:
    """The logins that the settings name; none are asked for when none are named.

    Args:
        settings: the profile.
        root: the collection's folder, which holds them.

    Raises:
        InputError: one of them is not there, or does not open.
        UnavailableError: the passphrase is needed, and there is nobody to ask.
    """
    if not settings.login.names:
        os.environ.pop(PASSPHRASE_VARIABLE, None)  # what we start need not know it
        return NO_LOGINS
    return open_logins(
        Layout(root).logins,
        settings.login,
        now=SystemClock().now(),
        ask=lambda: ask_passphrase("Passphrase of the logins"),
        warn=lambda text: click.echo(text, err=True),
    )


def ask_passphrase(question: str, *, confirm: bool = False) -> Key:
    """The passphrase of the environment, which then forgets it, or the one that is typed.

    Raises:
        InputError: it is too short.
        UnavailableError: there is none, and nobody to ask.
    """
    text = os.environ.pop(PASSPHRASE_VARIABLE, "")
    if not text:
        if not sys.stdin.isatty():
            raise UnavailableError(
                f"The passphrase of the logins is needed: set {PASSPHRASE_VARIABLE}, or make them "
                "with --key-file."
            )
        text = click.prompt(question, hide_input=True, confirmation_prompt=confirm, err=True)
    return passphrase(text)
