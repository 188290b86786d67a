"""Fetch and build the real sites: ``python -m tests.support.sites``. Quick when nothing is missing."""

import sys

from tests.support.sites.cache import SiteUnavailableError
from tests.support.sites.mediawiki import wiki_template
from tests.support.sites.spa import applications
from tests.support.sites.versions import OTHERS


def main() -> int:
    """Build what is missing; 1 and one line when that fails."""
    try:
        applications()
        wiki_template()
    except SiteUnavailableError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    for version in OTHERS:
        try:
            wiki_template(version)
        except SiteUnavailableError as error:
            # A mirror may drop a release: the tests with this version try again, and say the same.
            sys.stderr.write(f"There is no MediaWiki {version} for the tests: {error}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
