"""Lines of MediaWiki's Spam blacklist: what one means, for whoever reads such lists.

A line is a fragment of a regular expression for a host and what follows; ``#`` begins a comment
anywhere, and letter case does not count. MediaWiki joins lines and runs them by PCRE; here each is
run by itself, by RE2, so that a line which cannot be run is named and harms no other.
"""

from core.errors import InputError
from core.expressions import check_regex

# What MediaWiki puts before each line: a scheme, and the beginning of a host. URLs within URLs count,
# such as those in the address of an archive's copy.
ANYWHERE = r"(?im)(?:https?:)?//+[a-z0-9_\-.]*(?:"
# The same, for the URL itself and nothing that its path or query holds.
AT_HOST = r"(?i)^https?://+[a-z0-9_\-.]*(?:"


def fragment_of(line: str) -> str:
    """What the line says: without its comment and the white space around; often nothing.

    >>> fragment_of("  casino-[a-z]+  # since 2009 ")
    'casino-[a-z]+'
    """
    return line.partition("#")[0].strip()


def fragment_expression(fragment: str, *, before: str = ANYWHERE) -> str:
    """The fragment as an expression (RE2) of its own.

    Raises:
        InputError: it cannot be run.
    """
    if fragment.endswith("\\"):
        raise InputError(
            f"{fragment[:200]!r} ends in a backslash, which would reach into the next line; MediaWiki "
            "leaves it out, too."
        )
    return check_regex(fragment, before=before, after=")")
