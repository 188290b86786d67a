"""Start a browser under the seccomp profile that docker-compose.yml names: ``… PROFILE``.

Loads the profile into this process with libseccomp, which Docker uses, too; prints how a visit to a
page of its own ended, and whether a call that the profile denies was refused.
"""

import asyncio
import ctypes
import json
import sys
from pathlib import Path

from core.clock import SystemClock
from core.config.settings import BrowserSettings, VisitSettings
from render.browser import Browser
from render.chromium import find_browser
from render.visit import VisitRequest, visit

ALLOW, ERRNO = 0x7FFF0000, 0x00050000  # seccomp_init(3)
OF_OTHER_MACHINES = -1  # such a number, or a lower one


def load(profile: Path) -> None:
    """Deny what the profile denies, from now on and to all children."""
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(ALLOW)))
    document = json.loads(profile.read_text())
    assert document["defaultAction"] == "SCMP_ACT_ALLOW"
    for rule in document["syscalls"]:
        assert rule["action"] == "SCMP_ACT_ERRNO"
        for name in rule["names"]:
            number = library.seccomp_syscall_resolve_name(name.encode())
            if number > OF_OTHER_MACHINES:
                action = ctypes.c_uint32(ERRNO | rule["errnoRet"])
                assert library.seccomp_rule_add(context, action, number, 0) == 0, name
    assert library.seccomp_load(context) == 0


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n<title>here</title>")
    await writer.drain()
    writer.close()


async def title_seen() -> str:
    """Visit a page; return its title."""
    clock = SystemClock()
    server = await asyncio.start_server(_answer, "127.0.0.1", 0)
    async with server, await Browser.launch(BrowserSettings(), find_browser(""), clock=clock) as b:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        seen = await visit(b, VisitRequest(url, None), VisitSettings(), clock=clock)
    return seen.title


async def main() -> None:
    """Visit a page under the profile."""
    load(Path(sys.argv[1]))
    mounted = ctypes.CDLL(None).mount(b"none", b"/mnt", b"tmpfs", 0, None)
    sys.stdout.write(json.dumps({"title": await title_seen(), "mounted": mounted == 0}))


if __name__ == "__main__":
    asyncio.run(main())
