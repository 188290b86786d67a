"""Load of this machine: limits of waiting for an answer are for a processor that nobody else uses.

A page that computes for two seconds answers after eight where four share its processor. Deadlines are not
stretched.
"""

import os

STRETCH_LIMIT = 4.0


def stretched(limit_s: float) -> float:
    """Return the limit times the processes that wanted each processor in the last minute, at most four."""
    wanted = os.getloadavg()[0] / (os.cpu_count() or 1)
    return limit_s * min(max(wanted, 1.0), STRETCH_LIMIT)
