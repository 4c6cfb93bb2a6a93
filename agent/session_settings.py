"""Settings of a session, derived from the configuration: model, tools, permissions, compaction and system prompt."""

import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import cache, partial
from pathlib import Path

from ebbtide.agent import extensions
from ebbtide.agent.budget.last_request import RequestMark
from ebbtide.agent.budget.request_budget import Window
from ebbtide.agent.calls.policy import OUTSIDE_SANDBOX_TOOL, Policy, Rule, parse_rule
from ebbtide.agent.config.option_values import AfterToolHook
from ebbtide.agent.config.options import MODES, Mode, stricter_mode
from ebbtide.agent.config.values import Config
from ebbtide.agent.debug import DebugLog, is_enabled
from ebbtide.agent.errors import ConfigError
from ebbtide.agent.eviction.settings import CompactionCaps, CompactionSettings, RewritePatience, SummaryPreferences
from ebbtide.agent.input.instructions import git_branch, load_instructions, project_memory_folder, replace_mode
from ebbtide.agent.prompt.build import Instructions
from ebbtide.agent.prompt.reminder_notes import ReminderFacts
from ebbtide.agent.prompt.small_window import SMALL_LIMIT_TOKENS, is_omitted
from ebbtide.agent.providers.base import ModelFacts
from ebbtide.agent.providers.setup import find_default_model, find_setting
from ebbtide.agent.providers.stream import RetryLimits
from ebbtide.agent.view.previews import OffloadLimits
from ebbtide.agent.window.session_context import LanguageService
from ebbtide.agent.window.turn_limits import TurnLimits
from ebbtide.tools import sandbox
from ebbtide.tools.base import Tool, ToolSupport
from ebbtide.tools.catalog import create_builtin_tools, create_rare_tools
from ebbtide.tools.files.file_suffixes import count_suffixes
from ebbtide.tools.final_report import FinalReport
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.memory import Memory
from ebbtide.tools.submit_plan import SubmitPlan
from ebbtide.tools.tool_traits import ProjectFacts, role_of, traits_of
from ebbtide.tools.web_fetch import WebFetch
from ebbtide.tools.web_search import WebSearch

NO_SANDBOX_ERROR = "`agent.sandbox` is `require`, and there is no sandbox"


def choose_model(config: Config, stored_model: str, environment: Mapping[str, str]) -> str:
    """Return the model of a session: the one given on the command line, else the session's own, else the configured or
    default one."""
    if config.sources["agent.model"] == "command line" and config.model:
        return config.model
    return stored_model or config.model or find_default_model(config.providers, environment)


def choose_mode(config: Config, stored_mode: str) -> Mode:
    """Return the permission mode of a session. A resumed session keeps its own mode, unless the command line,
    environment or `--config` sets another one. A project's file can only make it stricter."""
    configured, source = config.permission_mode, config.sources["agent.permission_mode"]
    if stored_mode not in MODES or source == "command line" or source.startswith(("environment", "--config")):
        return configured
    from_project = source == str(config.project_folder / ".ebb" / "config.toml")
    return stricter_mode(configured, stored_mode) if from_project else stored_mode


def build_policy(config: Config, root: Path, mode: Mode, outputs_folder: Path) -> Policy:
    """Return the permission policy of a working folder. Reading the folder `outputs_folder`, which contains long
    outputs, is always allowed. Raises `ConfigError`."""
    allow = tuple(parse_rule(rule) for rule in config.allow)
    if Rule(OUTSIDE_SANDBOX_TOOL) in allow:
        raise ConfigError('`outside` needs a program; write `outside(docker)`, or `agent.sandbox = "off"` for all')
    return Policy(
        root=str(root),
        mode=mode,
        allow=allow,
        deny=_deny_rules(config.deny, root),
        added_folders=tuple(map(str, additional_folders(config))),
        readable_folders=(str(outputs_folder),),
        no_shell_reason=_no_shell_reason(config),
        allows_sandboxed=config.sandboxed == "allow" and config.sandbox != "off" and not _missing_sandbox_reason(),
    )


def additional_folders(config: Config) -> tuple[Path, ...]:
    """Return the real paths of the additional working folders. Raises `ConfigError`."""
    roots = tuple(Path(path).expanduser() for path in config.roots)
    for root in roots:
        if not root.is_dir():
            raise ConfigError(f"`permissions.roots`: there is no folder `{root}`")
    return tuple(root.resolve() for root in roots)


def _no_shell_reason(config: Config) -> str:
    """Return why commands may not run, because a sandbox is required but missing; empty if they may."""
    reason = _missing_sandbox_reason() if config.sandbox == "require" else ""
    return f"{NO_SANDBOX_ERROR}: {reason}" if reason else ""


def no_sandbox_reason(config: Config) -> str:
    """Return why commands run without a sandbox; empty if there is a sandbox or the user has turned it off."""
    return _missing_sandbox_reason() if config.sandbox == "auto" else ""


