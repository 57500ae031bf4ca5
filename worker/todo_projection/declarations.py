"""The published shapes as TypeScript declarations, made from their JSON Schema. Pure."""

import json
from collections.abc import Iterator

from todo_projection.frames import SHAPES, Schema, schema

HEAD = "// The published shapes: `todo-projection schema typescript`. Made from the JSON Schema; do not edit.\n"
SIMPLE = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


class Untranslated(ValueError):
    """A schema uses what this module has no TypeScript for; the message holds that part. Teach it here."""


def declarations() -> str:
    """All shapes as one file; raises Untranslated."""
    found: dict[str, Schema] = {}
    for name in SHAPES:
        found |= schema(name)["$defs"]
    return HEAD + "".join(f"\n{_interface(name, found[name])}" for name in sorted(found))


def _interface(name: str, definition: Schema) -> str:
    required = definition["required"]
    fields = [
        f"  {key}{'' if key in required else '?'}: {_type(part)};\n" for key, part in definition["properties"].items()
    ]
    return f"{''.join(_comment(definition))}export interface {name} {{\n{''.join(fields)}}}\n"


def _comment(definition: Schema) -> Iterator[str]:
    lines = definition.get("description", "").replace("``", "`").splitlines()
    if not lines:
        return
    if len(lines) == 1:
        yield f"/** {lines[0]} */\n"
        return
    yield "/**\n"
    yield from (f" * {line}".rstrip() + "\n" for line in lines)
    yield " */\n"


def _type(part: Schema) -> str:
    if "$ref" in part:
        return str(part["$ref"]).rpartition("/")[2]
    if "enum" in part:
        return " | ".join(json.dumps(value) for value in part["enum"])
    if "anyOf" in part:
        return " | ".join(_type(one) for one in part["anyOf"])
    match part.get("type"):
        case "array" if "items" in part:
            found = f"Array<{_type(part['items'])}>"
        case "object" if "additionalProperties" in part:
            found = f"Record<string, {_type(part['additionalProperties'])}>"
        case str(name) if name in SIMPLE:
            found = SIMPLE[name]
        case None if not part:
            found = "unknown"
        case _:
            raise Untranslated(f"no TypeScript for {json.dumps(part)}")
    return found
