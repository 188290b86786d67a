"""What feeders and the bot keep."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Take the step."""
    op.create_table(
        "link_citations",
        sa.Column("page", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("url_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("way", sa.Text(), nullable=False),
        sa.Column("access_day", sa.Integer(), nullable=True),
        sa.Column("archive_url", sa.Text(), server_default="", nullable=False),
        sa.Column("archive_timestamp", sa.Text(), server_default="", nullable=False),
        sa.Column("facts", sa.SmallInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("page", "url_id"),
        sqlite_with_rowid=False,
    )
    op.create_index("link_citations_url", "link_citations", ["url_id"], unique=False)
    op.create_table(
        "link_edit_changes",
        sa.Column("edit_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("number", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("page", sa.BigInteger(), nullable=False),
        sa.Column("url_id", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("before", sa.Text(), nullable=False),
        sa.Column("after", sa.Text(), nullable=False),
        sa.Column("is_undone", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.PrimaryKeyConstraint("edit_id", "number"),
        sqlite_with_rowid=False,
    )
    op.create_index("link_edit_changes_link", "link_edit_changes", ["page", "url_id"], unique=False)
    op.create_table(
        "link_edit_turns",
        sa.Column("wiki_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("wiki_id"),
    )
    op.create_table(
        "link_edits",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("wiki_id", sa.Integer(), nullable=False),
        sa.Column("page_id", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), server_default="page", nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("moment", sa.BigInteger(), nullable=False),
        sa.Column("base_rev", sa.BigInteger(), nullable=False),
        sa.Column("rev", sa.BigInteger(), nullable=True),
        sa.Column("digest", sa.Text(), server_default="", nullable=False),
        sa.Column("basis", sa.LargeBinary(length=16), nullable=True),
        sa.Column("state", sa.SmallInteger(), nullable=False),
        sa.Column("undone_rev", sa.BigInteger(), nullable=True),
        sa.Column("undone_by", sa.Text(), server_default="", nullable=False),
        sa.Column("note", sa.Text(), server_default="", nullable=False),
        sa.Column("checked", sa.BigInteger(), nullable=True),
        sa.Column("is_reported", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("reviewed", sa.BigInteger(), nullable=True),
        sa.Column("reviewed_by", sa.Text(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("link_edits_page", "link_edits", ["wiki_id", "page_id"], unique=False)
    op.create_index("link_edits_state", "link_edits", ["wiki_id", "state", "moment"], unique=False)
    op.create_table(
        "link_feeds",
        sa.Column("wiki_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("cursor", sa.Text(), server_default="", nullable=False),
        sa.Column("moment", sa.BigInteger(), nullable=False),
        sa.Column("trouble", sa.Text(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("wiki_id", "kind"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "link_wanted",
        sa.Column("page", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("url_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("due", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("wiki_id", sa.Integer(), nullable=False),
        sa.Column("priority", sa.SmallInteger(), nullable=False),
        sa.PrimaryKeyConstraint("page", "url_id"),
        sqlite_with_rowid=False,
    )
    op.create_index("link_wanted_due", "link_wanted", ["wiki_id", "priority", "due"], unique=False)
    op.create_index("link_wanted_url", "link_wanted", ["url_id"], unique=False)
