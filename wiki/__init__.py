"""MediaWiki integration: page watching, embedding of cached links, bot edits.

Import order: bot and sync use wikitext and api; embed uses none of them; mediawiki is the extension (PHP).
Every notification (poll, datagram, event stream, extension) only names pages to read; what is stored comes
from the wiki's API.
"""
