"""`weboid setup`: installation of a browser, and of the environment for the level full."""

import asyncio
from collections.abc import Sequence

import click

from crawler.profiles import load_profile
from weboid.app.installation import install_browser, install_pywb
from weboid.app.setup_check import SetupFinding, SetupHealth, check_browser, check_pywb
from weboid.cli.maintenance import finding_line
from weboid.cli.support.commands import ExitCode, argument, cli_command, is_quiet, option
from weboid.cli.support.options import OUTPUT, PROFILE, CommandOutput


@cli_command("setup")
def setup_command(
    *,
    part: str = argument(type=click.Choice(["browser", "full"])),
    check: bool = option("Report what is installed, and install nothing."),
    profile: str = PROFILE,
    output: CommandOutput = OUTPUT,
) -> int:
    """Install the browser, or what the level full needs.

    `weboid doctor` says what is missing. See docs/how-to/install.md.

    browser: looked for in this order: [browser] executable, WEBOID_BROWSER, programs on the PATH,
    builds of Playwright. If there is none, the distribution's package is installed as root with apt;
    otherwise Playwright's headless Chromium is downloaded. Then its sandbox is tested. Ends with 3
    when there is no working browser.

    full: the environment with pywb, for copies at the level full. pywb needs other versions of some
    libraries, so it has an environment of its own, inside the one of Weboid, with exactly the versions
    of the release's lock. After an upgrade run the command again.
    """
    if part == "browser":
        settings = load_profile(profile)
        if not check and not settings.browser.executable:
            install_browser(_report)
        return _show(asyncio.run(check_browser(settings)), output)
    if not check:
        install_pywb(_report)
    finding = check_pywb()
    code = _show([finding], output)
    return code if finding.health is SetupHealth.GOOD else ExitCode.UNAVAILABLE


def _report(text: str) -> None:
    if not is_quiet():
        click.echo(f"{text} …", err=True)


def _show(findings: Sequence[SetupFinding], output: CommandOutput) -> int:
    output.show([each.to_dict() for each in findings], map(finding_line, findings))
    bad = any(each.health is SetupHealth.BAD for each in findings)
    return ExitCode.UNAVAILABLE if bad else ExitCode.OK