def _missing_sandbox_reason() -> str:
    """Return what is missing; empty if a sandbox works."""
    system_sandbox = sandbox.system.detect_sandbox()
    return system_sandbox.problem if isinstance(system_sandbox, sandbox.system.NoSandbox) else ""


def _deny_rules(texts: Sequence[str], root: Path) -> tuple[Rule, ...]:
    """Return the deny rules. If a path contains a symbolic link, a rule for its target is added, because the policy
    sees only resolved paths. Allow rules are not resolved, because a repository could then choose what they cover."""
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


def select_session_tools(
    settings: CompactionSettings,
    config: Config,
    language_service: LanguageService | None = None,
    *,
    can_store: bool = True,
    provider_searches: bool = False,
    extra_tools: Sequence[Tool] = (),
) -> tuple[Tool, ...]:
    """Return the built-in tools, or those that the user has selected. Notebook tools, web search, language-server tools
    and the repository map are included only if they are useful in this project. If a full window ends in a report, the
    tool for the report is included. `can_store`: files may be stored on disk. `provider_searches`: the model's
    provider searches the web itself. `extra_tools`: tools that a program adds
    through the SDK; they are always included. Raises `ConfigError`."""
    servers = language_service.servers if language_service is not None else None
    rare = create_rare_tools(ToolSupport(config.folders.data if can_store else None, servers))
    memory = Memory(project_memory_folder(config.folders.data, config.project_folder))
    tools_by_name = {tool.name: tool for tool in (*create_builtin_tools(), *rare, memory)}
    for key, names in (("tools.allowed", config.tools_allowed), ("tools.denied", config.tools_denied)):
        for name in names:
            if name not in tools_by_name:
                raise ConfigError(f"`{key}`: there is no built-in tool `{name}`; there are {', '.join(tools_by_name)}")
    search_command = () if isinstance(config.web_search, str) else config.web_search
    tools_by_name |= {tool.name: tool for tool in (WebFetch(config.web_private), WebSearch(search_command))}
    count_project_suffixes = cache(partial(count_suffixes, config.project_folder))
    has_servers = cache(
        lambda: language_service is not None and language_service.is_available_for(count_project_suffixes())
    )
    facts = ProjectFacts(count_project_suffixes, has_servers, provider_searches or bool(search_command))
    name_counts = Counter([*tools_by_name, *(tool.name for tool in extra_tools)])
    if duplicate := next((tool.name for tool in extra_tools if name_counts[tool.name] > 1), None):
        raise ConfigError(f"there are two tools named `{duplicate}`; rename yours")
    selected_names = config.tools_allowed or tuple(name for name in tools_by_name if _is_useful(name, facts))
    tools = tuple(
        tool for name, tool in tools_by_name.items() if name in selected_names and name not in config.tools_denied
    ) + tuple(extra_tools)
    return (*tools, FinalReport()) if settings.on_full == "final" else tools


def _is_useful(tool: str, facts: ProjectFacts) -> bool:
    is_useful = traits_of(tool).is_useful
    return is_useful is None or is_useful(facts)


def effort_for(config: Config, facts: ModelFacts) -> str | None:
    """Return the configured reasoning effort; None if none is set."""
    setting = find_setting(config, facts.provider, facts.name, "reasoning_effort")
    return setting.value if setting is not None else None


def offered_tools(tools: Sequence[Tool], mode: Mode, *, is_interactive: bool) -> tuple[Tool, ...]:
    """Return the tools listed for the model. Tools that ask questions are included only if a user is present. The tool
    for plans comes last, and only if the system prompt says that the mode is `plan`. Calls of unlisted tools still get
    an output."""
    offered = tuple(tool for tool in tools if is_interactive or role_of(tool.name) != "ask_question")
    return (*offered, SubmitPlan()) if mode == "plan" else offered


def missing_tools(config: Config, windows: Sequence[Window], *, is_interactive: bool) -> frozenset[str]:
    """Return the names of built-in tools that this session never offers: tools excluded by the user, tools omitted for
    every window, and, if no user is present, tools that ask questions."""
    names = {tool.name for tool in create_builtin_tools()}
    omitted = names - set(config.tools_allowed or names) | names & set(config.tools_denied)
    if not config.tools_allowed and windows:
        sizes = [window.effective for window in windows]
        omitted |= {name for name in names if all(is_omitted(name, size) for size in sizes)}
    return frozenset(
        omitted if is_interactive else omitted | {name for name in names if role_of(name) == "ask_question"}
    )


