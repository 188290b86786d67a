"""Lifecycle of the recorder: recovery, start-up, serving, shutdown."""

import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from core.config.settings import Settings
from core.errors import IndexUnavailableError
from core.layout import Layout
from core.timestamps import from_unix_milliseconds
from proxy.archiving_proxy import LOOPBACK, ArchivingProxy, ListenAddress
from proxy.control.handshake import ClusterSecret
from proxy.control.server import ControlServer, TcpControlServer
from proxy.exchange import now_ms
from proxy.limits import ByteCounter
from warc.local_storage import ScratchKind, scratch_folder
from warc.recovery import WarcRecovery, recover_collection

# Blocked threads hand the interpreter over at most this late; the default of 5 ms is an eternity
# for a proxy whose requests take half of one.
SWITCH_INTERVAL_S = 0.0005
# Nothing here is in cycles but exceptions now and then; looking for them every 700 objects, through
# all that a visit has gathered, was a tenth of the work.
GC_THRESHOLD = 50_000
RETRY_S = 1.0  # between two questions to an index that does not answer
POLL_S = 0.05  # how often the servers look whether they are to end


@dataclass(frozen=True, slots=True)
class TcpControl:
    """TCP address of the control server, and the secret that workers must hold."""

    host: str
    port: int
    secret: ClusterSecret


@dataclass(frozen=True, slots=True)
class RunningProxy:
    """Proxy in service."""

    proxy: ArchivingProxy
    control: ControlServer | TcpControlServer
    recovered: Sequence[WarcRecovery]  # results of the recovery before start-up

    @property
    def control_port(self) -> int:
        """Return the TCP port of the control server; 0 with a unix socket."""
        return self.control.port


@contextmanager
def run_proxy(
    layout: Layout,
    settings: Settings,
    *,
    control: Path | TcpControl,
    tally: Callable[[], ByteCounter] = ByteCounter,
    listen: ListenAddress = LOOPBACK,
) -> Iterator[RunningProxy]:
    """Run a proxy, controlled by unix socket or TCP, until the end of the block; then write pending records."""
    recovered = _recover(layout, settings)
    with ExitStack() as stack:
        spool = stack.enter_context(scratch_folder(ScratchKind.SPOOL, layout.root))
        proxy = ArchivingProxy(layout, settings, now_ms=now_ms, spool_folder=spool, tally=tally(), listen=listen)
        stack.callback(proxy.close)
        server: ControlServer | TcpControlServer
        if isinstance(control, Path):
            server = ControlServer(control, proxy)
        else:
            server = TcpControlServer((control.host, control.port), proxy, control.secret)
            host, port = server.server_address[:2]
            proxy.keep_from((str(host), port))
        threading.Thread(target=proxy.serve_forever, args=(POLL_S,), daemon=True).start()
        stack.callback(proxy.shutdown)
        threading.Thread(target=server.serve_forever, args=(POLL_S,), daemon=True).start()
        stack.callback(server.server_close)
        stack.callback(server.shutdown)
        yield RunningProxy(proxy, server, recovered)


def _recover(layout: Layout, settings: Settings) -> list[WarcRecovery]:
    """Recover the collection; wait for a shared index that does not answer yet."""
    deadline = time.monotonic() + settings.index.patience_s
    while True:
        try:
            return recover_collection(
                layout, settings.proxy, now=from_unix_milliseconds(now_ms()), index=settings.index
            )
        except IndexUnavailableError:
            if time.monotonic() >= deadline:
                raise
        threading.Event().wait(RETRY_S)


def tune_interpreter() -> None:
    """Set interpreter and resolver options for a process with many threads."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.freeze()  # what is imported stays
    gc.set_threshold(GC_THRESHOLD, 20, 20)
    # The system's resolver would spend half a minute on a name whose servers keep silent, and a
    # page can name many; the operator may override this (resolv.conf(5)).
    os.environ.setdefault("RES_OPTIONS", "timeout:3 attempts:2")
