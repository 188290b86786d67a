"""Registry of the links on wiki pages, link checker, and copies in other web archives."""
