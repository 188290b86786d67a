r"""The farms that everybody knows (W61), and a view for those who know MediaWiki (X08).

Of W61's expressions two faults are mended. `\bmediawiki|wik(…)\.org$` takes every host in which
"mediawiki" stands, since the bar reaches to both ends; and without a boundary before `wik` it takes
"antiwikipedia.org" for one of the farm's.

The view has the links that pages have now as rows of MediaWiki's external links table:

    el_id | el_wiki    | el_from | el_to_domain_index            | el_to_path
    17    | dewiki@WMF | 4711    | https://org.creativecommons. | /licenses/by-sa/3.0

``el_wiki`` is ours, since one registry knows several wikis. ``el_id`` is unique within a wiki, and
stays as long as the link: it is made of the page's number and, in the low 34 bits, the URL's. A port
that is not the scheme's own stands behind the index, as MediaWiki has it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_PROJECTS = (
    "mediawiki|wik(?:i(?:books|data|functions|media|news|pedia|quote|source|species|versity"
    "|voyage)|tionary)"
)
_FARMS = (
    {"id": 0, "name": "wmflabs", "address": "", "internal": r"(?:^|\.)beta\.wmflabs\.org$"},
    {"id": 1, "name": "WMF", "address": "", "internal": rf"(?:^|\.)(?:{_PROJECTS})\.org$"},
)
_VIEW = """
CREATE VIEW link_externallinks AS
SELECT p.page_id * 17179869184 + r.url_id AS el_id,
       w.dbname || '@' || f.name AS el_wiki,
       p.page_id AS el_from,
       CASE u.scheme WHEN 0 THEN 'http://' ELSE 'https://' END || h.domain_index
           || CASE u.port WHEN 0 THEN '' ELSE ':' || CAST(u.port AS VARCHAR(5)) END
           AS el_to_domain_index,
       u.path AS el_to_path
FROM link_refs r
JOIN link_pages p ON p.id = r.page
JOIN link_wikis w ON w.id = p.wiki_id
JOIN link_farms f ON f.id = w.farm_id
JOIN link_urls u ON u.id = r.url_id
JOIN link_hosts h ON h.id = u.host_id
WHERE r.gone_day IS NULL
"""


def upgrade() -> None:
    """Take the step."""
    farms = sa.table(
        "link_farms",
        sa.column("id", sa.SmallInteger()),
        sa.column("name", sa.Text()),
        sa.column("address", sa.Text()),
        sa.column("internal", sa.Text()),
    )
    op.bulk_insert(farms, [dict(farm) for farm in _FARMS])
    op.execute(_VIEW)
