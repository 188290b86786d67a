"""Tables of the link registry, for SQLite and PostgreSQL (docs/reference/registry.md, also on partitions).

Requirements: farms W61, pages W62, urls W63, refs W64, additions X11, host_quirks W47, url_quirks W56,
copies W30-W32, copy_versions and citations B05-B06, reports W13-W16, replacements W17, acts and actors W15,
marks B10, B11 and A16, spam_hits W52, excluded X01-X10, invalid W48 and W50, passes W38, edits B14, quality U09.

Days are numbers (`links.check_history`); times are whole seconds since 1970 UTC, those of captures
and their checks milliseconds (``_ms``). A URL is found by its key (`links.url_parts.key_of`); texts
of unlimited length are in no index. A change here needs a migration: ``python -m scripts.migration TEXT``.
"""

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy import BigInteger, Boolean, Column, Double, Index, Integer, LargeBinary, SmallInteger, Text, text
from sqlalchemy.schema import SchemaItem

from core.playback_check import PlaybackFault

metadata = sa.MetaData()


def _table(name: str, *parts: SchemaItem, rowid: bool = True) -> sa.Table:
    return sa.Table(name, metadata, *parts, sqlite_with_rowid=rowid)


def _key(**types: Any) -> Iterator[Column[Any]]:
    """Yield the columns of a primary key of several."""
    return (Column(name, type_, primary_key=True, autoincrement=False) for name, type_ in types.items())


def _columns(type_: Any, *names: str, **facts: Any) -> Iterator[Column[Any]]:
    """Yield columns of one type, which are not NULL unless `facts` says so."""
    return (Column(name, type_, **{"nullable": False, **facts}) for name in names)


def _only(condition: str, postgresql: str = "") -> dict[str, Any]:
    """Return the arguments of a partial index, for both databases."""
    return {"sqlite_where": text(condition), "postgresql_where": text(postgresql or condition)}


_Id = BigInteger().with_variant(Integer, "sqlite")  # only INTEGER is SQLite's own row number
# In the order of its bytes, as SQLite keeps texts anyway: what is looked up by its beginning.
_Bytes = Text().with_variant(Text(collation="C"), "postgresql")
# How a URL's path begins, short enough for an index of PostgreSQL (2,700 bytes). Questions must use
# this very expression, or no index answers them.
PATH_HEAD_CHARS = 100
PATH_HEAD = f"substr(path, 1, {PATH_HEAD_CHARS})"

farms = _table(
    "link_farms",
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False, unique=True),
    Column("address", Text, nullable=False, server_default=""),
    Column("internal", Text, nullable=False, server_default=""),  # an expression (RE2) for hosts
)

wikis = _table(
    "link_wikis",
    Column("id", Integer, primary_key=True),
    Column("farm_id", SmallInteger, nullable=False),
    Column("dbname", Text, nullable=False),
    Column("url", Text, nullable=False, server_default=""),  # api.php, or empty
    Column("pages_url", Text, nullable=False, server_default=""),  # with $1 for a title
    Column("settings", Text, nullable=False, server_default="{}"),  # JSON
    Column("added_day", Integer, nullable=False),
    sa.UniqueConstraint("farm_id", "dbname"),
)

pages = _table(
    "link_pages",
    # links.registry.pages.number_of: the wiki above, its page_id below, so that all that is sorted by it
    # has the pages of a wiki side by side.
    Column("id", _Id, primary_key=True),
    Column("wiki_id", Integer, nullable=False),
    Column("page_id", BigInteger, nullable=False),
    Column("namespace", Integer, nullable=False, server_default="0"),
    Column("title", Text, nullable=False),
    Column("touched_day", Integer, nullable=False),  # by the feeder: W36
    Column("asked_day", Integer),  # day of the latest request for the page (W34)
    Column("listed_day", Integer),  # when its URLs were last written
    Column("is_stale", Boolean, nullable=False, server_default=sa.false()),  # its URLs must be read
    Column("excluded", Text),  # JSON, entry to number: what the exclusion list kept out of it
    sa.UniqueConstraint("wiki_id", "page_id"),
    Index("link_pages_title", "wiki_id", "title"),
    Index("link_pages_touched", "wiki_id", "touched_day"),
    Index("link_pages_stale", "wiki_id", "listed_day", "id", **_only("is_stale = 1", "is_stale")),
)

