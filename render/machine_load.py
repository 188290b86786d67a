"""Time limits that grow with the load of this machine.

Limits of single answers are chosen for an idle processor: a page that computes for two seconds answers after
eight where four processes share its processor. Deadlines of visits do not grow.
"""

import os

STRETCH_LIMIT = 4.0


def stretched(limit_s: float) -> float:
    """Return the limit times the load of each processor in the last minute, between once and four times."""
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    return limit_s * min(max(load, 1.0), STRETCH_LIMIT)
