"""Number of examples of a property: all of them in the suite, few in `make check`."""

from hypothesis import HealthCheck, settings

BRIEF = "brief"
_BRIEF_EXAMPLES = 10
_EXAMPLES = 30  # of a property that names no number; each run draws others


def register() -> None:
    """Make known the profile that `make check` names: the same properties, fewer examples each."""
    # No deadline, and no examples too slow to draw: a busy machine is no fault of the code. What a test takes
    # from its fixtures serves all of its examples.
    settings.register_profile(
        "default",
        settings.get_profile("default"),
        deadline=None,
        max_examples=_EXAMPLES,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )
    settings.load_profile("default")
    settings.register_profile(BRIEF, settings.get_profile("default"), max_examples=_BRIEF_EXAMPLES)


def examples(count: int) -> int:
    """Return the number for ``@settings(max_examples=…)``: `count`, or few when the profile says so."""
    if settings.get_current_profile_name() == BRIEF:
        return min(count, _BRIEF_EXAMPLES)
    return count
