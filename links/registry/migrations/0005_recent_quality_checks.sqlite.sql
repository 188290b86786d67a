-- Indexes for the numbers of recent checks of copies, and of repairs.

CREATE INDEX link_quality_checked ON link_quality (checked_ms, verdict);

CREATE INDEX link_quality_repairs ON link_quality (repair, repair_ms, page_id) WHERE repair <> 0;
