"""Tests of `weboid.cli.wiki.wiki_sweep`."""

import click

from weboid.cli.wiki import wiki_add, wiki_sweep, wiki_watch


def test_wikis_are_added_watched_and_swept_with_the_profile_for_them() -> None:
    """By default: what a wiki's editors cite is asked for by nobody who looks at it."""
    assert {_default_profile(each.command) for each in (wiki_add, wiki_watch, wiki_sweep)} == {"wiki"}


def _default_profile(command: click.Command) -> str:
    return str(next(each.default for each in command.params if each.name == "profile"))
