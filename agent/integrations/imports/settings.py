"""Imports the user's settings from other agents: model, reasoning effort, key command and permission rules. An imported
rule never allows more than the original."""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ebbtide.agent.calls.policy import parse_rule
from ebbtide.agent.calls.tool_aliases import resolve_alias
from ebbtide.agent.config.load import read_toml
from ebbtide.agent.config.options import EFFORTS, PROVIDER_NAMES
from ebbtide.agent.config.toml_edit import set_key
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import ConfigError
from ebbtide.agent.integrations.imports.agent_folders import AgentFolders, AgentName, nested_table, read_settings
from ebbtide.agent.providers.choices import model_version
from ebbtide.agent.providers.registry import registry_models
from ebbtide.tools.apply_patch import ApplyPatch
from ebbtide.tools.base import ToolError
from ebbtide.tools.bash import Bash
from ebbtide.tools.catalog import create_builtin_tools
from ebbtide.tools.edit import Edit
from ebbtide.tools.files.bounded import read_prefix
from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tools.secrets.redaction import redact_text
from ebbtide.tools.web_fetch import WebFetch
from ebbtide.tools.web_search import WebSearch
from ebbtide.tools.write import Write

SettingKind: TypeAlias = Literal["model", "key", "rules"]

_FAMILIES = ("fable", "opus", "sonnet", "haiku")
_RULE_PATTERN = regex(r"(?P<tool>[^()\s]+)(?:\((?P<what>.*)\))?", re.DOTALL)
_YAML_LINE = regex(r"^(model|reasoning-effort):\s*[\"']?([^\"'#\n]+?)[\"']?\s*(?:#.*)?$", re.MULTILINE)
_NO_EQUIVALENT_NOTE = "no equivalent here"
ASK_NOTE = "also asked here, as are all calls that no rule allows"
ALREADY_APPLIES_NOTE = "already applies here, read from that file"
PARTIAL_ASK_NOTE = "it would allow calls that `{}` asks about there"
_MAX_YAML_BYTES = 1 << 20
"""Maximum size of aider's configuration file."""


@dataclass(frozen=True, slots=True)
class ImportableSetting:
    """A setting of another agent."""

    kind: SettingKind
    agent: AgentName
    source: str
    """The file that contains it."""
    original: str
    """The setting as written in that file."""
    key: str = ""
    """The setting's key in this program's configuration."""
    value: str = ""
    problem: str = ""
    """Why it cannot be imported; empty if it can."""

    @property
    def description(self) -> str:
        """A description for the user."""
        return (
            f"{self.original}: {self.problem}"
            if self.problem
            else f"{self.original} → {self.key} {self.redacted_value}"
        )

    @property
    def redacted_value(self) -> str:
        """The value, without the secrets that a command may contain."""
        return redact_text(self.value, {}) if self.kind == "key" else self.value


def find_importable_settings(folders: AgentFolders, project: Path) -> tuple[list[ImportableSetting], list[str]]:
    """Return the user's settings in other agents, and an error for each unreadable file."""
    settings, problems = list[ImportableSetting](), list[str]()
    for agent, path, read in _settings_files(folders, project):
        try:
            content = _read_aider_settings(path) if path.suffix == ".yml" else read_settings(path)
            settings += [_create_setting(agent, str(path), *setting) for setting in read(content)]
        except ConfigError as error:
            problems.append(str(error))
    return settings, problems


FoundSetting: TypeAlias = tuple[SettingKind, str, str, str]
"""The kind, the original text, this program's key, and the value. If the key is empty, the value says why the setting
cannot be imported."""
SettingsReader: TypeAlias = Callable[[Mapping[str, Any]], Iterator[FoundSetting]]


def _settings_files(folders: AgentFolders, project: Path) -> Iterator[tuple[AgentName, Path, SettingsReader]]:
    yield "claude", folders.claude / "settings.json", lambda content: _claude_settings(content, folders.home)
    yield "codex", folders.codex / "config.toml", _codex_settings
    for name in ("opencode.json", "opencode.jsonc"):
        yield "opencode", folders.opencode / name, _opencode_settings
    yield "gemini", folders.gemini / "settings.json", _gemini_settings
    for folder in (folders.home, project):
        yield "aider", folder / ".aider.conf.yml", _aider_settings


