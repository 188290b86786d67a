"""What the raw targets of the front name: archived URLs, which no server may decode or merge."""

from starlette.requests import Request

from playback.addresses import parse_page_rest


def raw_rest(request: Request, segments: int) -> str:
    """What follows the first `segments` segments of the path, as it was sent, query included."""
    target: str = request.scope["raw_path"].decode("latin-1")
    query = request.scope["query_string"].decode("latin-1")
    if query:
        target += f"?{query}"
    return (target.split("/", segments + 1) + [""] * segments)[segments + 1]


def archived_url(rest: str) -> str | None:
    """The URL that stands in an address; None when it is none of the web."""
    parsed = parse_page_rest(rest)
    return None if parsed is None or parsed[0] is not None else parsed[1]
