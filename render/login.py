"""Telling the proxy, once for a context, which visit asks.

Chromium answers a proxy's 407 only through a person or an interceptor, and an interceptor holds up
every request. So requests are intercepted up to the first 407 and no further: from then on the
context knows the credentials for every frame, worker and tunnel.
"""

from collections.abc import Callable
from typing import Any

from render.browser import ProxyEndpoint


class ProxyLogin:
    """Answers the proxy of one tab's context."""

    def __init__(
        self, endpoint: ProxyEndpoint | None, post: Callable[[str, dict[str, Any]], None]
    ) -> None:
        self._endpoint = endpoint if endpoint is not None and endpoint.username else None
        self._post = post
        self._intercepting = False

    def start(self) -> None:
        """Intercept, when there are credentials to give."""
        if self._endpoint is not None:
            self._intercepting = True
            everything = {"handleAuthRequests": True, "patterns": [{"urlPattern": "*"}]}
            self._post("Fetch.enable", everything)

    def stop(self) -> None:
        """Hold up no more requests: the credentials are known, or nobody asks for them."""
        if self._intercepting:
            self._intercepting = False
            self._post("Fetch.disable", {})

    def asked(self, params: dict[str, Any]) -> None:
        """Somebody wants credentials: the proxy gets them once, a site never."""
        answer: dict[str, Any] = {"response": "CancelAuth"}
        if params["authChallenge"].get("source") == "Proxy" and self._endpoint is not None:
            answer = {
                "response": "ProvideCredentials",
                "username": self._endpoint.username,
                "password": self._endpoint.password,
            }
            # Asked again, we have nothing else to say.
            self._endpoint = None
        facts = {"requestId": params["requestId"], "authChallengeResponse": answer}
        self._post("Fetch.continueWithAuth", facts)
        self.stop()
