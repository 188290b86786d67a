"""Benchmarks of wikis: reading wikitext, look-ups, cost of saves and views, time until a link has its copy.

Each part is a module of its own with `figures`: `bench.wiki_parsing` reads pages (baseline: the parser with
the filters that a bot's author would use), `bench.wiki_lookup` asks the front about 500 links at once
(baseline: one by one), `bench.wiki_save` and `bench.wiki_view` use a real MediaWiki with and without the
extension, `bench.wiki_embed` the proxy that does the same for any engine, `bench.wiki_queued` saves pages in a
browser and waits for their marks, and `bench.wiki_playable` saves pages on a watched wiki and waits for their
copies (baseline: without the webhook).
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench import report

PARTS = ("parsing", "lookup", "save", "view", "embed", "queued", "playable")


if __name__ == "__main__":
    report.parts("wiki", __doc__ or "", PARTS)
