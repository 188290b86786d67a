"""What readers say about links, on pages of their own: reports, withdrawals, replacements (W13-W18).

    letters.py  a form that was sent: where from, how long, what kind, whose token
    acts.py     what it asks for, done in the registry
    pages.py    the pages

A page asks, shows what would be said, and says it only when its button is pressed: nothing changes by
following a link. No cookie and no script is needed.
"""
