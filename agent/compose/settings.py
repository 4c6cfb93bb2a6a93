"""Settings of a session, derived from the configuration: model, tools, permissions, compaction and system prompt."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ebbtide.agent.calls.policy import OUTSIDE_SANDBOX_TOOL, Policy, Rule, parse_rule
from ebbtide.agent.config.option_values import AfterToolHook
from ebbtide.agent.config.options import PERMISSION_MODES, PermissionMode, stricter_mode
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import ConfigError
from ebbtide.agent.eviction.settings import CompactionCaps, CompactionSettings, RewritePatience, SummaryPreferences
from ebbtide.agent.logs.debug_log import DebugLog, is_enabled
from ebbtide.agent.providers.base import ModelFacts
from ebbtide.agent.providers.setup import find_default_model, find_setting
from ebbtide.agent.providers.stream import RetryLimits
from ebbtide.agent.view.previews import OffloadLimits
from ebbtide.agent.window.turn_limits import TurnLimits
from ebbtide.tools import sandbox

NO_SANDBOX_ERROR = "`agent.sandbox` is `require`, and there is no sandbox"


def choose_model(config: Config, stored_model: str, environment: Mapping[str, str]) -> str:
    """Choose a session's model: the one given on the command line, else the session's own, else the configured or
    default one."""
    if config.sources["agent.model"] == "command line" and config.model:
        return config.model
    return stored_model or config.model or find_default_model(config.providers, environment)


def choose_mode(config: Config, stored_mode: str) -> PermissionMode:
    """Return the permission mode of a session. A resumed session keeps its own mode, unless the command line,
    environment or `--config` sets another one. A project's file can only make the mode stricter."""
    configured, source = config.permission_mode, config.sources["agent.permission_mode"]
    if (
        stored_mode not in PERMISSION_MODES
        or source == "command line"
        or source.startswith(("environment", "--config"))
    ):
        return configured
    from_project = source == str(config.project_folder / ".ebb" / "config.toml")
    return stricter_mode(configured, stored_mode) if from_project else stored_mode


def build_policy(config: Config, root: Path, mode: PermissionMode, outputs_folder: Path) -> Policy:
    """Return the permission policy of a working folder. Reading the folder `outputs_folder`, which contains long
    outputs, is always allowed. Raises `ConfigError`."""
    allow = tuple(parse_rule(rule) for rule in config.allow)
    if Rule(OUTSIDE_SANDBOX_TOOL) in allow:
        raise ConfigError('`outside` needs a program; write `outside(docker)`, or `agent.sandbox = "off"` for all')
    return Policy(
        root=str(root),
        mode=mode,
        allow_rules=allow,
        deny_rules=_deny_rules(config.deny, root),
        added_folders=tuple(map(str, additional_folders(config))),
        readable_folders=(str(outputs_folder),),
        no_shell_reason=_no_shell_reason(config),
        allows_sandboxed_commands=config.sandboxed == "allow"
        and config.sandbox != "off"
        and not _missing_sandbox_reason(),
    )


def additional_folders(config: Config) -> tuple[Path, ...]:
    """Return the real paths of the additional working folders. Raises `ConfigError`."""
    roots = tuple(Path(path).expanduser() for path in config.roots)
    for root in roots:
        if not root.is_dir():
            raise ConfigError(f"`permissions.roots`: there is no folder `{root}`")
    return tuple(root.resolve() for root in roots)


def _no_shell_reason(config: Config) -> str:
    """If a sandbox is required but missing, return why commands may not run; otherwise empty."""
    reason = _missing_sandbox_reason() if config.sandbox == "require" else ""
    return f"{NO_SANDBOX_ERROR}: {reason}" if reason else ""


def no_sandbox_reason(config: Config) -> str:
    """Return why commands run without a sandbox; empty if there is a sandbox or the user has turned it off."""
    return _missing_sandbox_reason() if config.sandbox == "auto" else ""


def _missing_sandbox_reason() -> str:
    """Return why no sandbox is available; empty if one is."""
    system_sandbox = sandbox.system.detect_sandbox()
    return system_sandbox.problem if isinstance(system_sandbox, sandbox.system.NoSandbox) else ""


