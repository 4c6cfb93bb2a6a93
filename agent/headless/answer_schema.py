"""Answers that must match a JSON Schema: the instruction to the model, and the validation of its answer. Pure."""

import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from ebbtide.tools.schema import mismatches


def schema_request(schema: Mapping[str, object]) -> str:
    """The instruction appended to the prompt."""
    wish = "When you are done, answer with one JSON value that matches this JSON Schema, and with nothing else:"
    return f"{wish}\n{json.dumps(schema)}"


def read_answer(answer: str, schema: Mapping[str, object]) -> tuple[str, list[str]]:
    """Return the bare JSON text of an answer, and the reasons why it does not match the schema."""
    fenced = re.fullmatch(r"\s*```(?:json)?\s*\n(.*)\n```\s*", answer, re.DOTALL)
    text = (fenced[1] if fenced else answer).strip()
    try:
        value: Any = json.loads(text, parse_constant=_refuse)
        return text, mismatches(value, schema)
    except (ValueError, RecursionError) as error:
        return answer, [f"it is not JSON ({error})"]


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON value")
