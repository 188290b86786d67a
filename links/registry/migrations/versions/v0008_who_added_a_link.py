"""Who added a link."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Take the step."""
    op.create_table(
        "link_additions",
        sa.Column("page", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("url_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("rev_id", sa.BigInteger(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("page", "url_id"),
        sqlite_with_rowid=False,
    )
    op.create_index("link_additions_account", "link_additions", ["account", "day"], unique=False)
    op.create_index("link_additions_day", "link_additions", ["day"], unique=False)
    op.create_index("link_additions_url", "link_additions", ["url_id"], unique=False)
    op.create_table(
        "link_page_revisions",
        sa.Column("page", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("rev_id", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("page"),
        sqlite_with_rowid=False,
    )
