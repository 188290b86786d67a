"""Tests of `playback.replay.sanitizer.prescan`."""

import pytest

from playback.replay.sanitizer.prescan import doctype_of

pytestmark = pytest.mark.playback


LIMITED_QUIRKS = (
    '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Transitional//EN"'
    ' "http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd">'
)


@pytest.mark.parametrize(
    ("doctype", "own_doctype"),
    [
        ('PUBLIC "-//W3C//DTD HTML 4.01 Transitional//EN"', ""),
        ('PUBLIC "-//W3C//DTD HTML 3.2 Final//EN"', ""),
        ("PUBLIC '-//W3C//DTD HTML 4.01 Transitional//EN' 'http://x/loose.dtd'", LIMITED_QUIRKS),
        ('PUBLIC "-//W3C//DTD XHTML 1.0 Transitional//EN" "http://x/t.dtd"', LIMITED_QUIRKS),
        ('PUBLIC "-//W3C//DTD HTML 4.01//EN" "http://x/strict.dtd"', "<!DOCTYPE html>"),
        ('SYSTEM "about:legacy-compat"', "<!DOCTYPE html>"),
        ("", "<!DOCTYPE html>"),
    ],
)
def test_a_document_is_laid_out_by_the_rules_of_its_doctype(doctype: str, own_doctype: str) -> None:
    """Quirks, limited quirks and none are told apart as browsers do; the words are always ours."""
    assert doctype_of(f"<!-- a --> <!-- b -->\n<!DocType HTML {doctype}>\n<p>x") == own_doctype
