"""Arguments that several commands read in the same way."""

from core.errors import BadUrlError, InputError
from core.urls import host_of


def host_name(text: str) -> str:
    """A host's name as the frontier keeps it; a URL stands for its host.

    Raises:
        InputError: it is neither.

    >>> host_name("WWW.Example.ORG"), host_name("https://a.example:8443/x"), host_name("[::1]")
    ('www.example.org', 'a.example', '[::1]')
    """
    text = text.strip()
    try:
        return host_of(text if "://" in text else f"http://{text}/")
    except BadUrlError as error:
        raise InputError(f"{text[:80]!r} is no host: {error}") from error
