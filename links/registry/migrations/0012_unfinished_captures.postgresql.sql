-- Find checks whose capture was unfinished.

CREATE INDEX link_quality_unfinished ON link_quality ((faults & 512), standing, score, page_id, level) WHERE (faults & 512) <> 0;
