"""Settings, sheets that override them for a part of the web, and profiles in TOML."""
