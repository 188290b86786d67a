"""MediaWiki integration: page watching, embedding of cached links, bot edits.

api        client of a wiki's action API, with typed results
wikitext   wikitext parsing, citation models, and repairs as replaced text spans
sync       import of page changes and links into the link registry and the archive queue
embed      markers and links to cached copies in HTML, for any wiki engine
bot        the repair bot
settings   per-wiki settings
mediawiki  the MediaWiki extension (PHP)

Import order: bot and sync use wikitext and api; embed uses none of them. Every notification (poll,
datagram, event stream, extension) only names pages to read; what is stored comes from the wiki's API.
"""
