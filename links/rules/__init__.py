"""Rules of wikis about URLs: own hosts, spam lists, exclusion lists, link patterns."""
