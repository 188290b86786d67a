"""Use cases of wikis: clients, intake of cited links, checks of the set-up, runs of the bot."""
