"""Several versions of a copy, and the spelling of a link on its page."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Take the step."""
    op.create_table(
        "link_copy_versions",
        sa.Column("url_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("timestamp", sa.Text(), nullable=False),
        sa.Column("found_day", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("url_id", "service", "address"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "link_urls_dying",
        "link_urls",
        ["id"],
        unique=False,
        sqlite_where=sa.text("state = 2"),
        postgresql_where=sa.text("state = 2"),
    )
    op.add_column("link_refs", sa.Column("spelling", sa.Text(), nullable=True))
    # A capture of ours that shows an error had ended the search (B12): these are to be asked again.
    op.execute(
        "DELETE FROM link_copy_searches WHERE outcome = 1 AND NOT EXISTS ("
        "SELECT 1 FROM link_copies WHERE link_copies.url_id = link_copy_searches.url_id"
        " AND link_copies.address <> '')"
    )
