"""httpx clients that see the test web under its names."""

import ssl

import httpx

from tests.support.sites.web import TestWeb


class _TableTransport(httpx.HTTPTransport):
    """Connects where the test web's table says; a name that it does not hold resolves to nothing."""

    def __init__(self, resolve: dict[str, str], context: ssl.SSLContext) -> None:
        super().__init__(verify=context, trust_env=False)
        self._resolve = resolve

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request to the real address, with its own name in Host and SNI."""
        moved, extensions = _moved(request, self._resolve)
        sent = httpx.Request(
            request.method,
            moved,
            headers=request.headers.raw,
            stream=request.stream,
            extensions={**request.extensions, **extensions},
        )
        return super().handle_request(sent)


def client(web: TestWeb, *, timeout_s: float = 20.0) -> httpx.Client:
    """Return a client that trusts the test web's authority and follows no redirect; the caller closes it."""
    context = ssl.create_default_context(cafile=web.ca_file)
    return httpx.Client(transport=_TableTransport(web.resolve, context), timeout=timeout_s, trust_env=False)


def _moved(request: httpx.Request, resolve: dict[str, str]) -> tuple[httpx.URL, dict[str, str]]:
    url = request.url
    port = url.port or {"http": 80, "https": 443}[url.scheme]
    place = resolve.get(f"{url.host}:{port}") or resolve.get(url.host)
    if place is None:
        raise httpx.ConnectError(f"The test web has no {url.host}:{port}.", request=request)
    host, _, number = place.partition(":")
    moved = url.copy_with(host=host, port=int(number) if number else port)
    return moved, {"sni_hostname": url.host}
