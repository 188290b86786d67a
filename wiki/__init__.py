"""Wikis: watch pages, embed cached links, edit as a bot.

api        a wiki's action API: asked gently, its facts as values
wikitext   wikitext as citations, and citations mended by replacing spans of text
feeding    what changed on a wiki, into the link registry, and on to the archive
embedding  cached copies beside links in HTML, for any engine
editing    the bot
adding     how a wiki comes into the registry
settings   what an operator says of a wiki
mediawiki  the extension for MediaWiki (PHP)

Within the package imports point down as this list is read backwards: editing and feeding use wikitext
and api; embedding uses none of them. Truth is pulled: whatever rings (a poll, a datagram, a stream,
the extension) only says where to look, and what is written is what the wiki's API then tells.
"""
