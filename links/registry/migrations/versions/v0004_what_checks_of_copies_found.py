"""What checks of copies found."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Take the step."""
    op.create_table(
        "link_quality",
        sa.Column(
            "page_id", sa.Text().with_variant(sa.Text(collation="C"), "postgresql"), nullable=False
        ),
        sa.Column(
            "level", sa.Text().with_variant(sa.Text(collation="C"), "postgresql"), nullable=False
        ),
        sa.Column("url_key", sa.LargeBinary(length=16), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("page_class", sa.Text(), server_default="", nullable=False),
        sa.Column("captured_ms", sa.BigInteger(), nullable=False),
        sa.Column("checked_ms", sa.BigInteger(), nullable=False),
        sa.Column("engine", sa.Text(), nullable=False),
        sa.Column("verdict", sa.SmallInteger(), nullable=False),
        sa.Column("standing", sa.SmallInteger(), nullable=False),
        sa.Column("score", sa.Double(), nullable=False),
        sa.Column("picture", sa.Double(), nullable=True),
        sa.Column("text", sa.Double(), nullable=True),
        sa.Column("resources", sa.Double(), nullable=True),
        sa.Column("faults", sa.Integer(), server_default="0", nullable=False),
        sa.Column("lost", sa.Text(), server_default="[]", nullable=False),
        sa.Column("parts_seen", sa.Integer(), server_default="0", nullable=False),
        sa.Column("parts_shown", sa.Integer(), server_default="0", nullable=False),
        sa.Column("reason", sa.Text(), server_default="", nullable=False),
        sa.Column("seconds", sa.Double(), server_default="0", nullable=False),
        sa.Column("better", sa.Text(), server_default="", nullable=False),
        sa.Column("review", sa.SmallInteger(), nullable=True),
        sa.Column("reviewed_by", sa.Text(), server_default="", nullable=False),
        sa.Column("reviewed_ms", sa.BigInteger(), nullable=True),
        sa.Column("note", sa.Text(), server_default="", nullable=False),
        sa.Column("repair", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column(
            "repair_page_id",
            sa.Text().with_variant(sa.Text(collation="C"), "postgresql"),
            server_default="",
            nullable=False,
        ),
        sa.Column("repair_ms", sa.BigInteger(), nullable=True),
        sa.Column("changed_ms", sa.BigInteger(), nullable=False),
        sa.Column("is_recorded", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.PrimaryKeyConstraint("page_id", "level"),
    )
    op.create_index(
        "link_quality_blank",
        "link_quality",
        [sa.text("(faults & 2)"), "standing", "score", "page_id", "level"],
        unique=False,
        sqlite_where=sa.text("(faults & 2) <> 0"),
        postgresql_where=sa.text("(faults & 2) <> 0"),
    )
    op.create_index(
        "link_quality_class",
        "link_quality",
        ["page_class", "standing", "score", "page_id", "level"],
        unique=False,
    )
    op.create_index(
        "link_quality_covered",
        "link_quality",
        [sa.text("(faults & 32)"), "standing", "score", "page_id", "level"],
        unique=False,
        sqlite_where=sa.text("(faults & 32) <> 0"),
        postgresql_where=sa.text("(faults & 32) <> 0"),
    )
    op.create_index(
        "link_quality_damaged",
        "link_quality",
        [sa.text("(faults & 256)"), "standing", "score", "page_id", "level"],
        unique=False,
        sqlite_where=sa.text("(faults & 256) <> 0"),
        postgresql_where=sa.text("(faults & 256) <> 0"),
    )
    op.create_index(
        "link_quality_host",
        "link_quality",
        ["host", "standing", "score", "page_id", "level"],
        unique=False,
    )
    op.create_index(
        "link_quality_layout",
        "link_quality",
        [sa.text("(faults & 8)"), "standing", "score", "page_id", "level"],
        unique=False,
        sqlite_where=sa.text("(faults & 8) <> 0"),
        postgresql_where=sa.text("(faults & 8) <> 0"),
    )
    op.create_index(
        "link_quality_level",
        "link_quality",
        ["level", "standing", "score", "page_id"],
        unique=False,
    )
    op.create_index(
        "link_quality_lost",
        "link_quality",
        [sa.text("(faults & 4)"), "standing", "score", "page_id", "level"],
        unique=False,
        sqlite_where=sa.text("(faults & 4) <> 0"),
        postgresql_where=sa.text("(faults & 4) <> 0"),
    )
    op.create_index(
        "link_quality_not_shown",
        "link_quality",
        [sa.text("(faults & 1)"), "standing", "score", "page_id", "level"],
        unique=False,
        sqlite_where=sa.text("(faults & 1) <> 0"),
        postgresql_where=sa.text("(faults & 1) <> 0"),
    )
    op.create_index(
        "link_quality_other",
        "link_quality",
        [sa.text("(faults & 16)"), "standing", "score", "page_id", "level"],
        unique=False,
        sqlite_where=sa.text("(faults & 16) <> 0"),
        postgresql_where=sa.text("(faults & 16) <> 0"),
    )
    op.create_index(
        "link_quality_repair",
        "link_quality",
        ["repair", "repair_ms", "page_id"],
        unique=False,
        sqlite_where=sa.text("repair IN (1, 2)"),
        postgresql_where=sa.text("repair IN (1, 2)"),
    )
    op.create_index(
        "link_quality_repaired",
        "link_quality",
        ["repair_page_id"],
        unique=False,
        sqlite_where=sa.text("repair_page_id <> ''"),
        postgresql_where=sa.text("repair_page_id <> ''"),
    )
    op.create_index(
        "link_quality_resources",
        "link_quality",
        [sa.text("(faults & 128)"), "standing", "score", "page_id", "level"],
        unique=False,
        sqlite_where=sa.text("(faults & 128) <> 0"),
        postgresql_where=sa.text("(faults & 128) <> 0"),
    )
    op.create_index(
        "link_quality_tally",
        "link_quality",
        ["standing", "page_class", "level", "faults", "review", "score"],
        unique=False,
    )
    op.create_index(
        "link_quality_text",
        "link_quality",
        [sa.text("(faults & 64)"), "standing", "score", "page_id", "level"],
        unique=False,
        sqlite_where=sa.text("(faults & 64) <> 0"),
        postgresql_where=sa.text("(faults & 64) <> 0"),
    )
    op.create_index(
        "link_quality_unrecorded",
        "link_quality",
        ["page_id", "level"],
        unique=False,
        sqlite_where=sa.text("is_recorded = 0"),
        postgresql_where=sa.text("NOT is_recorded"),
    )
    op.create_index("link_quality_url", "link_quality", ["url_key"], unique=False)
    op.create_index(
        "link_quality_worst",
        "link_quality",
        ["standing", "score", "page_id", "level"],
        unique=False,
    )
