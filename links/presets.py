"""How much it takes until a link is dead, and how often it is looked at: three sets of numbers.

A failure is sure when the server itself says that the page is gone; all else may pass: an error, a
time-out, and everything that strikes a whole host, its name included, since domains lapse and are
renewed. A run of failures in which one may pass is held against the larger toll.

`DEFAULT`'s tolls: sure failures are at least 3 over 9 days (research links.md 2.5). Those that may pass
are at least 5 over 18 days: an outage of two weeks spans 14 days and, with a stray failure three days
before it, 17; and a host that goes the day after it was seen fails first a week later, so that its links
are dead 26 days after it went, which leaves two of the four weeks' days for a checker that is late.
"""

from dataclasses import dataclass, replace

from core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Toll:
    """What a run of failures must reach.

    Attributes:
        fails: failures that count, at least.
        days: from the first of them to the last look, at least.
    """

    fails: int
    days: int


@dataclass(frozen=True, slots=True)
class Preset:
    """Rules for states and schedules.

    Attributes:
        name: what the setting says.
        sure: the toll when every failure says that the page is gone.
        passing: the toll when one of them may pass.
        apart_days: a failure sooner after the last that counted does not count.
        needs_get: one failure at least must be an own GET, or the browser's.
        needs_browser: where there is a browser, the last failure must be its.
        trusts_tags: what a wiki's page calls dead is dead at its first failure, permalive or not.
        alive_days: from a good look to the next.
        first_days: from a link's first good look to the next, by its key in between: what was
            imported on one day is not due on one day for ever after.
        spread_days: by its key so many days more at most, after `alive_days` and the seldom ones.
        failing_days: from a failure to the next look.
        undecided_days: from a look that said nothing to the next, unless the host said when.
        dead_days: from the failure that made it dead to the next look, growing by `dead_growth` …
        dead_growth: … days with each look that finds it dead …
        dead_limit_days: … up to so many.
        blocked_days: from a refusal to the next look.
        seldom_days: between two looks at a usurped or deviated one.
    """

    name: str
    sure: Toll
    passing: Toll
    apart_days: int
    needs_get: bool
    needs_browser: bool
    trusts_tags: bool = False
    alive_days: int = 7
    first_days: int = 7
    spread_days: int = 1
    failing_days: int = 3
    undecided_days: int = 3
    dead_days: int = 7
    dead_growth: int = 1
    dead_limit_days: int = 30
    blocked_days: int = 7
    seldom_days: int = 28


DEFAULT = Preset(
    "default",
    *(Toll(3, 9), Toll(5, 18), 2),
    needs_get=True,
    needs_browser=True,
    # A host that answers 429 more often than not is asked often enough to be found gone in four weeks.
    undecided_days=2,
)
# As written (B09): three failures three days apart are six days, so it is mostly the fourth that is
# at least nine days after the first. Nothing is spread, nobody is asked for a second opinion.
IABOT = Preset(
    "iabot",
    *(Toll(3, 9), Toll(3, 9), 3),
    needs_get=False,
    needs_browser=False,
    first_days=0,
    spread_days=0,
    dead_growth=0,
)
# The German Wikipedia's: four times, each two weeks after the other (research links.md 2.3).
DEWIKI = Preset(
    "dewiki", *(Toll(4, 42), Toll(4, 42), 14), needs_get=True, needs_browser=True, failing_days=14
)
PRESETS = {preset.name: preset for preset in (DEFAULT, IABOT, DEWIKI)}


def preset_of(name: str, *, trusts_tags: bool = False) -> Preset:
    """The preset that the setting names.

    Args:
        name: of the preset.
        trusts_tags: as `[links] trust_tags` says.

    Raises:
        ConfigError: there is none of that name.
    """
    if name not in PRESETS:
        known = ", ".join(sorted(PRESETS))
        raise ConfigError(f"[links] preset: there is no {name!r}. Choose one of: {known}.")
    return replace(PRESETS[name], trusts_tags=trusts_tags)
