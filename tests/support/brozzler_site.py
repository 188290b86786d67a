"""Archives a site with brozzler's own worker, in the environment of the reference programs: PROXY SEED CHROME.

Its frontier and service registry are in RethinkDB, which is packaged nowhere; so the pages are taken here from
the outlinks that it reports. Everything else is brozzler's as it was installed.
"""

import sys

import brozzler
import brozzler.worker


def main() -> None:
    """Brozzle the seed and what it links to on the same host."""
    proxy, seed, chrome = sys.argv[1:]
    worker = brozzler.worker.BrozzlerWorker(None, proxy=proxy, chrome_exe=chrome, skip_youtube_dl=True)
    meta = {
        "warc-prefix": "brozzled",
        "dedup-buckets": {"brozzled": "rw"},
        "stats": {"buckets": ["brozzled"]},
        "limits": {"brozzled/total/urls": 1000},
        "blocks": [{"substring": "/blocked"}],
        "metadata": {"job": "test"},
    }
    site = brozzler.Site(None, {"id": 1, "seed": seed, "warcprox_meta": meta, "metadata": {}})
    waiting, seen = [seed], {seed}
    browser = brozzler.browser.Browser(chrome_exe=chrome, ignore_cert_errors=True)  # started by the worker
    try:
        while waiting:
            page = brozzler.Page(None, {"url": waiting.pop(0), "site_id": 1})
            for link in worker.brozzle_page(browser, site, page):
                if link.startswith(seed) and link not in seen:
                    seen.add(link)
                    waiting.append(link)
    finally:
        browser.stop()


if __name__ == "__main__":
    main()
