"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Take the step."""
    op.create_table(
        "link_actors",
        sa.Column("reporter", sa.LargeBinary(length=16), nullable=False),
        sa.Column("act", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("moment", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("reporter", "act"),
        sqlite_with_rowid=False,
    )
    op.create_index("link_actors_moment", "link_actors", ["moment"], unique=False)
    op.create_table(
        "link_acts",
        sa.Column("act", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("day", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("act", "day"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "link_copies",
        sa.Column("url_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), server_default="", nullable=False),
        sa.Column("timestamp", sa.Text(), server_default="", nullable=False),
        sa.Column("found_day", sa.Integer(), nullable=False),
        sa.Column("checked_day", sa.Integer(), nullable=False),
        sa.Column("chosen_by", sa.Text(), server_default="", nullable=False),
        sa.Column("is_locked", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("due_day", sa.Integer(), nullable=True),
        sa.Column("missed_day", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("url_id", "service"),
        sqlite_with_rowid=False,
    )
    op.create_index("link_copies_due", "link_copies", ["due_day"], unique=False)
    op.create_table(
        "link_copy_searches",
        sa.Column("url_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.SmallInteger(), nullable=False),
        sa.Column("note", sa.Text(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("url_id"),
        sqlite_with_rowid=False,
    )
    op.create_index("link_copy_searches_day", "link_copy_searches", ["day"], unique=False)
    op.create_table(
        "link_excluded",
        sa.Column("wiki_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("entry", sa.Text(), nullable=False),
        sa.Column("links", sa.BigInteger(), nullable=False),
        sa.Column("pages", sa.BigInteger(), nullable=False),
        sa.Column("last_day", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("wiki_id", "entry"),
    )
    op.create_table(
        "link_farms",
        sa.Column("id", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), server_default="", nullable=False),
        sa.Column("internal", sa.Text(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "link_host_quirks",
        sa.Column("host_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("first_day", sa.Integer(), nullable=False),
        sa.Column("last_day", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("host_id", "kind"),
        sqlite_with_rowid=False,
    )
    op.create_index("link_host_quirks_last", "link_host_quirks", ["last_day"], unique=False)
    op.create_table(
        "link_hosts",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column(
            "domain_index",
            sa.Text().with_variant(sa.Text(collation="C"), "postgresql"),
            nullable=False,
        ),
        sa.Column("surt", sa.Text(), nullable=False),
        sa.Column("domain", sa.Text(), nullable=False),
        sa.Column("bucket", sa.SmallInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
    )
    op.create_index("link_hosts_domain", "link_hosts", ["domain"], unique=False)
    op.create_index("link_hosts_domain_index", "link_hosts", ["domain_index"], unique=False)
    op.create_table(
        "link_imports",
        sa.Column("digest", sa.LargeBinary(length=16), nullable=False),
        sa.Column("page", sa.BigInteger(), nullable=False),
        sa.Column("pages", sa.BigInteger(), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("digest"),
    )
    op.create_table(
        "link_invalid",
        sa.Column("page", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("key", sa.LargeBinary(length=16), nullable=False),
        sa.Column("text", sa.LargeBinary(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("first_day", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("page", "key"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "link_leases",
        sa.Column("part", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("part"),
    )
    op.create_table(
        "link_marks",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("pattern", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), server_default="", nullable=False),
        sa.Column("value", sa.Text(), server_default="", nullable=False),
        sa.Column("reason", sa.Text(), server_default="", nullable=False),
        sa.Column("actor", sa.Text(), server_default="", nullable=False),
        sa.Column("moment", sa.BigInteger(), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=True),
        sa.Column("lifted", sa.BigInteger(), nullable=True),
        sa.Column("lifted_by", sa.Text(), server_default="", nullable=False),
        sa.Column("settled", sa.SmallInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "link_observations",
        sa.Column("url_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("moment", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("how", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("code", sa.SmallInteger(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("http", sa.SmallInteger(), nullable=True),
        sa.Column("final_url", sa.Text(), server_default="", nullable=False),
        sa.Column("note", sa.Text(), server_default="", nullable=False),
        sa.Column("similarity", sa.SmallInteger(), nullable=True),
        sa.PrimaryKeyConstraint("url_id", "moment", "how"),
        sqlite_with_rowid=False,
    )
    op.create_index("link_observations_moment", "link_observations", ["moment"], unique=False)
    op.create_table(
        "link_pages",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("wiki_id", sa.Integer(), nullable=False),
        sa.Column("page_id", sa.BigInteger(), nullable=False),
        sa.Column("namespace", sa.Integer(), server_default="0", nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("touched_day", sa.Integer(), nullable=False),
        sa.Column("asked_day", sa.Integer(), nullable=True),
        sa.Column("listed_day", sa.Integer(), nullable=True),
        sa.Column("is_stale", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("excluded", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("wiki_id", "page_id"),
    )
    op.create_index(
        "link_pages_stale",
        "link_pages",
        ["wiki_id", "listed_day", "id"],
        unique=False,
        sqlite_where=sa.text("is_stale = 1"),
        postgresql_where=sa.text("is_stale"),
    )
    op.create_index("link_pages_title", "link_pages", ["wiki_id", "title"], unique=False)
    op.create_index("link_pages_touched", "link_pages", ["wiki_id", "touched_day"], unique=False)
    op.create_table(
        "link_passes",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("part", sa.Text(), nullable=False),
        sa.Column("started", sa.BigInteger(), nullable=False),
        sa.Column("ended", sa.BigInteger(), nullable=True),
        sa.Column("due", sa.BigInteger(), nullable=False),
        sa.Column("done", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("batch", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("link_passes_part", "link_passes", ["part", "started"], unique=False)
    op.create_table(
        "link_refs",
        sa.Column("page", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("url_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("first_day", sa.Integer(), nullable=False),
        sa.Column("gone_day", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("page", "url_id"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "link_refs_gone",
        "link_refs",
        ["gone_day"],
        unique=False,
        sqlite_where=sa.text("gone_day IS NOT NULL"),
        postgresql_where=sa.text("gone_day IS NOT NULL"),
    )
    op.create_index("link_refs_url", "link_refs", ["url_id", "page"], unique=False)
    op.create_table(
        "link_replacements",
        sa.Column("url_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("state", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("moment", sa.BigInteger(), nullable=False),
        sa.Column("reporter", sa.LargeBinary(length=16), nullable=False),
        sa.Column("since_day", sa.Integer(), server_default="0", nullable=False),
        sa.Column("tested_day", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("url_id"),
    )
    op.create_index(
        "link_replacements_state", "link_replacements", ["state", "tested_day"], unique=False
    )
    op.create_table(
        "link_reports",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("url_id", sa.BigInteger(), nullable=False),
        sa.Column("host_id", sa.BigInteger(), nullable=False),
        sa.Column("moment", sa.BigInteger(), nullable=False),
        sa.Column("expires_day", sa.Integer(), nullable=False),
        sa.Column("reporter", sa.LargeBinary(length=16), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("url_id", "reporter"),
    )
    op.create_index("link_reports_expires", "link_reports", ["expires_day"], unique=False)
    op.create_index("link_reports_host", "link_reports", ["host_id"], unique=False)
    op.create_table(
        "link_spam_hits",
        sa.Column("page", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("key", sa.LargeBinary(length=16), nullable=False),
        sa.Column("wiki_id", sa.Integer(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("list", sa.Text(), nullable=False),
        sa.Column("line", sa.Integer(), nullable=False),
        sa.Column("first_day", sa.Integer(), nullable=False),
        sa.Column("last_day", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("page", "key"),
        sqlite_with_rowid=False,
    )
    op.create_index("link_spam_hits_key", "link_spam_hits", ["key"], unique=False)
    op.create_index("link_spam_hits_wiki", "link_spam_hits", ["wiki_id", "page"], unique=False)
    op.create_table(
        "link_spam_lists",
        sa.Column("farm_id", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("wiki_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(length=16), nullable=False),
        sa.Column("loaded_day", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("farm_id", "wiki_id", "name"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "link_url_quirks",
        sa.Column("url_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("value", sa.Text(), server_default="", nullable=False),
        sa.Column("first_day", sa.Integer(), nullable=False),
        sa.Column("last_day", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("url_id", "kind"),
        sqlite_with_rowid=False,
    )
    op.create_index("link_url_quirks_last", "link_url_quirks", ["last_day"], unique=False)
    op.create_table(
        "link_urls",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("key", sa.LargeBinary(length=16), nullable=False),
        sa.Column("host_id", sa.BigInteger(), nullable=False),
        sa.Column("scheme", sa.SmallInteger(), nullable=False),
        sa.Column("port", sa.Integer(), server_default="0", nullable=False),
        sa.Column(
            "path", sa.Text().with_variant(sa.Text(collation="C"), "postgresql"), nullable=False
        ),
        sa.Column("bucket", sa.SmallInteger(), nullable=False),
        sa.Column("added_day", sa.Integer(), nullable=False),
        sa.Column("touched_day", sa.Integer(), nullable=False),
        sa.Column("checked_day", sa.Integer(), nullable=True),
        sa.Column("due_day", sa.Integer(), nullable=True),
        sa.Column("state", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("code", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("fails", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("first_fail_day", sa.Integer(), nullable=True),
        sa.Column("last_fail_day", sa.Integer(), nullable=True),
        sa.Column("proofs", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("history", sa.LargeBinary(length=25), nullable=True),
        sa.Column("mime", sa.Text(), nullable=True),
        sa.Column("kib", sa.Integer(), nullable=True),
        sa.Column("opinion_day", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("key"),
    )
    op.create_index("link_urls_due", "link_urls", ["due_day", "key"], unique=False)
    op.create_index("link_urls_host", "link_urls", ["host_id", "due_day"], unique=False)
    op.create_index(
        "link_urls_lost",
        "link_urls",
        ["id"],
        unique=False,
        sqlite_where=sa.text("state IN (3, 5, 8)"),
        postgresql_where=sa.text("state IN (3, 5, 8)"),
    )
    op.create_index(
        "link_urls_new",
        "link_urls",
        ["due_day", "key"],
        unique=False,
        sqlite_where=sa.text("checked_day IS NULL"),
        postgresql_where=sa.text("checked_day IS NULL"),
    )
    op.create_index(
        "link_urls_opinion",
        "link_urls",
        ["opinion_day", "key"],
        unique=False,
        sqlite_where=sa.text("opinion_day IS NOT NULL"),
        postgresql_where=sa.text("opinion_day IS NOT NULL"),
    )
    op.create_index(
        "link_urls_paths",
        "link_urls",
        ["host_id", sa.literal_column("substr(path, 1, 100)"), "id"],
        unique=False,
    )
    op.create_index("link_urls_touched", "link_urls", ["touched_day"], unique=False)
    op.create_table(
        "link_wikis",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("farm_id", sa.SmallInteger(), nullable=False),
        sa.Column("dbname", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), server_default="", nullable=False),
        sa.Column("pages_url", sa.Text(), server_default="", nullable=False),
        sa.Column("settings", sa.Text(), server_default="{}", nullable=False),
        sa.Column("added_day", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("farm_id", "dbname"),
    )
