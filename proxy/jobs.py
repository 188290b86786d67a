"""What the archivist is asked to do, and what of it has to wait for another machine.

A payload that another machine is writing makes its record wait for a later batch. Who asks for all
to be on disk waits behind it. All others go on.
"""

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime

from core.captures import RecordLocation
from core.errors import TransientError
from proxy.builder import Original
from proxy.exchange import Recorded
from proxy.payloads.protocol import Claim, PayloadKey
from proxy.visits import Visit

# A batch takes milliseconds; whoever lives and needs so long for one has a disk that hangs.
BUSY_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Artifact:
    """A record that the worker made of a page, to be written as `resource`.

    Attributes:
        uri: ``urn:KIND:URL``.
        date: the moment of the page it belongs to.
        document: the URL of the document it was made of, for WARC-Concurrent-To.
    """

    uri: str
    content_type: str
    date: datetime
    document: str
    visit: Visit
    data: bytes


@dataclass(slots=True)
class Write:
    """Artifacts to write; `done` gets their places."""

    artifacts: tuple[Artifact, ...]
    done: "Future[list[RecordLocation]]" = field(default_factory=Future)


@dataclass(slots=True)
class Barrier:
    """Somebody who waits until all that was handed over before is on disk."""

    done: "Future[None]" = field(default_factory=Future)


Job = Recorded | Write | Barrier


@dataclass(slots=True)
class Sorted:
    """A batch: what is done now, what is put off, and what has been put off for too long."""

    ready: list[Job] = field(default_factory=list)
    put_off: list[Job] = field(default_factory=list)
    overdue: list[Recorded] = field(default_factory=list)


class PutOff:
    """The jobs that wait for other machines, and for which payloads. Used from one thread."""

    def __init__(self, limit_s: float = BUSY_LIMIT_S) -> None:
        self._limit_s = limit_s
        self._jobs: list[Job] = []
        self._waiting: set[PayloadKey] = set()  # what they wait for
        self._since: dict[PayloadKey, float] = {}

    def __bool__(self) -> bool:
        return bool(self._jobs)

    @property
    def keys(self) -> list[PayloadKey]:
        """The payloads that others are writing."""
        return list(self._waiting)

    def sort(
        self,
        batch: list[Job],
        keys: Mapping[int, PayloadKey | None],
        answers: Mapping[PayloadKey, Original | Claim],
        now: float,
    ) -> Sorted:
        """What to do with each job of the batch, in its order.

        Args:
            batch: the jobs.
            keys: `id` of a job -> its payload.
            answers: what `Payloads.claim` said.
            now: seconds of a clock that never goes back.
        """
        busy = {key for key, answer in answers.items() if answer is Claim.BUSY}
        self._waiting |= busy
        self._since = {key: self._since.get(key, now) for key in self._waiting}
        done = Sorted()
        for job in batch:
            key = keys.get(id(job))
            if key is not None and key in busy and isinstance(job, Recorded):
                late = now - self._since[key] > self._limit_s
                (done.overdue if late else done.put_off).append(job)
            elif isinstance(job, Barrier) and (done.put_off or self._jobs):
                done.put_off.append(job)
            else:
                done.ready.append(job)
        return done

    def add(self, jobs: list[Job]) -> int:
        """Put the jobs off; how many bytes they hold."""
        self._jobs += jobs
        return sum(job.spool.size for job in jobs if isinstance(job, Recorded))

    def take(self) -> list[Job]:
        """The jobs that were put off, for another try."""
        jobs, self._jobs = self._jobs, []
        self._waiting.clear()
        return jobs

    def too_late(self) -> TransientError:
        """What is said of an overdue job."""
        return TransientError(
            f"Another machine has been writing the same payload for over {self._limit_s:.0f} s:"
            " see whether its disk answers. The page is tried again."
        )
