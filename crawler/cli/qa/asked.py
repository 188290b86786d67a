"""What `weboid qa` was asked for."""

from dataclasses import dataclass

from crawler.cli.qa.candidates import Wanted
from playback.decisions.levels import Level, LevelRules


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for on the command line.

    Attributes:
        urls: check the newest captures of these; none: see the others.
        sample: so many pages; 0: all.
        wanted: which pages are looked through.
        levels: at which copies are looked at.
        jobs: pages at the same time.
        seed: of the dice; None: others each time.
        fonts: copies load their own fonts.
        records: write what is found into WARCs, too.
        repairs: capture again what is broken.
        rules: which pages are shown in full.
    """

    urls: tuple[str, ...]
    sample: int
    wanted: Wanted
    levels: tuple[Level, ...]
    jobs: int
    seed: int | None
    fonts: bool
    records: bool
    repairs: bool
    rules: LevelRules
