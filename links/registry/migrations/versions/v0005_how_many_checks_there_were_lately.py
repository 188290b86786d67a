"""How many checks there were lately."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Take the step."""
    op.create_index("link_quality_checked", "link_quality", ["checked_ms", "verdict"], unique=False)
    op.create_index(
        "link_quality_repairs",
        "link_quality",
        ["repair", "repair_ms", "page_id"],
        unique=False,
        sqlite_where=sa.text("repair <> 0"),
        postgresql_where=sa.text("repair <> 0"),
    )
