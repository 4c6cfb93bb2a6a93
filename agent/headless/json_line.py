"""An object as a line of JSON."""

import json
import os
from collections.abc import Mapping
from typing import TextIO

from ebbtide.agent.headless.log_commands import log_safe_json


def print_json(out: TextIO, value: Mapping[str, object]) -> None:
    """Prints an object on one line, in escapes when the output's encoding lacks one of its characters, or when it is a
    terminal, which one of them could steer."""
    text = json.dumps(value, ensure_ascii=False)
    if out.isatty() and not text.isprintable():
        text = json.dumps(value)
    try:
        text.encode(out.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value)
    out.write(log_safe_json(text, os.environ) + "\n")
    out.flush()
