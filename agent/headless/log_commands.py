"""Text for the log of a CI runner, which obeys some lines of what its steps print."""

from collections.abc import Mapping

from ebbtide.tools.lazy import regex

_RUNNERS = {"GITHUB_ACTIONS": "true", "TF_BUILD": "True", "TEAMCITY_VERSION": ""}
"""Variables that GitHub Actions (Gitea and Forgejo as well), Azure Pipelines and TeamCity set, and their value if it
matters."""

_LINE = regex(
    r"(?im)((?:^|\r)[^\S\r\n]*)::(?=(?:add-mask|add-matcher|add-path|debug|echo|endgroup|error|group|internal-set-repo-path|notice"
    r"|remove-matcher|save-state|set-env|set-output|stop-commands|warning)\b)"
)
"""A command of GitHub's runner: `::NAME` at the beginning of a line, blanks aside."""
_ANYWHERE = regex(r"(?i)##(?=(?:vso|teamcity)?\[)")
"""`##[NAME`, `##vso[NAME` and `##teamcity[NAME`, which are obeyed anywhere in a line (actions/runner issue 4692)."""


def obeys_lines(environment: Mapping[str, str]) -> bool:
    """Whether a CI runner that obeys lines of its log reads what this process prints."""
    return any(environment.get(name, "").startswith(value) for name, value in _RUNNERS.items() if name in environment)


def log_safe(text: str, environment: Mapping[str, str]) -> str:
    """The text with a backslash in each command that the runner of this environment would obey."""
    if not obeys_lines(environment):
        return text
    return _ANYWHERE.sub(r"##\\", _LINE.sub(r"\1\\::", text))


def log_safe_json(text: str, environment: Mapping[str, str]) -> str:
    """The same for JSON, whose value stays what it is."""
    return _ANYWHERE.sub(r"#\\u0023", text) if obeys_lines(environment) else text


def log_safe_xml(text: str, environment: Mapping[str, str]) -> str:
    """The same for XML, whose value stays what it is."""
    return _ANYWHERE.sub("#&#35;", _LINE.sub(r"\1&#58;:", text)) if obeys_lines(environment) else text
