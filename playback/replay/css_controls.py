"""Style rules for controls that cannot be used: those of a copy are all disabled, those of its page were not.

What was disabled then bears an attribute of ours. Rules for what is disabled are made to mean that, so
that no other control of the copy looks as if its visitor could not have used it.
"""

import re

WAS_DISABLED = "data-weboid-disabled"
CONTROLS = frozenset({"button", "fieldset", "input", "select", "textarea"})
_MARKED = f"[{WAS_DISABLED}]"
# As specific as what it stands for: a pseudo-class.
_UNMARKED = f":where({','.join(sorted(CONTROLS))}):not({_MARKED})"
_STATE = re.compile(r"(?<!\\):(disabled|enabled)(?![\w\\-])|\[\s*disabled\s*\]", re.IGNORECASE)


def rewrite_states(selector: str) -> str:
    """The selector, speaking of controls as they were when the page was captured.

    >>> rewrite_states("a > .b:disabled, c:not([disabled])")
    'a > .b[data-weboid-disabled], c:not([data-weboid-disabled])'
    """
    if "abled" not in selector.lower():
        return selector
    return _STATE.sub(
        lambda found: _UNMARKED if (found[1] or "").lower() == "enabled" else _MARKED, selector
    )
