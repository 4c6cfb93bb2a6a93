"""Imports the user's settings from other agents: model, reasoning effort and permission rules. An imported rule never
allows more than the original."""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ebbtide.agent.calls.policy import parse_rule
from ebbtide.agent.calls.tool_aliases import our_tool
from ebbtide.agent.config.load import read_toml
from ebbtide.agent.config.options import EFFORTS, PROVIDERS
from ebbtide.agent.config.toml_file import put_value
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import ConfigError
from ebbtide.agent.imports.agent_folders import AgentFolders, AgentName, settings_in, table_in
from ebbtide.agent.providers.choices import version_of
from ebbtide.agent.providers.registry import known_models
from ebbtide.tools.base import ToolError
from ebbtide.tools.catalog import builtin_tools
from ebbtide.tools.files.bounded import beginning_of
from ebbtide.tools.lazy import dataclass, regex

What: TypeAlias = Literal["model", "rules"]

_FAMILIES = ("fable", "opus", "sonnet", "haiku")
_RULE = regex(r"(?P<tool>[^()\s]+)(?:\((?P<what>.*)\))?", re.DOTALL)
_YAML_LINE = regex(r"^(model|reasoning-effort):\s*[\"']?([^\"'#\n]+?)[\"']?\s*(?:#.*)?$", re.MULTILINE)
_NOT_HERE = "no equivalent here"
ASK_NOTE = "also asked here, as are all calls that no rule allows"
IN_PLACE = "already applies here, read from that file"
PARTIAL_ASK_NOTE = "it would allow calls that `{}` asks about there"
_MAX_YAML_BYTES = 1 << 20
"""Maximum size of aider's configuration file."""


@dataclass(frozen=True, slots=True)
class SettingOffer:
    """A setting of another agent."""

    what: What
    agent: AgentName
    source: str
    """The file that contains it."""
    original: str
    """The setting as written there."""
    key: str = ""
    """Our key."""
    value: str = ""
    problem: str = ""
    """Why it cannot be imported; empty if it can."""

    @property
    def line(self) -> str:
        """A description for people."""
        return f"{self.original}: {self.problem}" if self.problem else f"{self.original} → {self.key} {self.value}"


def setting_offers(folders: AgentFolders, project: Path) -> tuple[list[SettingOffer], list[str]]:
    """Return the user's settings in other agents, without those of projects, and an error for each unreadable file."""
    offers, problems = list[SettingOffer](), list[str]()
    for agent, path, read in _files(folders, project):
        try:
            content = _yaml(path) if path.suffix == ".yml" else settings_in(path)
            offers += [_setting_offer(agent, str(path), *found) for found in read(content)]
        except ConfigError as error:
            problems.append(str(error))
    return offers, problems


FoundSetting: TypeAlias = tuple[What, str, str, str]
"""Kind, original text, our key and the value; without a key, the value is the reason why it cannot be imported."""
Reader: TypeAlias = Callable[[Mapping[str, Any]], Iterator[FoundSetting]]


def _files(folders: AgentFolders, project: Path) -> Iterator[tuple[AgentName, Path, Reader]]:
    yield "claude", folders.claude / "settings.json", lambda content: _of_claude(content, folders.home)
    yield "codex", folders.codex / "config.toml", _of_codex
    for name in ("opencode.json", "opencode.jsonc"):
        yield "opencode", folders.opencode / name, _of_opencode
    yield "gemini", folders.gemini / "settings.json", _of_gemini
    for folder in (folders.home, project):
        yield "aider", folder / ".aider.conf.yml", _of_aider


def _yaml(path: Path) -> dict[str, object]:
    """The two keys of aider's file that are supported, each on one line."""
    try:
        return dict(_YAML_LINE.findall(beginning_of(path, _MAX_YAML_BYTES).decode("utf-8", "replace")))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ConfigError(f"`{path}` cannot be read: {error.strerror or error}") from error


def _setting_offer(agent: AgentName, source: str, what: What, said: str, key: str, value: str) -> SettingOffer:
    if not key:
        return SettingOffer(what, agent, source, said, problem=value)
    if what == "rules":
        try:
            parse_rule(value)
        except ConfigError:
            return SettingOffer(what, agent, source, said, problem=_NOT_HERE)
    return SettingOffer(what, agent, source, said, key, value)


