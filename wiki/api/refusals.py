"""What a wiki's answer says against us, as errors: by the API's code, and by the status of HTTP."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from core.http_dates import parse_http_date, parse_retry_after
from core.texts import parse_json
from core.urls import host_of
from wiki.api.errors import (
    LoggedOutError,
    NotAllowedError,
    ReadOnlyError,
    ThrottledError,
    WikiAwayError,
    WikiRefusedError,
)
from wiki.api.http import Reply

RETRY_MOST_S: Final = 86_400.0
_LAG_RETRY_S: Final = 5.0  # what MediaWiki itself says in Retry-After when a database lags
_SAID_CHARS: Final = 500

LOGGED_OUT: Final = frozenset(
    (
        *("assertuserfailed", "assertbotfailed", "assertnameduserfailed", "readapidenied"),
        *("notloggedin", "mustbeloggedin", "mustbeloggedin-generic", "login-required"),
        *("mwoauth-invalid-authorization", "mwoauth-invalid-authorization-invalid-user"),
        *("permissiondenied-read", "sessionlost"),
    )
)
_NOT_ALLOWED: Final = frozenset(
    (
        *("permissiondenied", "blocked", "autoblocked", "systemblocked", "blockedfrompage"),
        *("protectedpage", "protectedtitle", "protectednamespace", "protectednamespace-interface"),
        *("cascadeprotected", "cantcreate", "cantcreate-anon", "cantedit", "noedit", "noedit-anon"),
        *("noimageredirect", "spamdetected", "spamblacklist", "captcha", "filtered", "hookaborted"),
        *(
            "writeapidenied",
            "noapiwrite",
            "confirmemail",
            "cantchangecontentmodel",
            "customcssjsprotected",
        ),
        *("titleblacklist-forbidden", "titleblacklist-forbidden-edit", "mwoauth-oauth-exception"),
        *("sitecssprotected", "sitejsonprotected", "sitejsprotected", "actionthrottledtext-filter"),
    )
)
_NOT_ALLOWED_STARTS: Final = (
    "abusefilter-",
    "globalblocking-",
    "wikimedia-",
    "centralauth-",
    "tor-",
)
_THROTTLED: Final = frozenset(("ratelimited", "maxlag", "actionthrottledtext", "poolcounter-error"))


def reading(reply: Reply) -> dict[str, Any] | None:
    """The JSON object in the answer; None when there is none."""
    try:
        told = parse_json(reply.body)
    except ValueError:
        return None
    return told if isinstance(told, dict) else None


def check_status(reply: Reply) -> None:
    """See what the status alone says, of an answer that has no error of the API's.

    Raises:
        WikiAwayError, LoggedOutError, NotAllowedError, WikiRefusedError: it is not 200.
    """
    status, host = reply.status, host_of(reply.url)
    if status == 429:
        raise ThrottledError(f"{host} says that we ask too often.", retry_s=retry_after(reply))
    if status >= 500 or status in {408, 425}:
        raise WikiAwayError(f"{host} answers {status}.", retry_s=retry_after(reply))
    if status == 401:
        raise LoggedOutError(
            f"{host} asks for a user and a password before it shows the wiki: write user:password "
            "into a file and name it with --basic-file."
        )
    if status == 403:
        raise NotAllowedError(
            f"{host} forbids us to ask (403): its operator may have blocked robots, or this address."
        )
    if status != 200:
        raise WikiRefusedError(
            f"http-{status}", f"{host} has no API at {reply.url.partition('?')[0]}."
        )


def check_answer(told: Mapping[str, Any], reply: Reply, *, host: str) -> None:
    """See what error the answer tells.

    Raises:
        WikiAwayError, LoggedOutError, NotAllowedError, WikiRefusedError: it does.
    """
    found = error_in(told)
    if found is None:
        return
    code, info = found
    said = f"{host} says {code}: {info}"
    if code in _THROTTLED:
        wait = retry_after(reply) or (_LAG_RETRY_S if code == "maxlag" else 0.0)
        raise ThrottledError(said, retry_s=wait)
    if code == "readonly":
        raise ReadOnlyError(said, retry_s=retry_after(reply))
    if code.startswith("internal_api_error") or code in {"timeout", "unknownerror"}:
        raise WikiAwayError(said, retry_s=retry_after(reply))
    if code in LOGGED_OUT:
        raise LoggedOutError(
            f"{said.rstrip('.')}. Give an account that may read it: --account NAME --password-file FILE."
        )
    if code in _NOT_ALLOWED or code.startswith(_NOT_ALLOWED_STARTS):
        raise NotAllowedError(said, code=code)
    raise WikiRefusedError(code, info)


def error_in(told: Mapping[str, Any]) -> tuple[str, str] | None:
    """The first error's code and words, in whichever error format; None without one."""
    found = told.get("error")
    several = told.get("errors")
    if found is None and isinstance(several, list) and several:
        found = several[0]
    if found is None:
        return None
    if not isinstance(found, dict):
        return "unknown", " ".join(str(found).split())[:_SAID_CHARS]
    words = found.get("info") or found.get("text") or found.get("*") or found.get("html") or ""
    code = "".join(char for char in str(found.get("code") or "unknown") if char.isprintable())
    plain = "".join(char if char.isprintable() else " " for char in str(words))
    return code[:100], " ".join(plain.split())[:_SAID_CHARS]


def retry_after(reply: Reply) -> float:
    """Return the seconds that the wiki asks to be left alone (RFC 9110 10.2.3); 0: it does not say.

    A date is compared with the wiki's own clock, which its Date header tells.
    """
    wait = parse_retry_after(
        reply.headers.get("retry-after", ""),
        now=parse_http_date(reply.headers.get("date", "")),
        limit=timedelta(seconds=RETRY_MOST_S),
    )
    return 0.0 if wait is None else wait.total_seconds()
