"""Cached copies beside links: one question for all links of a page (docs/embedding.md).

asking     what was sent, checked
saying     what is told of each link, in values and in words; pure
finding    asks the captures index, the link registry and the frontier's books, each once
serving    HTTP
gadget     the script for wikis where no extension can be installed
"""
