"""Where things lie, and what may name them."""

import doctest

import core.layout


def test_the_examples_in_the_docstrings_of_layout_hold() -> None:
    """Documentation is run, so it stays true."""
    assert doctest.testmod(core.layout).failed == 0
