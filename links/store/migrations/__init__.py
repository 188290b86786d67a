"""Steps that bring an older registry's tables up to date, a module a step (`links.store.upgrading`)."""
