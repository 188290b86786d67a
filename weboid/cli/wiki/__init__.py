"""Commands of `weboid wiki`: watched wikis and the bot."""