def _read_aider_settings(path: Path) -> dict[str, object]:
    """Return the supported keys of aider's file, `model` and `reasoning-effort`. Each must be on one line."""
    try:
        return dict(_YAML_LINE.findall(read_prefix(path, _MAX_YAML_BYTES).decode("utf-8", "replace")))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ConfigError(f"`{path}` cannot be read: {error.strerror or error}") from error


def _create_setting(
    agent: AgentName, source: str, kind: SettingKind, original: str, key: str, value: str
) -> ImportableSetting:
    if not key:
        return ImportableSetting(kind, agent, source, original, problem=value)
    if kind == "rules":
        try:
            parse_rule(value)
        except ConfigError:
            return ImportableSetting(kind, agent, source, original, problem=_NO_EQUIVALENT_NOTE)
    return ImportableSetting(kind, agent, source, original, key, value)


def _claude_settings(content: Mapping[str, Any], home: Path) -> Iterator[FoundSetting]:
    if isinstance(model := content.get("model"), str):
        yield _model_setting(model, model if "/" in model else f"anthropic/{model}")
    if isinstance(helper := content.get("apiKeyHelper"), str) and helper.strip():
        yield "key", f"apiKeyHelper `{redact_text(helper, {})}`", "providers.anthropic.key_command", helper
    permissions = nested_table(content, "permissions")
    for verdict in ("allow", "deny", "ask"):
        for rule in _string_list(permissions.get(verdict)):
            original = f"{verdict} `{rule}`"
            asking_rule = next(
                (ask_rule for ask_rule in _string_list(permissions.get("ask")) if _may_overlap(rule, ask_rule)), ""
            )
            our_rules = _claude_rule(rule, home)
            if verdict == "ask" or (verdict == "deny" and not our_rules):
                yield "rules", original, "", ALREADY_APPLIES_NOTE
            elif verdict == "allow" and asking_rule:
                yield "rules", original, "", PARTIAL_ASK_NOTE.format(asking_rule)
            else:
                yield from _rule_settings(original, verdict, our_rules)


def _may_overlap(rule: str, other_rule: str) -> bool:
    """Whether two rules could match the same call; true if that is unclear."""
    first_match, second_match = (_RULE_PATTERN.fullmatch(text.strip()) for text in (rule, other_rule))
    if first_match is None or second_match is None:
        return True
    tool_names = [match["tool"].rstrip("*") for match in (first_match, second_match)]
    if tool_names[0].startswith("mcp__") and tool_names[1].startswith("mcp__"):
        return tool_names[0].startswith(tool_names[1]) or tool_names[1].startswith(tool_names[0])
    first_prefix, second_prefix = (
        re.split(r":?\*", match["what"] or "")[0].rstrip() for match in (first_match, second_match)
    )
    equivalents = [_equivalent_tool(name) or name for name in tool_names]
    return equivalents[0] == equivalents[1] and (
        first_prefix.startswith(second_prefix) or second_prefix.startswith(first_prefix)
    )


def _claude_rule(rule: str, home: Path) -> list[str]:
    """Convert a Claude Code rule to equivalent rules of this program. Empty if there are none."""
    match = _RULE_PATTERN.fullmatch(rule.strip())
    if match is None:
        return []
    tool, pattern = match["tool"], match["what"]
    if tool.startswith("mcp__"):
        return [] if pattern is not None else [tool if tool.count("__") > 1 or tool.endswith("*") else f"{tool}__*"]
    equivalent = _equivalent_tool(tool)
    if not equivalent or pattern in (None, "", "*", "**"):
        return _rules_for_tool(equivalent, "")
    if equivalent == Bash.name:
        return _command_rules(re.sub(r":\*\Z| \*\Z", " *", pattern))
    if equivalent == WebFetch.name:
        return (
            [f"{WebFetch.name}({pattern.removeprefix('domain:')})"] if re.fullmatch(r"domain:[\w.-]+", pattern) else []
        )
    path = pattern.removesuffix("/**")
    path = str(home / path[2:]) if path.startswith("~/") else path[1:] if path.startswith("//") else ""
    if not path or re.search(r"[*?\[\]{}()]", path):
        return []
    return _rules_for_tool(equivalent, f"{path}/" if pattern.endswith("/**") else path)


