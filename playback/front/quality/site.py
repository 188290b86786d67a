"""The part of the front that shows checks, put together."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.routing import BaseRoute

from core.layout import Layout
from links.reporters import open_reporters
from playback.front.languages import here
from playback.front.quality.acts import Acts
from playback.front.quality.pages import QUALITY_PATH, QualityPages
from playback.front.quality.pictures import Pictures
from playback.front.quality.programs import QualityPrograms
from playback.front.quality.results import Results
from playback.front.quality.rights import Gate, Reviewers
from playback.front.registry.access import Door
from playback.front.registry.desk import LinkRegistry
from playback.front.views import Means


@dataclass(frozen=True, slots=True)
class Quality:
    """What a front must have to show checks, beside the link registry.

    Attributes:
        layout: the collection, which keeps the pictures and the key of forms.
        reviewers: who may judge; nobody by default.
    """

    layout: Layout
    reviewers: Reviewers = field(default_factory=Reviewers)


def quality_addresses(registry: LinkRegistry | None, quality: Quality | None) -> Callable[[], str]:
    """Gives the address of the list; empty where there is none."""

    def address() -> str:
        is_there = registry is not None and quality is not None and registry.source.is_there()
        return here(QUALITY_PATH) if is_there else ""

    return address


def quality_routes(quality: Quality, registry: LinkRegistry, means: Means) -> list[BaseRoute]:
    """Its addresses."""
    results = Results(registry.source, means.store, means.cautions)
    reporters = functools.cache(functools.partial(open_reporters, quality.layout))
    gate = Gate(quality.reviewers, reporters, Door(registry.access, "quality"), means.clock)
    pages = QualityPages(
        results,
        Pictures(quality.layout.quality_pictures),
        Acts(results.registry, means.clock),
        gate,
        means,
    )
    programs = QualityPrograms(results, gate)
    return [*programs.routes(), *pages.routes()]
