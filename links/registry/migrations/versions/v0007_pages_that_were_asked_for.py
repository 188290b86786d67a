"""Pages that somebody asked for and that are not observed."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Take the step."""
    op.create_table(
        "link_asked_pages",
        sa.Column("wiki_id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("page_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("day", sa.Integer, nullable=False),
        sa.Column("is_done", sa.Boolean, server_default=sa.false(), nullable=False),
        sa.PrimaryKeyConstraint("wiki_id", "page_id", "title"),
        sqlite_with_rowid=False,
    )
