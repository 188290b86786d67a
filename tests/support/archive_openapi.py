"""Responses held to the OpenAPI document of the archive's APIs (docs/reference/archive-openapi.yaml)."""

from typing import Any

import jsonschema_rs

from scripts.interfaces import archive_description


def check_response(path: str, status: int, body: object = None) -> None:
    """Check that the path may answer so, with this JSON if there is any. Raises AssertionError."""
    document = archive_description()
    responses = document["paths"][path]["get"]["responses"]
    assert str(status) in responses, (path, status)
    if body is None:
        return
    content = responses[str(status)]["content"]
    schema: dict[str, Any] = {**content["application/json"]["schema"], "components": document["components"]}
    faults = [each.message for each in jsonschema_rs.validator_for(schema).iter_errors(body)]
    assert not faults, faults
