"""`weboid qa`: whether copies show what the visitors of their pages saw."""

from crawler.cli.groups import LazyGroupWithDefault
from crawler.cli.qa.run import command as run

_COMMANDS = {
    "baseline": "crawler.cli.qa.baseline",
    "compare": "crawler.cli.qa.compare",
    "drift": "crawler.cli.qa.drift",
    "repair": "crawler.cli.qa.repair",
    "ls": "crawler.cli.qa.listing",
    "marks": "crawler.cli.qa.marks",
    "report": "crawler.cli.qa.report",
}

command = LazyGroupWithDefault(
    "qa",
    commands_at=_COMMANDS,
    callback=run.callback,
    params=run.params,
    help=run.help,
    invoke_without_command=True,
)
