"""Text of a PDF, read by a process of its own: the file on stdin, its text on stdout, limits set by the kernel.

PDFs are as untrusted as pages; only characters leave the process, and a damaged or endless file ends only that.
"""

import os
import resource
import signal
import subprocess
import sys
from contextlib import closing

PDF_LIMIT_BYTES = 50_000_000
_MEMORY_BYTES = 1_500_000_000
_SECONDS = 15
_PAGES = 500
_CHARS = 300_000


def extract_pdf_text(data: bytes) -> str:
    """Return the text of the first pages; empty when the file is too large, damaged, encrypted or too slow."""
    if not 0 < len(data) <= PDF_LIMIT_BYTES:
        return ""
    command = (sys.executable, "-P", "-m", "warc.text_index.pdf_text")
    environment = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LANG") if name in os.environ}
    try:
        done = subprocess.run(
            command, input=data, capture_output=True, timeout=2 * _SECONDS, check=False, env=environment
        )
    except (subprocess.TimeoutExpired, OSError):
        return ""
    return done.stdout.decode("utf-8", "replace")


def main() -> None:
    """Read the file and write its text."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(2 * _SECONDS)
    import pypdfium2

    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    left = _CHARS
    try:
        with closing(pypdfium2.PdfDocument(sys.stdin.buffer.read(PDF_LIMIT_BYTES))) as pdf:
            for number in range(min(len(pdf), _PAGES)):
                with closing(pdf[number]) as page, closing(page.get_textpage()) as text_page:
                    text = text_page.get_text_bounded()[:left]
                sys.stdout.buffer.write(text.encode("utf-8", "replace") + b"\n")
                left -= len(text)
                if left <= 0:
                    break
    except pypdfium2.PdfiumError:
        return


if __name__ == "__main__":
    main()