def _of_claude(content: Mapping[str, Any], home: Path) -> Iterator[FoundSetting]:
    if isinstance(model := content.get("model"), str):
        yield _model(model, model if "/" in model else f"anthropic/{model}")
    permissions = table_in(content, "permissions")
    for verdict in ("allow", "deny", "ask"):
        for rule in _texts(permissions.get(verdict)):
            said = f"{verdict} `{rule}`"
            asked = next((one for one in _texts(permissions.get("ask")) if _overlap(rule, one)), "")
            ours = _claude_rule(rule, home)
            if verdict == "ask" or (verdict == "deny" and not ours):
                yield "rules", said, "", IN_PLACE
            elif verdict == "allow" and asked:
                yield "rules", said, "", PARTIAL_ASK_NOTE.format(asked)
            else:
                yield from _rules(said, verdict, ours)


def _overlap(rule: str, other: str) -> bool:
    """Whether two rules may match the same call; True if unclear."""
    one, two = (_RULE.fullmatch(text.strip()) for text in (rule, other))
    if one is None or two is None:
        return True
    names = [match["tool"].rstrip("*") for match in (one, two)]
    if names[0].startswith("mcp__") and names[1].startswith("mcp__"):
        return names[0].startswith(names[1]) or names[1].startswith(names[0])
    first, second = (re.split(r":?\*", match["what"] or "")[0].rstrip() for match in (one, two))
    ours = [_tool(name) or name for name in names]
    return ours[0] == ours[1] and (first.startswith(second) or second.startswith(first))


def _claude_rule(rule: str, home: Path) -> list[str]:
    """Convert a rule of Claude Code; empty if there is no equivalent."""
    match = _RULE.fullmatch(rule.strip())
    if match is None:
        return []
    tool, what = match["tool"], match["what"]
    if tool.startswith("mcp__"):
        return [] if what is not None else [tool if tool.count("__") > 1 or tool.endswith("*") else f"{tool}__*"]
    ours = _tool(tool)
    if not ours or what in (None, "", "*", "**"):
        return _with_writers(ours, "")
    if ours == "bash":
        return _command(re.sub(r":\*\Z| \*\Z", " *", what))
    if ours == "web_fetch":
        return [f"web_fetch({what.removeprefix('domain:')})"] if re.fullmatch(r"domain:[\w.-]+", what) else []
    path = what.removesuffix("/**")
    path = str(home / path[2:]) if path.startswith("~/") else path[1:] if path.startswith("//") else ""
    if not path or re.search(r"[*?\[\]{}()]", path):
        return []
    return _with_writers(ours, f"{path}/" if what.endswith("/**") else path)


def _of_codex(content: Mapping[str, Any]) -> Iterator[FoundSetting]:
    provider = content.get("model_provider", "openai")
    if isinstance(model := content.get("model"), str):
        name = {"openai": "openai", "oss": "ollama", "ollama": "ollama"}.get(str(provider), str(provider))
        yield _model(model, f"{name}/{model}")
    yield from _effort(content.get("model_reasoning_effort"))
    for key in ("approval_policy", "sandbox_mode"):
        if isinstance(said := content.get(key), str):
            yield "rules", f"{key} `{said}`", "", "use a permission mode instead: `/mode`, `--permission-mode`"


def _of_opencode(content: Mapping[str, Any]) -> Iterator[FoundSetting]:
    if isinstance(model := content.get("model"), str):
        yield _model(model, model)
    for tool, said in table_in(content, "permission").items():
        patterns = list(said.items()) if isinstance(said, dict) else [("*", said)]
        for place, (pattern, verdict) in enumerate(patterns):
            written = f"{verdict} `{tool}({pattern})`"
            # In opencode the last matching rule wins.
            later = (one for one, other in patterns[place + 1 :] if other == "ask")
            asked = next((one for one in later if _overlap(f"{tool}({pattern})", f"{tool}({one})")), "")
            if verdict not in ("allow", "deny"):
                yield "rules", written, "", ASK_NOTE
                continue
            if verdict == "allow" and asked:
                yield "rules", written, "", PARTIAL_ASK_NOTE.format(asked)
                continue
            ours = _tool(tool)
            everything = _with_writers(ours, "") if pattern == "*" else []
            yield from _rules(written, verdict, everything or (_command(pattern) if ours == "bash" else []))


