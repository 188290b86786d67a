"""`weboid doctor`: what is found, and what to do about what is not."""

import json
from pathlib import Path

import click

from crawler.cli.checkup import examine
from crawler.cli.exits import Exit
from crawler.cli.health import Finding, Health
from crawler.cli.options import collection_option, json_option, profile_option
from crawler.profiles import load_profile

_MARKS = {
    Health.GOOD: ("ok", "green"),
    Health.WARN: ("warn", "yellow"),
    Health.BAD: ("bad", "red"),
    Health.UNSET: ("--", "blue"),
}


@click.command("doctor")
@collection_option
@profile_option
@json_option
def command(*, collection: Path, profile: str, as_json: bool) -> int:
    """Check browser, sandbox, proxy, replay, fonts, disk, limits, clock, scanner, and what the profile shares."""
    findings = examine(collection, load_profile(profile))
    if as_json:
        click.echo(json.dumps([each.to_dict() for each in findings], ensure_ascii=False))
    else:
        for finding in findings:
            click.echo(line_for(finding))
    bad = any(each.health is Health.BAD for each in findings)
    return Exit.UNAVAILABLE if bad else Exit.OK


def line_for(finding: Finding) -> str:
    """A finding in one line, with its remedy in a second."""
    mark, colour = _MARKS[finding.health]
    line = f"{click.style(mark.ljust(4), fg=colour)}  {finding.subject.ljust(10)}  {finding.text}"
    return f"{line}\n      {'':10}  → {finding.remedy}" if finding.remedy else line
