"""Generates the JSON Schema of `--input-format stream-json` from the schemas that validate the input."""

import json

from ebbtide.agent.headless.input_messages import INPUT_LINE_SCHEMAS


def stream_input_schema() -> str:
    """Return the schema of an input line."""
    lines = {}
    for name, line in INPUT_LINE_SCHEMAS.items():
        properties = line["properties"]
        assert isinstance(properties, dict)
        lines[name] = {**line, "properties": {**properties, "type": {"const": name}}}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "An input line of `ebb -p --input-format stream-json`",
        "anyOf": [{"$ref": f"#/$defs/{name}"} for name in lines],
        "$defs": lines,
    }
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"