def _of_gemini(content: Mapping[str, Any]) -> Iterator[FoundSetting]:
    model = content.get("model")
    name = model.get("name") if isinstance(model, dict) else model
    if isinstance(name, str):
        yield _model(name, f"gemini/{name}")
    tools = table_in(content, "tools")
    for verdict, named in (
        ("allow", [*_texts(content.get("allowedTools")), *_texts(tools.get("allowed"))]),
        ("deny", [*_texts(content.get("excludeTools")), *_texts(tools.get("exclude"))]),
    ):
        for rule in named:
            match = _RULE.fullmatch(rule.strip())
            ours = _tool(match["tool"]) if match is not None else ""
            whole = match is None or match["what"] is None
            found = [ours] if whole and ours else []
            if match is not None and match["what"] and ours == "bash":
                found = _command(f"{match['what']} *")
            yield from _rules(f"{verdict} `{rule}`", verdict, found)


def _of_aider(content: Mapping[str, Any]) -> Iterator[FoundSetting]:
    if isinstance(model := content.get("model"), str):
        provider = "anthropic/" if model.startswith(("claude", *_FAMILIES)) else "openai/" if model[:1] in "go" else ""
        yield _model(model, model.replace("ollama_chat/", "ollama/") if "/" in model else f"{provider}{model}")
    yield from _effort(content.get("reasoning-effort"))


def _model(said: str, meant: str) -> FoundSetting:
    """Convert a model name to ours. A model family stands for its newest known member."""
    provider, _, name = meant.partition("/")
    name = re.sub(r"\[1m\]\Z", "", name)
    written = f"model `{said}`"
    if provider not in PROVIDERS or not name:
        return "model", written, "", f"its provider is not one of {', '.join(PROVIDERS[:-1])}"
    if name in _FAMILIES:
        members = [f"{provider}/{one}" for one in known_models(provider) if f"-{name}" in one]
        if not members:
            return "model", written, "", "no model of that family is known here"
        return "model", written, "agent.model", max(members, key=lambda one: (version_of(one), -len(one)))
    if provider == "anthropic" and not name.startswith("claude"):
        return "model", written, "", "it does not name a model; choose one with `/model`"
    return "model", written, "agent.model", f"{provider}/{name}"


def _effort(said: object) -> Iterator[FoundSetting]:
    if isinstance(said, str):
        key = "agent.reasoning_effort" if said in EFFORTS else ""
        yield "model", f"reasoning effort `{said}`", key, said if key else "unknown effort"


def _rules(said: str, verdict: str, ours: list[str]) -> Iterator[FoundSetting]:
    if not ours:
        yield "rules", said, "", _NOT_HERE
    for rule in ours:
        yield "rules", said, f"permissions.{verdict}", rule


def _tool(name: str) -> str:
    """Our tool with the same function; empty if there is none."""
    names = {"webfetch": "web_fetch", "websearch": "web_search"}
    try:
        return our_tool(names.get(name, name), {}, [tool.name for tool in builtin_tools()]) or ""
    except ToolError:
        return ""


def _with_writers(tool: str, what: str) -> list[str]:
    """The rule for a tool; for editing, rules for all tools that edit files."""
    tools = ("edit", "write", "apply_patch") if tool == "edit" else (tool,) if tool else ()
    return [f"{one}({what})" if what else one for one in tools]


def _command(pattern: str) -> list[str]:
    """A rule for a command: a prefix rule if the pattern ends with a wildcard, otherwise an exact one."""
    words, any_more = pattern.removesuffix(" *").strip(), pattern.endswith(" *")
    if not words or re.search(r"[*?\[\]\n]", words) or (any_more and re.search(r"[\"'`$;|&<>\\]", words)):
        return []
    return [f"bash({words})" if any_more else f"bash(={words})"]


def why_not_set(offer: SettingOffer, config: Config) -> str:
    """Why a setting is not imported; empty if it can be."""
    if offer.problem:
        return offer.problem
    given = _current_value(config, offer.key)
    if offer.what == "rules":
        return "already configured" if isinstance(given, list) and offer.value in given else ""
    return f"`{offer.key}` is {given!r} in your configuration" if given is not None else ""


def write_setting(offer: SettingOffer, config: Config) -> None:
    """Write a setting to the user's configuration. Raises `ConfigError`."""
    value: object = offer.value
    if offer.what == "rules":
        given = _current_value(config, offer.key)
        value = [*(given if isinstance(given, list) else []), offer.value]
    put_value(config.folders.config / "config.toml", offer.key, value)


def _current_value(config: Config, key: str) -> object:
    table, _, name = key.partition(".")
    return table_in(read_toml(config.folders.config / "config.toml"), table).get(name)


def _texts(value: object) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
