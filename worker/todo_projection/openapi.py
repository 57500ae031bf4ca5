"""OpenAPI of the JSON routes, made from the shapes that read parameters and write answers: no second truth."""

from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import fields

from todo_projection.parameters import described, is_list
from todo_projection.refusal import Refused

REFERENCE = "#/components/schemas/{name}"

Json = dict[str, Any]


class Endpoint(NamedTuple):
    """A route as a client sees it; ``path_parameters`` maps the names in braces to what they mean."""

    path: str
    summary: str
    parameters: type[msgspec.Struct]
    answer: Any
    refusals: Mapping[int, str]
    path_parameters: Mapping[str, str] = {}
    also: Mapping[int, str] = {}  # further statuses with the same answer


def describe(endpoints: Iterable[Endpoint], prefix: str) -> Json:
    """The OpenAPI document, version 3.1."""
    listed = list(endpoints)
    answers, components = msgspec.json.schema_components(
        [*(endpoint.answer for endpoint in listed), Refused], ref_template=REFERENCE
    )
    *schemas, refused = answers
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "todo-projection",
            "summary": "The live plan of every agent in a fleet.",
            "version": version("todo-projection"),
        },
        "servers": [{"url": prefix or "/"}],
        "paths": {
            endpoint.path: {"get": _operation(endpoint, schema, refused)}
            for endpoint, schema in zip(listed, schemas, strict=True)
        },
        "components": {"schemas": components},
    }


def _operation(endpoint: Endpoint, schema: Json, refused: Json) -> Json:
    statuses = {200: "the answer", **endpoint.also}
    return {
        "summary": endpoint.summary,
        "parameters": [*_path_parameters(endpoint), *_parameters(endpoint.parameters)],
        "responses": {
            **{str(status): _response(text, schema) for status, text in statuses.items()},
            **{str(status): _response(text, refused) for status, text in endpoint.refusals.items()},
        },
    }


def _response(text: str, schema: Json) -> Json:
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _path_parameters(endpoint: Endpoint) -> list[Json]:
    return [
        {"name": name, "in": "path", "required": True, "description": text, "schema": {"type": "string"}}
        for name, text in endpoint.path_parameters.items()
    ]


def _parameters(shape: type[msgspec.Struct]) -> list[Json]:
    found: list[Json] = []
    schemas: Json = msgspec.json.schema(shape)
    if "$ref" in schemas:
        schemas = schemas["$defs"][shape.__name__]
    for field in fields(shape):
        schema = {key: value for key, value in schemas["properties"][field.encode_name].items() if key != "description"}
        found.append({"name": field.encode_name, "in": "query", "required": field.required, "schema": schema})
        found[-1]["description"] = described(field)
        if is_list(field):
            found[-1] |= {"style": "form", "explode": True}
    return found
