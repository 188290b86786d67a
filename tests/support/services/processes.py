"""What the processes of a service are, asked in such a way that one may end meanwhile."""

import psutil


def arguments(process: psutil.Process) -> str:
    """Its words with blanks between; empty when it has ended, which a browser's processes do."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
