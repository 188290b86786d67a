"""Keep the links of pages that were asked for; find refused links by their text; drop the SURTs of hosts, which nobody reads."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Take the step."""
    op.add_column("link_asked_pages", sa.Column("links", sa.LargeBinary(), nullable=True))
    op.create_index("link_invalid_key", "link_invalid", ["key"], unique=False)
    op.drop_column("link_hosts", "surt")