def _codex_settings(content: Mapping[str, Any]) -> Iterator[FoundSetting]:
    provider = content.get("model_provider", "openai")
    if isinstance(model := content.get("model"), str):
        name = {"openai": "openai", "oss": "ollama", "ollama": "ollama"}.get(str(provider), str(provider))
        yield _model_setting(model, f"{name}/{model}")
    yield from _effort_setting(content.get("model_reasoning_effort"))
    for key in ("approval_policy", "sandbox_mode"):
        if isinstance(value := content.get(key), str):
            yield "rules", f"{key} `{value}`", "", "use a permission mode instead: `/mode`, `--permission-mode`"


def _opencode_settings(content: Mapping[str, Any]) -> Iterator[FoundSetting]:
    if isinstance(model := content.get("model"), str):
        yield _model_setting(model, model)
    for tool, rules in nested_table(content, "permission").items():
        patterns = list(rules.items()) if isinstance(rules, dict) else [("*", rules)]
        for index, (pattern, verdict) in enumerate(patterns):
            original = f"{verdict} `{tool}({pattern})`"
            # In opencode, the last matching rule decides.
            later_asking_patterns = (later for later, later_verdict in patterns[index + 1 :] if later_verdict == "ask")
            asking_pattern = next(
                (later for later in later_asking_patterns if _may_overlap(f"{tool}({pattern})", f"{tool}({later})")), ""
            )
            if verdict not in ("allow", "deny"):
                yield "rules", original, "", ASK_NOTE
                continue
            if verdict == "allow" and asking_pattern:
                yield "rules", original, "", PARTIAL_ASK_NOTE.format(asking_pattern)
                continue
            equivalent = _equivalent_tool(tool)
            whole_tool_rules = _rules_for_tool(equivalent, "") if pattern == "*" else []
            yield from _rule_settings(
                original, verdict, whole_tool_rules or (_command_rules(pattern) if equivalent == Bash.name else [])
            )


def _gemini_settings(content: Mapping[str, Any]) -> Iterator[FoundSetting]:
    model = content.get("model")
    name = model.get("name") if isinstance(model, dict) else model
    if isinstance(name, str):
        yield _model_setting(name, f"gemini/{name}")
    tools = nested_table(content, "tools")
    for verdict, rules in (
        ("allow", [*_string_list(content.get("allowedTools")), *_string_list(tools.get("allowed"))]),
        ("deny", [*_string_list(content.get("excludeTools")), *_string_list(tools.get("exclude"))]),
    ):
        for rule in rules:
            match = _RULE_PATTERN.fullmatch(rule.strip())
            equivalent = _equivalent_tool(match["tool"]) if match is not None else ""
            has_no_pattern = match is None or match["what"] is None
            our_rules = [equivalent] if has_no_pattern and equivalent else []
            if match is not None and match["what"] and equivalent == Bash.name:
                our_rules = _command_rules(f"{match['what']} *")
            yield from _rule_settings(f"{verdict} `{rule}`", verdict, our_rules)


def _aider_settings(content: Mapping[str, Any]) -> Iterator[FoundSetting]:
    if isinstance(model := content.get("model"), str):
        provider = "anthropic/" if model.startswith(("claude", *_FAMILIES)) else "openai/" if model[:1] in "go" else ""
        yield _model_setting(model, model.replace("ollama_chat/", "ollama/") if "/" in model else f"{provider}{model}")
    yield from _effort_setting(content.get("reasoning-effort"))


_PROVIDER_ALIASES = {
    "google": "gemini",
    "github-models": "github",
    "togetherai": "together",
    "together_ai": "together",
    "fireworks-ai": "fireworks",
    "fireworks_ai": "fireworks",
}
"""This program's names for providers that have other names in opencode or LiteLLM (used by aider)."""


