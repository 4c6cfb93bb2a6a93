"""Escapes text for CI logs: runners execute some lines that their steps print as commands."""

from collections.abc import Mapping

from ebbtide.tools.lazy import regex

_RUNNERS = {"GITHUB_ACTIONS": "true", "TF_BUILD": "True", "TEAMCITY_VERSION": ""}
"""Variables set by GitHub Actions (also Gitea and Forgejo), Azure Pipelines and TeamCity, with a required value where
one matters."""

_LINE = regex(
    r"(?im)((?:^|\r)[^\S\r\n]*)::(?=(?:add-mask|add-matcher|add-path|debug|echo|endgroup|error|group|internal-set-repo-path|notice"
    r"|remove-matcher|save-state|set-env|set-output|stop-commands|warning)\b)"
)
"""A GitHub runner command: `::NAME` at the start of a line, after optional blanks."""
_ANYWHERE = regex(r"(?i)##(?=(?:vso|teamcity)?\[)")
"""`##[NAME`, `##vso[NAME` and `##teamcity[NAME`, which are executed anywhere in a line (actions/runner issue 4692)."""


def obeys_lines(environment: Mapping[str, str]) -> bool:
    """Whether the output of this process is read by a CI runner that executes commands in its log."""
    return any(environment.get(name, "").startswith(value) for name, value in _RUNNERS.items() if name in environment)


def log_safe(text: str, environment: Mapping[str, str]) -> str:
    """Escape each command in a text with a backslash, if a CI runner would execute it."""
    if not obeys_lines(environment):
        return text
    return _ANYWHERE.sub(r"##\\", _LINE.sub(r"\1\\::", text))


def log_safe_json(text: str, environment: Mapping[str, str]) -> str:
    """Escape commands in JSON without changing its value."""
    return _ANYWHERE.sub(r"#\\u0023", text) if obeys_lines(environment) else text


def log_safe_xml(text: str, environment: Mapping[str, str]) -> str:
    """Escape commands in XML without changing its value."""
    return _ANYWHERE.sub("#&#35;", _LINE.sub(r"\1&#58;:", text)) if obeys_lines(environment) else text
