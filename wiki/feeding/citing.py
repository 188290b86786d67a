"""What reads the wikitext of a wiki, by its template map (B03-B05)."""

from collections.abc import Sequence

from core.clock import Clock
from wiki.api.facts import SiteFacts
from wiki.feeding.desk import Citing
from wiki.feeding.reading import Cite
from wiki.settings import WikiSettings
from wiki.wikitext.citations import Citation
from wiki.wikitext.reading import read_citations
from wiki.wikitext.rules import rules_for


def citing(clock: Clock) -> Citing:
    """Reads each wiki's wikitext as its language and its settings say.

    Args:
        clock: no access date is later than its today.
    """

    def of_wiki(facts: SiteFacts, settings: WikiSettings) -> Cite:
        rules = rules_for(facts.language, settings.templates)

        def cite(text: str) -> Sequence[Citation]:
            return read_citations(text, rules, today=clock.now().date())

        return cite

    return of_wiki
