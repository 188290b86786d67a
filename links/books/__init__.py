"""What the registry knows, a noun a module: URLs, wikis, pages, and how to look them up.

They are functions over a connection of `links.store.store.Store`: whoever calls says where a
transaction begins and ends.
"""
