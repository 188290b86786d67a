"""The bot: it mends citations whose links are confirmed dead, and does nothing unless switched on.

running     a run over a wiki's pages: recover, watch, mend
deciding    which links get which remedy: pure
crafts      how text is read and repaired, for one wiki
acting      one page: read, repair, verify, book, save
guarding    whether editing is allowed now, and how fast
watching    what became of edits; fates decides, purely
reviewing   reverted edits, until somebody says who was right
talking     messages on talk pages
recovering  edits of which nobody knows whether they were made
"""