def _model_setting(model_name: str, qualified_name: str) -> FoundSetting:
    """Convert a model name to this program's form. A family name becomes the newest known model of that family."""
    provider, _, name = qualified_name.partition("/")
    provider = _PROVIDER_ALIASES.get(provider, provider)
    name = re.sub(r"\[1m\]\Z", "", name)
    original = f"model `{model_name}`"
    if provider not in PROVIDER_NAMES or not name:
        return "model", original, "", f"its provider is not one of {', '.join(PROVIDER_NAMES[:-1])}"
    if name in _FAMILIES:
        family_models = [f"{provider}/{model}" for model in registry_models(provider) if f"-{name}" in model]
        if not family_models:
            return "model", original, "", "no model of that family is known here"
        return (
            "model",
            original,
            "agent.model",
            max(family_models, key=lambda model: (model_version(model), -len(model))),
        )
    if provider == "anthropic" and not name.startswith("claude"):
        return "model", original, "", "it does not name a model; choose one with `/model`"
    return "model", original, "agent.model", f"{provider}/{name}"


def _effort_setting(effort: object) -> Iterator[FoundSetting]:
    if isinstance(effort, str):
        key = "agent.reasoning_effort" if effort in EFFORTS else ""
        yield "model", f"reasoning effort `{effort}`", key, effort if key else "unknown effort"


def _rule_settings(original: str, verdict: str, our_rules: list[str]) -> Iterator[FoundSetting]:
    if not our_rules:
        yield "rules", original, "", _NO_EQUIVALENT_NOTE
    for rule in our_rules:
        yield "rules", original, f"permissions.{verdict}", rule


def _equivalent_tool(name: str) -> str:
    """Find this program's equivalent of a tool. Empty if there is none."""
    names = {"webfetch": WebFetch.name, "websearch": WebSearch.name}
    try:
        return resolve_alias(names.get(name, name), {}, [tool.name for tool in create_builtin_tools()]) or ""
    except ToolError:
        return ""


def _rules_for_tool(tool: str, pattern: str) -> list[str]:
    """Return the rule for a tool. For the edit tool, return one rule for each tool that edits files."""
    tools = (Edit.name, Write.name, ApplyPatch.name) if tool == Edit.name else (tool,) if tool else ()
    return [f"{name}({pattern})" if pattern else name for name in tools]


def _command_rules(pattern: str) -> list[str]:
    """Convert a command pattern to a rule: a prefix rule if it ends with ` *`, an exact rule if it has no wildcard.
    Empty if it cannot be converted."""
    command, is_prefix = pattern.removesuffix(" *").strip(), pattern.endswith(" *")
    if not command or re.search(r"[*?\[\]\n]", command) or (is_prefix and re.search(r"[\"'`$;|&<>\\]", command)):
        return []
    return [f"bash({command})" if is_prefix else f"bash(={command})"]


def setting_problem(setting: ImportableSetting, config: Config) -> str:
    """Return why a setting cannot be imported; empty if it can."""
    if setting.problem:
        return setting.problem
    current_value = _current_value(config, setting.key)
    if setting.kind == "rules":
        return "already configured" if isinstance(current_value, list) and setting.value in current_value else ""
    return (
        f"`{setting.key}` is {redact_text(repr(current_value), {})} in your configuration"
        if current_value is not None
        else ""
    )


def write_setting(setting: ImportableSetting, config: Config) -> None:
    """Write a setting to the user's configuration. Raises `ConfigError`."""
    value: object = setting.value
    if setting.kind == "rules":
        current_value = _current_value(config, setting.key)
        value = [*(current_value if isinstance(current_value, list) else []), setting.value]
    set_key(config.folders.config / "config.toml", setting.key, value)


def _current_value(config: Config, key: str) -> object:
    *table_names, name = key.split(".")
    content: Mapping[str, Any] = read_toml(config.folders.config / "config.toml")
    for table in table_names:
        content = nested_table(content, table)
    return content.get(name)


def _string_list(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