def _deny_rules(texts: Sequence[str], root: Path) -> tuple[Rule, ...]:
    """Return the deny rules. If a path contains a symbolic link, a rule for the link's target is added, because the
    policy sees only resolved paths. Links in allow rules are not resolved, because a repository could then choose what
    the rules cover."""
    rules = tuple(parse_rule(text) for text in texts)
    paths = [
        (rule.tool, os.path.normpath(root / rule.prefix)) for rule in rules if rule.prefix and "\0" not in rule.prefix
    ]
    resolved_paths = [(tool, path, os.path.realpath(path)) for tool, path in paths]
    return (*rules, *(Rule(tool, real_path) for tool, path, real_path in resolved_paths if real_path != path))


def after_tool_hooks(config: Config) -> tuple[AfterToolHook, ...]:
    """Return the programs that run after tool calls. Raises `ConfigError` for an invalid rule, before anything is
    opened for a session."""
    return tuple(replace(hook, match=str(parse_rule(hook.match))) for hook in config.hooks_after_tool)


def effort_for(config: Config, facts: ModelFacts) -> str | None:
    """Return the configured reasoning effort; None if none is set."""
    setting = find_setting(config, facts.provider, facts.name, "reasoning_effort")
    return setting.value if setting is not None else None


def build_compaction_settings(config: Config, window_tokens: int) -> CompactionSettings:
    """Return the compaction settings. In a small window, the caps are smaller. The patience is that of the balanced
    style."""
    defaults = CompactionCaps()
    caps = CompactionCaps(
        tail=min(config.tail_tokens, window_tokens // 5),
        ledger=min(defaults.ledger, window_tokens // 5),
        retain=min(config.retain_tokens, window_tokens // 10),
        summary=min(config.summary_tokens, window_tokens // 8),
        protected_output_tokens=min(
            config.protect_tokens or _default_protected_tokens(config, window_tokens), window_tokens // 4
        ),
        protected_message_count=config.keep_last_n or defaults.protected_message_count,
        max_tail_turns=config.retain_last_turns,
    )
    preferences = SummaryPreferences(
        config.summary_prompt or "", config.summary_directives, config.retain_prompt or "", config.retain_directives
    )
    return CompactionSettings(
        caps,
        preferences,
        config.on_full,
        config.rewrite_policy,
        RewritePatience(config.rewrite_kappa_mask, config.rewrite_kappa_compact),
        config.background_at,
        config.background_messages,
    )


def _default_protected_tokens(config: Config, effective: int) -> int:
    """Return the default for `protect`, in tokens. It grows with the window if the rewrite policy uses it as the budget
    for all outputs."""
    if config.rewrite_policy == "total_budget":
        return min(max(effective // 4, 20_000), 60_000)
    return CompactionCaps().protected_output_tokens


def build_retry_limits(config: Config, *, is_interactive: bool) -> RetryLimits:
    """Return the retry limits. By default, an interactive session retries until the user stops it."""
    retries_until_stopped = is_interactive and config.sources.get("retry.patience") == "default"
    patience = None if retries_until_stopped else config.retry_patience
    return RetryLimits(patience, config.retry_first, config.retry_fallback_after)


def build_turn_limits(config: Config, *, is_interactive: bool) -> TurnLimits:
    """Return the limits of turns. A headless run has no pauses between turns, so it need not keep the cache alive."""
    keep_alive = config.keep_alive if is_interactive and config.keep_alive != "off" else 0
    return TurnLimits(config.max_turns, config.max_cost, keep_alive, config.jobs_wake and is_interactive)


def build_offload_limits(config: Config) -> OffloadLimits:
    """Return the limits for showing outputs."""
    return OffloadLimits(
        config.result_offload_threshold, config.preview_bytes, config.max_message_bytes, config.tool_output_mode
    )


def create_debug_log(config: Config, environment: Mapping[str, str], *, is_interactive: bool) -> DebugLog:
    """Return the debug log if it is enabled; headless runs print it as well."""
    if not is_enabled(environment):
        return DebugLog()
    return DebugLog(config.folders.logs / "context.jsonl", None if is_interactive else sys.stderr)
