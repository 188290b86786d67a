"""Running behaviours: small scripts that do on a page what a reader would do.

Each is one file of this folder: a function expression that runs in a world of our own, where the
page's scripts cannot tamper with it. It is called with one argument, `{limitMs}`, does what it does
within that time, and returns `{found, done, again}`: how many things it met, how many it acted on, and
whether the page may load something now.
"""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from core.settings import BehaviourSettings
from render.page import Page
from render.steps import Steps

PATIENCE_S = 2.0  # a behaviour that does not end by itself is given so long beyond its limit


@dataclass(frozen=True, slots=True)
class Done:
    """What one behaviour did.

    Attributes:
        name: its name.
        found: how many things it met.
        done: how many it acted on.
        again: True when the page may load something because of it.
        seconds: how long it took.
        error: why it did not come to its end; empty when it did.
    """

    name: str
    found: int = 0
    done: int = 0
    again: bool = False
    seconds: float = 0.0
    error: str = ""


@dataclass(frozen=True, slots=True)
class Behaviours:
    """Those that a visit runs: (name, script), in order.

    Attributes:
        scripts: them.
        limit_s: all of them together may take so long.
    """

    scripts: tuple[tuple[str, str], ...]
    limit_s: float


NO_BEHAVIOURS = Behaviours((), 0.0)


def load_behaviours(settings: BehaviourSettings) -> Behaviours:
    """Those that the settings name.

    Raises:
        ConfigError: there is none of that name.
    """
    return Behaviours(tuple((name, _script(name)) for name in settings.run), settings.limit_s)


async def behave(page: Page, behaviours: Behaviours, steps: Steps) -> tuple[Done, ...]:
    """Run them one after another; one that fails leaves the others be.

    Raises:
        PageGoneError, BrowserUnavailableError: as `Page.send`.
    """
    done: list[Done] = []
    left_s = steps.share_s(behaviours.limit_s)
    for name, source in behaviours.scripts:
        if left_s <= 0:
            break
        before = steps.spent_s
        with steps.step(name):
            told = await steps.attempt(
                page.run(name, source, {"limitMs": left_s * 1000}), left_s + PATIENCE_S
            )
        spent = steps.spent_s - before
        left_s -= spent
        done.append(_read(name, told, spent))
    return tuple(done)


def _read(name: str, told: object, spent: float) -> Done:
    if not isinstance(told, dict):
        return Done(name, seconds=round(spent, 3), again=True, error="did not end")
    return Done(
        name,
        found=int(told["found"]),
        done=int(told["done"]),
        again=bool(told["again"]),
        seconds=round(spent, 3),
    )


@cache
def _script(name: str) -> str:
    return files("render.behaviours").joinpath(f"{name}.js").read_text(encoding="utf-8")
