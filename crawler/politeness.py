"""How gently a host is asked, and when a failed URL is tried again: pure arithmetic of moments."""

from datetime import datetime, timedelta

from core.settings import FrontierSettings, PolitenessSettings

# A delay that doubles must not outgrow what a calendar can hold; nobody waits longer for a URL.
LONGEST_RETRY = timedelta(days=7)
# RFC 9110 10.2.3; a site cannot send us away for longer.
RETRY_AFTER_LIMIT = timedelta(hours=24)
_DOUBLINGS = 40


def host_delay(duration: timedelta, settings: PolitenessSettings) -> timedelta:
    """How long a host is left alone after a visit that took `duration`.

    It is Heritrix's rule: a multiple of what the host needed, at least and at most so long. Where
    the settings contradict each other the longer delay holds.
    """
    wanted = max(duration.total_seconds(), 0.0) * settings.delay_factor
    return timedelta(seconds=max(min(wanted, settings.max_delay_s), settings.min_delay_s))


def longest_rest(settings: PolitenessSettings) -> timedelta:
    """No host rests for longer, whatever a visit or a robots.txt asks for."""
    return timedelta(
        seconds=max(settings.min_delay_s, settings.max_delay_s, settings.crawl_delay_limit_s)
    )


def longest_back_off(settings: PolitenessSettings) -> timedelta:
    """Return how long a host that refused us or cannot be reached is left alone at most."""
    configured = max(settings.host_retry_limit_s, settings.host_down_s)
    return max(timedelta(seconds=configured), RETRY_AFTER_LIMIT)


def longest_wait(settings: PolitenessSettings) -> timedelta:
    """Return how long a queued URL waits for its next attempt at most."""
    return max(LONGEST_RETRY, longest_back_off(settings))


def retry_at(now: datetime, failures: int, settings: FrontierSettings) -> datetime:
    """When a URL that failed `failures` times (1 or more) is tried again.

    The delay doubles with each failure (A04), up to a week.
    """
    doublings = min(max(failures - 1, 0), _DOUBLINGS)
    seconds = settings.retry_delay_s * 2.0**doublings
    return now + timedelta(seconds=min(seconds, LONGEST_RETRY.total_seconds()))


def host_retry_at(now: datetime, failures: int, settings: PolitenessSettings) -> datetime:
    """When a host that refused us `failures` times in a row (1 or more) may be asked again.

    The delay doubles with each refusal, up to `host_retry_limit_s`.
    """
    doublings = min(max(failures - 1, 0), _DOUBLINGS)
    seconds = settings.host_retry_s * 2.0**doublings
    return now + timedelta(seconds=min(seconds, settings.host_retry_limit_s))
