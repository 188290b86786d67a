"""Settings, the sheets that change them for a part of the web, and profiles in TOML."""
