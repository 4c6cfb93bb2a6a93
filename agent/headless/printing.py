"""Prints JSON lines, and escapes text for CI logs, because CI runners execute some printed lines as commands."""

import json
import os
from collections.abc import Mapping
from typing import TextIO

from ebbtide.tools.lazy import regex

_CI_RUNNER_VARIABLES = {"GITHUB_ACTIONS": "true", "TF_BUILD": "True", "TEAMCITY_VERSION": ""}
"""Environment variables set by GitHub Actions (also Gitea and Forgejo), Azure Pipelines and TeamCity, each with the
value that identifies the runner. An empty string matches any value."""

_LINE_START_COMMAND = regex(
    r"(?im)((?:^|\r)[^\S\r\n]*)::(?=(?:add-mask|add-matcher|add-path|debug|echo|endgroup|error|group|internal-set-repo-path|notice"
    r"|remove-matcher|save-state|set-env|set-output|stop-commands|warning)\b)"
)
"""A GitHub runner command: `::NAME` at the start of a line, possibly after whitespace."""
_INLINE_COMMAND = regex(r"(?i)##(?=(?:vso|teamcity)?\[)")
"""`##[NAME`, `##vso[NAME` and `##teamcity[NAME`, which are executed anywhere in a line (actions/runner issue 4692)."""


def is_ci_log(environment: Mapping[str, str]) -> bool:
    """Whether the output of this process is read by a CI runner that executes commands in it."""
    return any(
        environment.get(name, "").startswith(value)
        for name, value in _CI_RUNNER_VARIABLES.items()
        if name in environment
    )


def escape_for_log(text: str, environment: Mapping[str, str]) -> str:
    """Put a backslash before each command that a CI runner could execute."""
    if not is_ci_log(environment):
        return text
    return _INLINE_COMMAND.sub(r"##\\", _LINE_START_COMMAND.sub(r"\1\\::", text))


def escape_json_for_log(text: str, environment: Mapping[str, str]) -> str:
    """Escape runner commands in JSON without changing its value."""
    return _INLINE_COMMAND.sub(r"#\\u0023", text) if is_ci_log(environment) else text


def escape_xml_for_log(text: str, environment: Mapping[str, str]) -> str:
    """Escape runner commands in XML without changing its meaning."""
    return _INLINE_COMMAND.sub("#&#35;", _LINE_START_COMMAND.sub(r"\1&#58;:", text)) if is_ci_log(environment) else text


def print_json(out: TextIO, value: Mapping[str, object]) -> None:
    """Print an object on one line. Non-ASCII characters are escaped if the output's encoding lacks any of them, or if
    the output is a terminal and the text contains control characters."""
    text = json.dumps(value, ensure_ascii=False)
    if out.isatty() and not text.isprintable():
        text = json.dumps(value)
    try:
        text.encode(out.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value)
    out.write(escape_json_for_log(text, os.environ) + "\n")
    out.flush()