asked_pages = _table(
    "link_asked_pages",
    # Not observed, requested from the feeder (W10): by number, else (0) by title.
    *_key(wiki_id=Integer, page_id=BigInteger, title=Text),
    Column("day", Integer, nullable=False),
    Column("is_done", Boolean, nullable=False, server_default=sa.false()),  # the feeder read it
    Column("links", LargeBinary),  # when it was read: the keys of its URLs, one after another
    rowid=False,
)

hosts = _table(
    "link_hosts",
    Column("id", _Id, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("domain_index", _Bytes, nullable=False),
    Column("domain", Text, nullable=False),  # the registrable one, or the host itself
    Column("bucket", SmallInteger, nullable=False),
    Index("link_hosts_domain_index", "domain_index"),
    Index("link_hosts_domain", "domain"),
)

urls = _table(
    "link_urls",
    Column("id", _Id, primary_key=True),
    Column("key", LargeBinary(16), nullable=False, unique=True),
    Column("host_id", BigInteger, nullable=False),
    Column("scheme", SmallInteger, nullable=False),  # the place in links.url_parts.SCHEMES
    Column("port", Integer, nullable=False, server_default="0"),
    Column("path", _Bytes, nullable=False),
    Column("bucket", SmallInteger, nullable=False),  # the host's, for checkers that share
    *_columns(Integer, "added_day", "touched_day"),
    Column("checked_day", Integer),
    Column("due_day", Integer),  # None: not to be checked
    *_columns(SmallInteger, "state", "code", "fails", server_default="0"),
    *_columns(Integer, "first_fail_day", "last_fail_day", nullable=True),
    Column("proofs", SmallInteger, nullable=False, server_default="0"),
    Column("history", LargeBinary(25)),  # links.check_history
    Column("mime", Text),  # an unusual type's short name (W66)
    Column("kib", Integer),  # … and its length
    Column("opinion_day", Integer),  # since when a browser's opinion is awaited; None: it is not
    Index("link_urls_host", "host_id", "due_day"),
    # A host's URLs, in the order of their paths: link search.
    Index("link_urls_paths", "host_id", text(PATH_HEAD), "id"),
    # Random order over a pass, not grouped by host (W40): within a day by a digest.
    Index("link_urls_due", "due_day", "key"),
    Index("link_urls_new", "due_day", "key", **_only("checked_day IS NULL")),
    Index("link_urls_opinion", "opinion_day", "key", **_only("opinion_day IS NOT NULL")),
    # Dead, usurped, always dead: those that a copy is looked for.
    Index("link_urls_lost", "id", **_only("state IN (3, 5, 8)")),
    # Failing: links that never worked are looked up in archives at once.
    Index("link_urls_dying", "id", **_only("state = 2")),
    Index("link_urls_touched", "touched_day"),
)

# Rewritten for each page; a removed reference keeps its row for a while.
refs = _table(
    "link_refs",
    *_key(page=BigInteger, url_id=BigInteger),  # page: link_pages.id
    Column("first_day", Integer, nullable=False),
    Column("gone_day", Integer),
    Column("spelling", Text),  # as written on the page (A17); None: as the identity key
    Index("link_refs_url", "url_id", "page"),
    Index("link_refs_gone", "gone_day", **_only("gone_day IS NOT NULL")),
    rowid=False,
)

# Who added a link, for some months: the account of the revision that it came with (X11).
additions = _table(
    "link_additions",
    *_key(page=BigInteger, url_id=BigInteger),
    Column("day", Integer, nullable=False),  # of the revision
    Column("rev_id", BigInteger, nullable=False),
    Column("account", Text, nullable=False),
    Index("link_additions_day", "day"),
    Index("link_additions_account", "account", "day"),
    Index("link_additions_url", "url_id"),
    rowid=False,
)

page_revisions = _table(
    "link_page_revisions",
    Column("page", BigInteger, primary_key=True, autoincrement=False),
    # read last; below 0: whose its links are is not certain
    Column("rev_id", BigInteger, nullable=False),
    rowid=False,
)

observations = _table(
    "link_observations",
    *_key(url_id=BigInteger, moment=BigInteger, how=SmallInteger),
    Column("code", SmallInteger, nullable=False),
    Column("verdict", Text, nullable=False),
    Column("http", SmallInteger),
    *_columns(Text, "final_url", "note", server_default=""),
    Column("similarity", SmallInteger),  # percent, to the copy
    Index("link_observations_moment", "moment"),
    rowid=False,
)

host_quirks = _table(
    "link_host_quirks",
    *_key(host_id=BigInteger, kind=SmallInteger),
    *_columns(Integer, "first_day", "last_day"),
    Index("link_host_quirks_last", "last_day"),
    rowid=False,
)

url_quirks = _table(
    "link_url_quirks",
    *_key(url_id=BigInteger, kind=SmallInteger),
    Column("value", Text, nullable=False, server_default=""),
    *_columns(Integer, "first_day", "last_day"),
    Index("link_url_quirks_last", "last_day"),
    rowid=False,
)

copies = _table(
    "link_copies",
    *_key(url_id=BigInteger, service=Text),
    Column("address", Text, nullable=False, server_default=""),  # empty: none chosen (W30)
    Column("timestamp", Text, nullable=False, server_default=""),  # 14 digits
    *_columns(Integer, "found_day", "checked_day"),
    Column("chosen_by", Text, nullable=False, server_default=""),  # empty: by us
    Column("is_locked", Boolean, nullable=False, server_default=sa.false()),  # W31
    Column("due_day", Integer),  # of the next visit; None: never
    Column("missed_day", Integer),  # a visit did not find it; the next that does not drops it (W32)
    Index("link_copies_due", "due_day"),
    rowid=False,
)

# Versions other than the chosen one, each the best for the day of some citation (B06).
copy_versions = _table(
    "link_copy_versions",
    *_key(url_id=BigInteger, service=Text, address=Text),
    Column("timestamp", Text, nullable=False),  # 14 digits
    Column("found_day", Integer, nullable=False),
    rowid=False,
)

# Last query of archives about a URL, and its result (B12).
copy_searches = _table(
    "link_copy_searches",
    Column("url_id", BigInteger, primary_key=True, autoincrement=False),
    Column("day", Integer, nullable=False),
    Column("outcome", SmallInteger, nullable=False),  # links.archives.copy_store.CopySearchOutcome
    Column("note", Text, nullable=False, server_default=""),
    Index("link_copy_searches_day", "day"),
    rowid=False,
)

reports = _table(
    "link_reports",
    Column("id", _Id, primary_key=True),
    *_columns(BigInteger, "url_id", "host_id", "moment"),
    Column("expires_day", Integer, nullable=False),  # the last day on which it applies
    Column("reporter", LargeBinary(16), nullable=False),  # a keyed digest
    sa.UniqueConstraint("url_id", "reporter"),
    Index("link_reports_host", "host_id"),
    Index("link_reports_expires", "expires_day"),
)

replacements = _table(
    "link_replacements",
    Column("url_id", BigInteger, primary_key=True, autoincrement=False),
    Column("address", Text, nullable=False),
    Column("state", SmallInteger, nullable=False, server_default="0"),
    Column("moment", BigInteger, nullable=False),
    Column("reporter", LargeBinary(16), nullable=False),
    Column("since_day", Integer, nullable=False, server_default="0"),  # in this state
    Column("tested_day", Integer),
    Index("link_replacements_state", "state", "tested_day"),
)

# Numbers of actions by day and kind; the last of each reader, a keyed digest, is kept for a day.
acts = _table("link_acts", *_key(act=SmallInteger, day=Integer), Column("count", Integer, nullable=False), rowid=False)

actors = _table(
    "link_actors",
    *_key(reporter=LargeBinary(16), act=SmallInteger),
    Column("moment", BigInteger, nullable=False),
    Index("link_actors_moment", "moment"),
    rowid=False,
)

marks = _table(
    "link_marks",
    Column("id", _Id, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("pattern", Text, nullable=False),  # core.url_patterns
    Column("key", Text, nullable=False, server_default=""),  # of a setting, and its value
    *_columns(Text, "value", "reason", "actor", server_default=""),
    Column("moment", BigInteger, nullable=False),
    *_columns(BigInteger, "expires", "lifted", nullable=True),
    Column("lifted_by", Text, nullable=False, server_default=""),
    # links.feedback.marks.MarkProgress
    Column("settled", SmallInteger, nullable=False, server_default="0"),
)

spam_lists = _table(
    "link_spam_lists",
    *_key(farm_id=SmallInteger, wiki_id=Integer, name=Text),  # wiki_id 0: all of the farm
    Column("kind", Text, nullable=False),  # links.rules.spam_list.SpamListKind
    Column("content", Text, nullable=False),
    Column("digest", LargeBinary(16), nullable=False),
    Column("loaded_day", Integer, nullable=False),
    rowid=False,
)

spam_hits = _table(
    "link_spam_hits",
    *_key(page=BigInteger, key=LargeBinary(16)),
    Column("wiki_id", Integer, nullable=False),
    *_columns(Text, "url", "list"),
    *_columns(Integer, "line", "first_day", "last_day"),
    Index("link_spam_hits_wiki", "wiki_id", "page"),
    Index("link_spam_hits_key", "key"),
    rowid=False,
)

excluded = _table(
    "link_excluded",
    *_key(wiki_id=Integer, entry=Text),
    *_columns(BigInteger, "links", "pages"),
    Column("last_day", Integer, nullable=False),
)

invalid = _table(
    "link_invalid",
    *_key(page=BigInteger, key=LargeBinary(16)),  # key: a digest of the text
    Column("text", LargeBinary, nullable=False),  # it may hold what no text of a database may
    # core.urls.UrlFault, or links.rules.link_class.MISSING_TARGET, FTP
    Column("reason", Text, nullable=False),
    Column("first_day", Integer, nullable=False),
    Index("link_invalid_key", "key"),
    rowid=False,
)

imports = _table(
    "link_imports",
    Column("digest", LargeBinary(16), primary_key=True),  # of what is imported
    Column("page", BigInteger, nullable=False),  # the last that was written, in their order
    Column("pages", BigInteger, nullable=False),
    Column("day", Integer, nullable=False),
)

passes = _table(
    "link_passes",
    Column("id", _Id, primary_key=True),
    Column("part", Text, nullable=False),
    Column("started", BigInteger, nullable=False),
    Column("ended", BigInteger),
    Column("due", BigInteger, nullable=False),
    Column("done", BigInteger, nullable=False, server_default="0"),
    Column("batch", BigInteger, nullable=False, server_default="0"),  # of results, booked once each
    Index("link_passes_part", "part", "started"),
)

# Links by state, counted once a day when a check run ends.
state_counts = _table(
    "link_state_counts",
    *_key(day=Integer, state=SmallInteger),  # state: links.states.LinkState
    Column("links", BigInteger, nullable=False),
    rowid=False,
)

leases = _table(
    "link_leases",
    Column("part", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    *_columns(BigInteger, "fence", "until"),
)

webhook_signatures = _table(
    "link_webhook_signatures",
    Column("signature", LargeBinary(32), primary_key=True),
    Column("moment", BigInteger, nullable=False),  # of the signature
    Index("link_webhook_signatures_moment", "moment"),
)

feeds = _table(
    "link_feeds",
    *_key(wiki_id=Integer, kind=Text),  # kind: changes, stream, sweep, …
    Column("cursor", Text, nullable=False, server_default=""),  # as the feed has it
    Column("moment", BigInteger, nullable=False),  # when it last reached that point
    # why it does not go on; empty: it does
    Column("trouble", Text, nullable=False, server_default=""),
    rowid=False,
)

# Links to archive. Rows are deleted when the frontier has them, so that a crash loses none.
wanted = _table(
    "link_wanted",
    *_key(page=BigInteger, url_id=BigInteger),  # page: link_pages.id
    Column("since", BigInteger, nullable=False),
    Column("due", BigInteger, nullable=False),  # the second check, or the next attempt to hand it on
    Column("attempts", SmallInteger, nullable=False, server_default="0"),
    Column("wiki_id", Integer, nullable=False),
    # links.registry.archive_backlog.ArchivePriority
    Column("priority", SmallInteger, nullable=False),
    Index("link_wanted_due", "wiki_id", "priority", "due"),
    Index("link_wanted_url", "url_id"),
    rowid=False,
)

citations = _table(
    "link_citations",
    *_key(page=BigInteger, url_id=BigInteger),  # page: link_pages.id
    Column("way", Text, nullable=False),  # wiki.wikitext.citation_model.CitationForm
    Column("access_day", Integer),  # as written (B05)
    *_columns(Text, "archive_url", "archive_timestamp", server_default=""),
    # bits: marked dead, paywall, …
    Column("facts", SmallInteger, nullable=False, server_default="0"),
    Index("link_citations_url", "url_id"),
    rowid=False,
)

edits = _table(
    "link_edits",
    Column("id", _Id, primary_key=True),
    Column("wiki_id", Integer, nullable=False),
    Column("page_id", BigInteger, nullable=False),  # the wiki's own
    # links.registry.bot_edits.EditKind
    Column("kind", Text, nullable=False, server_default="page"),
    Column("job", Text, nullable=False),  # named in the edit summary
    *_columns(BigInteger, "moment", "base_rev"),
    Column("rev", BigInteger),  # None: not made, or the wiki reported no change
    Column("digest", Text, nullable=False, server_default=""),  # SHA-1 of the text that was sent
    Column("basis", LargeBinary(16)),  # of the state of knowledge when there was nothing to do
    Column("state", SmallInteger, nullable=False),  # links.registry.bot_edits.EditState
    Column("undone_rev", BigInteger),  # the revision that undid it
    *_columns(Text, "undone_by", "note", server_default=""),
    Column("checked", BigInteger),  # time of the last check for a revert
    Column("is_reported", Boolean, nullable=False, server_default=sa.false()),  # its revert was added as a report
    Column("reviewed", BigInteger),  # time of the review
    Column("reviewed_by", Text, nullable=False, server_default=""),
    Index("link_edits_page", "wiki_id", "page_id"),
    Index("link_edits_state", "wiki_id", "state", "moment"),
)

edit_changes = _table(
    "link_edit_changes",
    *_key(edit_id=BigInteger, number=SmallInteger),
    Column("page", BigInteger, nullable=False),  # link_pages.id
    Column("url_id", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),  # what was done to it
    *_columns(Text, "before", "after"),
    Column("is_undone", Boolean, nullable=False, server_default=sa.false()),
    Index("link_edit_changes_link", "page", "url_id"),
    rowid=False,
)

# Prevents two bot runs from editing one wiki at the same time.
edit_turns = _table(
    "link_edit_turns",
    Column("wiki_id", Integer, primary_key=True, autoincrement=False),
    Column("holder", Text, nullable=False),  # a name that no other run has
    Column("until", BigInteger, nullable=False),
)

# By place: a new fault goes to the end of `PlaybackFault`, and needs a migration for its index.
FAULT_BITS = {fault: 1 << place for place, fault in enumerate(PlaybackFault)}
# No two rows are alike in it, so that a page of results can begin behind any.
_WORST_FIRST = ("standing", "score", "page_id", "level")


def _fault(fault: PlaybackFault) -> str:
    return f"(faults & {FAULT_BITS[fault]})"


def has_fault(fault: PlaybackFault) -> str:
    """Return the condition of a fault: its column's value and, redundantly, its partial index's condition."""
    return f"{_fault(fault)} = {FAULT_BITS[fault]} AND {_fault(fault)} <> 0"


quality = _table(
    "link_quality",
    *_key(page_id=_Bytes, level=_Bytes),  # of the visit, of playback
    Column("url_key", LargeBinary(16), nullable=False),  # links.url_parts.key_of
    *_columns(Text, "url", "host"),
    Column("page_class", Text, nullable=False, server_default=""),
    *_columns(BigInteger, "captured_ms", "checked_ms"),
    Column("engine", Text, nullable=False),
    Column("verdict", SmallInteger, nullable=False),  # the place in qa.check_store.VERDICTS
    Column("standing", SmallInteger, nullable=False),  # the person's verdict, else the machine's
    Column("score", Double, nullable=False),  # -1: nothing could be compared
    *_columns(Double, "picture", "text", "resources", nullable=True),
    Column("faults", Integer, nullable=False, server_default="0"),  # FAULT_BITS
    Column("lost", Text, nullable=False, server_default="[]"),  # JSON: [[URL, reason], …]
    *_columns(Integer, "parts_seen", "parts_shown", server_default="0"),
    Column("reason", Text, nullable=False, server_default=""),
    Column("seconds", Double, nullable=False, server_default="0"),
    Column("better", Text, nullable=False, server_default=""),  # another capture's page id
    Column("review", SmallInteger),  # a verdict; None: not reviewed
    Column("reviewed_by", Text, nullable=False, server_default=""),
    Column("reviewed_ms", BigInteger),
    Column("note", Text, nullable=False, server_default=""),
    Column("repair", SmallInteger, nullable=False, server_default="0"),  # quality.REPAIRS
    Column("repair_page_id", _Bytes, nullable=False, server_default=""),  # of the new capture
    Column("repair_ms", BigInteger),
    Column("changed_ms", BigInteger, nullable=False),  # the latest of the moments above
    # in a WARC, as it is now
    Column("is_recorded", Boolean, nullable=False, server_default=sa.false()),
    Index("link_quality_worst", *_WORST_FIRST),
    Index("link_quality_host", "host", *_WORST_FIRST),
    Index("link_quality_class", "page_class", *_WORST_FIRST),
    Index("link_quality_level", "level", *_WORST_FIRST[:-1]),
    # All columns that queries need except the host, so that counting reads no rows.
    Index("link_quality_tally", "standing", "page_class", "level", "faults", "review", "score"),
    *(
        Index(
            f"link_quality_{fault.replace('-', '_')}",
            text(_fault(fault)),  # otherwise SQLite would read the index of all rows
            *_WORST_FIRST,
            **_only(f"{_fault(fault)} <> 0"),
        )
        for fault in PlaybackFault
    ),
    Index("link_quality_url", "url_key"),
    Index("link_quality_checked", "checked_ms", "verdict"),
    # Of all that was ever repaired; the next one is of the few that are still to be.
    Index("link_quality_repairs", "repair", "repair_ms", "page_id", **_only("repair <> 0")),
    Index("link_quality_repair", "repair", "repair_ms", "page_id", **_only("repair IN (1, 2)")),
    Index("link_quality_repaired", "repair_page_id", **_only("repair_page_id <> ''")),
    Index(*("link_quality_unrecorded", "page_id", "level"), **_only("is_recorded = 0", "NOT is_recorded")),
)
