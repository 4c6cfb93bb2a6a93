"""Prints an object as a line of JSON."""

import json
import os
from collections.abc import Mapping
from typing import TextIO

from ebbtide.agent.headless.log_commands import log_safe_json


def print_json(out: TextIO, value: Mapping[str, object]) -> None:
    """Print an object on one line. Non-ASCII characters are escaped if the output's encoding lacks one of them, or if
    the output is a terminal and one of them is a control character."""
    text = json.dumps(value, ensure_ascii=False)
    if out.isatty() and not text.isprintable():
        text = json.dumps(value)
    try:
        text.encode(out.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value)
    out.write(log_safe_json(text, os.environ) + "\n")
    out.flush()
