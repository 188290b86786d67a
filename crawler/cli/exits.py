"""Exit codes: one for each thing a caller may want to do next."""

from enum import IntEnum

from core.errors import (
    CollectionInUseError,
    CollectionVersionError,
    DiskFullError,
    InputError,
    TransientError,
    UnavailableError,
    WeboidError,
)


class Exit(IntEnum):
    """How a command ended."""

    OK = 0  # all that was asked for is done
    # fmt: off
    SOME_FAILED = 1  # done, but pages failed, lines were no URLs, `verify` found faults, or pictures differ
    # fmt: on
    INPUT = 2  # what was typed, or a file that it names, cannot be used: mend it
    UNAVAILABLE = 3  # something must be installed or started first; `weboid doctor` says what
    DISK_FULL = 4  # free some space, then run the same command again
    COLLECTION = 5  # the collection is in use, or of another version
    STOPPED = 6  # stopped as asked; the same command goes on where it stopped
    INTERNAL = 70  # our own mistake


def exit_for(error: WeboidError) -> Exit:
    """The code that an error ends a command with."""
    match error:
        case InputError():
            return Exit.INPUT
        case DiskFullError():
            return Exit.DISK_FULL
        case CollectionInUseError() | CollectionVersionError():
            return Exit.COLLECTION
        case UnavailableError() | TransientError():
            return Exit.UNAVAILABLE
        case _:
            return Exit.INTERNAL