def build_compaction_settings(config: Config, window_tokens: int) -> CompactionSettings:
    """Return the compaction settings. In a small window, the caps are smaller."""
    defaults = CompactionCaps()
    caps = CompactionCaps(
        tail=min(config.tail_tokens, window_tokens // 5),
        ledger=min(defaults.ledger, window_tokens // 5),
        retain=min(config.retain_tokens, window_tokens // 10),
        summary=min(config.summary_tokens, window_tokens // 8),
        protect=min(config.protect_tokens or _default_protection(config, window_tokens), window_tokens // 4),
        newest=config.keep_last_n or defaults.newest,
        turns=config.retain_last_turns,
    )
    preferences = SummaryPreferences(
        config.summary_prompt or "", config.summary_directives, config.retain_prompt or "", config.retain_directives
    )
    return CompactionSettings(
        caps,
        preferences,
        config.on_full,
        config.rewrite_policy,
        rewrite_patience(config),
        config.background_at,
        config.background_messages,
    )


def rewrite_patience(config: Config) -> RewritePatience:
    """Return the factors by which carrying cost must exceed the cost of a rewrite."""
    defaults = RewritePatience(config.rewrite_kappa_mask, config.rewrite_kappa_compact)
    return defaults.careful if config.rewrite_patience == "careful" else defaults


def _default_protection(config: Config, effective: int) -> int:
    """Return the default for `protect`, in tokens. If the rewrite policy uses it as the budget for all outputs, it
    grows with the window."""
    if config.rewrite_policy == "total_budget":
        return min(max(effective // 4, 20_000), 60_000)
    return CompactionCaps().protect


def build_retry_limits(config: Config, *, interactive: bool) -> RetryLimits:
    """Return the retry limits. By default, an interactive session retries until the user stops it."""
    retries_until_stopped = interactive and config.sources.get("retry.patience") == "default"
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


@dataclass(frozen=True, slots=True)
class SystemText:
    """The system prompt of a session, with the facts in it that may change during the session."""

    instructions: Instructions
    mode: Mode
    is_interactive: bool
    """Whether the system prompt says that the user is present."""


def build_system_text(
    config: Config,
    root: Path,
    model: str,
    mode: Mode,
    windows: Sequence[Window],
    *,
    is_interactive: bool,
    is_small_model: bool = False,
) -> SystemText:
    """Return the system prompt of a new session. `windows`: the windows of the model and of its fallbacks, because the
    prompt must fit all of them."""
    instructions = load_instructions(
        root,
        config.project_folder,
        config.folders.config,
        date.today(),
        data_folder=config.folders.data,
        home=config.folders.home,
        mode=mode,
        is_interactive=is_interactive,
        model=model,
        missing_tools=missing_tools(config, windows, is_interactive=is_interactive),
        is_short=is_small_model or all(window.effective < SMALL_LIMIT_TOKENS for window in windows),
    )
    if config.may_have_extensions:
        instructions = replace(instructions, skills=extensions.skills.initial_skill_list(config))
    base = config.system_prompt or instructions.base
    instructions = replace(instructions, base=base, appended=config.append_system_prompt)
    return SystemText(instructions, mode, is_interactive)


def build_resumed_system_text(
    config: Config,
    root: Path,
    model: str,
    mode: Mode,
    windows: Sequence[Window],
    last_request: RequestMark | None,
    *,
    is_interactive: bool,
    is_cached: bool = True,
    is_small_model: bool = False,
) -> SystemText:
    """Return the system prompt of a resumed session. If possible, it is identical to the one in the last request,
    because a different text would invalidate the provider's cache. It may therefore state an earlier permission mode
    and, if that request `is_cached`, an earlier presence of the user. Notes inform the model of the current values."""
    current = build_system_text(
        config, root, model, mode, windows, is_interactive=is_interactive, is_small_model=is_small_model
    )
    if last_request is None:
        return current
    for stated_attended in (is_interactive, not is_interactive) if is_cached else (is_interactive,):
        stated_text = current
        if stated_attended != is_interactive:
            stated_text = build_system_text(
                config, root, model, mode, windows, is_interactive=stated_attended, is_small_model=is_small_model
            )
        for stated_mode in MODES:
            candidate = replace_mode(stated_text.instructions, mode, stated_mode)
            if last_request.has_system_prompt(candidate.text):
                return SystemText(candidate, stated_mode, stated_attended)
    return current


def is_in_cache(last_use: tuple[str, float] | None, facts: ModelFacts) -> bool:
    """Whether the provider may still have the session's last request in its cache. `last_use`: the model of that
    request, and the seconds since it was sent."""
    return last_use is not None and last_use[0] == facts.id and last_use[1] <= facts.cache_ttl


def environment_facts(config: Config, *, is_interactive: bool) -> ReminderFacts:
    """Return the facts that the system prompt states: the user's presence, the date and the git branch."""
    return ReminderFacts(
        is_interactive=is_interactive, date=date.today().isoformat(), branch=git_branch(config.project_folder)
    )


def create_debug_log(config: Config, environment: Mapping[str, str], *, is_interactive: bool) -> DebugLog:
    """Return the debug log if it is enabled; headless runs print it as well."""
    if not is_enabled(environment):
        return DebugLog()
    return DebugLog(config.folders.logs / "context.jsonl", None if is_interactive else sys.stderr)
