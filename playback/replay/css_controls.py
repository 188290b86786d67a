"""Style rules for states that a copy cannot have: its controls are all disabled, and nothing is on top.

What was disabled then bears an attribute of ours. Rules for what is disabled are made to mean that, so
that no other control of the copy looks as if its visitor could not have used it. So it is with dialogs
and popovers that stood above the page, which only scripts put there (HTML, 6.12).
"""

import re

WAS_DISABLED = "data-weboid-disabled"
CONTROLS = frozenset({"button", "fieldset", "input", "select", "textarea"})
_MARKED = f"[{WAS_DISABLED}]"
# As specific as what it stands for: a pseudo-class.
_UNMARKED = f":where({','.join(sorted(CONTROLS))}):not({_MARKED})"
# Marks of our DOM artifact, by what they stand for.
ON_TOP = {
    ":modal": "[data-weboid-modal]",
    ":popover-open": '[data-weboid-popover="open"]',
    "[popover]": "[data-weboid-popover]",
}
_ON_TOP = re.compile(r"(?<!\\):(?:modal|popover-open)(?![\w\\(-])|\[popover\]", re.IGNORECASE)
_STATE = re.compile(r"(?<!\\):(disabled|enabled)(?![\w\\-])|\[\s*disabled\s*\]", re.IGNORECASE)


def rewrite_states(selector: str) -> str:
    """The selector, speaking of controls and dialogs as they were when the page was captured.

    >>> rewrite_states("a > .b:disabled, c:not([disabled])")
    'a > .b[data-weboid-disabled], c:not([data-weboid-disabled])'
    """
    if "mod" in selector.lower() or "popover" in selector.lower():
        selector = _ON_TOP.sub(lambda found: ON_TOP[found[0].lower()], selector)
    if "abled" not in selector.lower():
        return selector
    return _STATE.sub(
        lambda found: _UNMARKED if (found[1] or "").lower() == "enabled" else _MARKED, selector
    )
