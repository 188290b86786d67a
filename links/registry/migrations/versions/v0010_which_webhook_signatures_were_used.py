"""Which webhook signatures were used."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0008"


def upgrade() -> None:
    """Take the step."""
    op.create_table(
        "link_webhook_signatures",
        sa.Column("signature", sa.LargeBinary(length=32), nullable=False),
        sa.Column("moment", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("signature"),
    )
    op.create_index(
        "link_webhook_signatures_moment", "link_webhook_signatures", ["moment"], unique=False
    )
