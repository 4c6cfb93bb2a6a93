"""Session settings derived from the configuration: model, tools, permissions, compaction and system prompt. Opens
nothing."""

import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import cache, partial
from pathlib import Path

from ebbtide.agent.calls.policy import OUTSIDE, Policy, Rule, parse_rule
from ebbtide.agent.config.option_values import AfterTool
from ebbtide.agent.config.options import MODES, Mode, stricter_mode
from ebbtide.agent.config.values import Config
from ebbtide.agent.context.budget import Window
from ebbtide.agent.context.last_request import RequestMark
from ebbtide.agent.context.offload import Offloading
from ebbtide.agent.context.prompt import Instructions
from ebbtide.agent.context.reminder_notes import Surroundings
from ebbtide.agent.context.settings import Caps, CompactionSettings, RewritePatience
from ebbtide.agent.context.small_window import SMALL, is_omitted
from ebbtide.agent.context.summary import Wishes
from ebbtide.agent.debug import Debug, is_enabled
from ebbtide.agent.errors import ConfigError
from ebbtide.agent.input.instructions import git_branch, in_mode, load_instructions, memory_folder
from ebbtide.agent.lsp.session_languages import SessionLanguages
from ebbtide.agent.providers.base import ModelFacts
from ebbtide.agent.providers.setup import find_setting, first_choice
from ebbtide.agent.providers.stream import RetryLimits
from ebbtide.agent.window.turn_limits import TurnLimits
from ebbtide.tools.base import Tool
from ebbtide.tools.catalog import builtin_tools, rare_tools
from ebbtide.tools.files.endings import endings_in
from ebbtide.tools.final_report import FinalReport
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.memory import Memory
from ebbtide.tools.repo_map import MAPPED_SUFFIXES, MIN_MAPPED_FILES
from ebbtide.tools.submit_plan import SubmitPlan
from ebbtide.tools.web_fetch import WebFetch
from ebbtide.tools.web_search import WebSearch

ASKING = "ask_user"
"""A tool that is useless without a user."""
NO_SANDBOX = "`agent.sandbox` is `require`, and there is no sandbox"


def model_of(config: Config, own: str, environment: Mapping[str, str]) -> str:
    """Return the model of a session: the one given on the command line, or else its own, if it has one."""
    if config.sources["agent.model"] == "command line" and config.model:
        return config.model
    return own or config.model or first_choice(environment)


def mode_of(config: Config, own: str) -> Mode:
    """Return the permission mode for an unattended session: its own, unless this run sets another one. A
    project's file can only make it stricter."""
    configured, source = config.permission_mode, config.sources["agent.permission_mode"]
    if own not in MODES or source == "command line" or source.startswith(("environment", "--config")):
        return configured
    from_project = source == str(config.project / ".ebb" / "config.toml")
    return stricter_mode(configured, own) if from_project else own


def policy_of(config: Config, root: Path, mode: Mode, outputs: Path) -> Policy:
    """Return the permission policy of a working folder; `outputs`, the folder for long outputs, may always be read.
    Raises `ConfigError`."""
    allow = tuple(parse_rule(rule) for rule in config.allow)
    if Rule(OUTSIDE) in allow:
        raise ConfigError('`outside` needs a program; write `outside(docker)`, or `agent.sandbox = "off"` for all')
    return Policy(
        root=str(root),
        mode=mode,
        allow=allow,
        deny=_deny_rules(config.deny, root),
        roots=tuple(map(str, roots_of(config))),
        readable=(str(outputs),),
        no_shell=_why_no_shell(config),
        sandboxed=config.sandboxed == "allow" and config.sandbox != "off" and not _why_no_sandbox(),
    )


def roots_of(config: Config) -> tuple[Path, ...]:
    """Return the additional folders with the rights of the working folder, resolved. Raises `ConfigError`."""
    roots = tuple(Path(each).expanduser() for each in config.roots)
    for root in roots:
        if not root.is_dir():
            raise ConfigError(f"`permissions.roots`: there is no folder `{root}`")
    return tuple(root.resolve() for root in roots)


def _why_no_shell(config: Config) -> str:
    """Return why commands may not run, if a sandbox is required and missing."""
    why = _why_no_sandbox() if config.sandbox == "require" else ""
    return f"{NO_SANDBOX}: {why}" if why else ""


def no_sandbox_reason(config: Config) -> str:
    """Return why commands run without a sandbox, unless the user has accepted that."""
    return _why_no_sandbox() if config.sandbox == "auto" else ""


def _why_no_sandbox() -> str:
    """Return what is missing; empty if a sandbox works."""
    from ebbtide.tools.sandbox.system import NoSandbox, found_sandbox  # noqa: PLC0415  # deferred: it probes the system, rarely needed

    found = found_sandbox()
    return found.why if isinstance(found, NoSandbox) else ""


def _deny_rules(texts: Sequence[str], root: Path) -> tuple[Rule, ...]:
    """Return the rules, plus a copy of each rule for the target of a symbolic link in its path: the policy sees only
    resolved paths. An allow rule does not follow links, since a repository could then choose what it covers."""
    rules = tuple(parse_rule(text) for text in texts)
    paths = [
        (rule.tool, os.path.normpath(root / rule.prefix)) for rule in rules if rule.prefix and "\0" not in rule.prefix
    ]
    real = [(tool, path, os.path.realpath(path)) for tool, path in paths]
    return (*rules, *(Rule(tool, resolved) for tool, path, resolved in real if resolved != path))


def hooks_for_calls(config: Config) -> tuple[AfterTool, ...]:
    """Return the programs that see outputs. Raises `ConfigError` for an invalid rule, before anything is opened for a
    session."""
    return tuple(hook for hook in config.hooks_after_tool if parse_rule(hook.match).tool)


def tools_for(
    compacting: CompactionSettings,
    config: Config,
    languages: SessionLanguages | None = None,
    *,
    keeps: bool = True,
    extra: Sequence[Tool] = (),
) -> tuple[Tool, ...]:
    """Return the built-in tools, or the user's selection. Some are only included if they are useful: notebooks, web
    search with a configured provider, `languages` with servers for the project's files, and the map of a large code
    base. `keeps`: files may be stored on disk. `extra`: tools from a program that uses the SDK, whatever the selection.
    If a full window ends in a report, its tool is included from the start. Raises `ConfigError`."""
    maps = config.folders.data / "maps" if keeps else None
    rare = rare_tools(languages.servers if languages is not None else None, maps)
    memory = Memory(memory_folder(config.folders.data, config.project))
    known = {tool.name: tool for tool in (*builtin_tools(), *rare, memory)}
    for key, names in (("tools.allowed", config.tools_allowed), ("tools.denied", config.tools_denied)):
        for name in names:
            if name not in known:
                raise ConfigError(f"`{key}`: there is no built-in tool `{name}`; there are {', '.join(known)}")
    known |= {"web_fetch": WebFetch(config.web_private), "web_search": WebSearch(config.web_search)}
    endings = cache(partial(endings_in, config.project))
    has_servers = cache(lambda: languages is not None and languages.are_there_for(endings()))
    has_use: Mapping[str, Callable[[], bool]] = {
        "edit_notebook": lambda: ".ipynb" in endings(),
        "web_search": lambda: bool(config.web_search),
        "repo_map": lambda: sum(endings()[ending] for ending in MAPPED_SUFFIXES) >= MIN_MAPPED_FILES,
        "diagnostics": has_servers,
        "symbols": has_servers,
    }
    taken = Counter([*known, *(tool.name for tool in extra)])
    if twice := next((tool.name for tool in extra if taken[tool.name] > 1), None):
        raise ConfigError(f"there are two tools named `{twice}`; rename yours")
    chosen = config.tools_allowed or tuple(name for name in known if name not in has_use or has_use[name]())
    tools = tuple(tool for name, tool in known.items() if name in chosen and name not in config.tools_denied) + tuple(
        extra
    )
    return (*tools, FinalReport()) if compacting.on_full == "final" else tools


def effort_for(config: Config, facts: ModelFacts) -> str | None:
    """Return the configured reasoning effort; None if none is set."""
    found = find_setting(config, facts.provider, facts.name, "reasoning_effort")
    return found.value if found is not None else None


def offered_tools(tools: Sequence[Tool], mode: Mode, *, attended: bool) -> tuple[Tool, ...]:
    """Return the tools listed for the model: those that ask the user only if one is present, and last the one for plans
    if the system prompt says that the mode is `plan`. A call to any other tool is still answered."""
    offered = tuple(tool for tool in tools if attended or tool.name != ASKING)
    return (*offered, SubmitPlan()) if mode == "plan" else offered


def missing_tools(config: Config, windows: Sequence[Window], *, attended: bool) -> frozenset[str]:
    """Return the names of built-in tools that are never offered: excluded by the user, left out in all of the windows,
    or in need of a user where none is present."""
    known = {tool.name for tool in builtin_tools()}
    left_out = known - set(config.tools_allowed or known) | known & set(config.tools_denied)
    if not config.tools_allowed and windows:
        sizes = [window.effective for window in windows]
        spared = partial(is_omitted, has_jobs=True, has_kept=True)
        left_out |= {name for name in known if all(spared(name, size) for size in sizes)}
    return frozenset(left_out if attended else left_out | {ASKING})


def compacting_of(config: Config, effective: int) -> CompactionSettings:
    """Return the compaction settings. In a small window the caps are smaller as well."""
    usual = Caps()
    caps = Caps(
        tail=min(config.tail_tokens, effective // 5),
        ledger=min(usual.ledger, effective // 5),
        retain=min(config.retain_tokens, effective // 10),
        summary=min(config.summary_tokens, effective // 8),
        protect=min(config.protect_tokens or _usual_protection(config, effective), effective // 4),
        newest=config.keep_last_n or usual.newest,
        turns=config.retain_last_turns,
    )
    wishes = Wishes(
        config.summary_prompt or "", config.summary_directives, config.retain_prompt or "", config.retain_directives
    )
    return CompactionSettings(
        caps,
        wishes,
        config.on_full,
        config.rewrite_policy,
        patience_of(config),
        config.background_at,
        config.background_messages,
    )


def patience_of(config: Config) -> RewritePatience:
    """Return the factors on its cost that a rewrite must have saved."""
    usual = RewritePatience(config.rewrite_kappa_mask, config.rewrite_kappa_compact)
    return usual.careful if config.rewrite_patience == "careful" else usual


def _usual_protection(config: Config, effective: int) -> int:
    """Default tokens of the newest outputs that stay whole. As a budget for all outputs it grows with the window."""
    if config.rewrite_policy == "total_budget":
        return min(max(effective // 4, 20_000), 60_000)
    return Caps().protect


def persistence_of(config: Config, *, interactive: bool) -> RetryLimits:
    """Return the retry limits. By default, an interactive session retries until the user stops it."""
    until_stopped = interactive and config.sources.get("retry.patience") == "default"
    patience = None if until_stopped else config.retry_patience
    return RetryLimits(patience, config.retry_first, config.retry_fallback_after)


def limits_of(config: Config, *, interactive: bool) -> TurnLimits:
    """Return the limits of turns. A headless run has no pauses, so it keeps no cache alive."""
    kept = config.keep_alive if interactive and config.keep_alive != "off" else 0
    return TurnLimits(config.max_turns, config.max_cost, kept, config.jobs_wake and interactive)


def offloading_of(config: Config) -> Offloading:
    """Return the limits for showing outputs."""
    return Offloading(
        config.result_offload_threshold, config.preview_bytes, config.max_message_bytes, config.tool_output_mode
    )


@dataclass(frozen=True, slots=True)
class SystemText:
    """The system prompt of a session, and the changeable facts that it states."""

    instructions: Instructions
    mode: Mode
    attended: bool
    """Whether it says that the user is present."""


def system_text(
    config: Config,
    root: Path,
    model: str,
    mode: Mode,
    windows: Sequence[Window],
    *,
    attended: bool,
    is_led: bool = False,
) -> SystemText:
    """Return the system prompt of a new session. `windows`: those of its model and of the fallbacks, for which it stays
    the same; `is_led`: the model is a small one."""
    instructions = load_instructions(
        root,
        config.project,
        config.folders.config,
        date.today(),
        data_folder=config.folders.data,
        home=config.folders.home,
        mode=mode,
        attended=attended,
        model=model,
        missing=missing_tools(config, windows, attended=attended),
        is_short=is_led or all(window.effective < SMALL for window in windows),
    )
    if config.may_have_extensions:
        from ebbtide.agent.extensions.skills import initial_skills_prompt  # noqa: PLC0415  # deferred: few users have skills

        instructions = replace(instructions, skills=initial_skills_prompt(config))
    base = config.system_prompt or instructions.base
    instructions = replace(instructions, base=base, appended=config.append_system_prompt)
    return SystemText(instructions, mode, attended)


def system_text_going_on(
    config: Config,
    root: Path,
    model: str,
    mode: Mode,
    windows: Sequence[Window],
    last: RequestMark | None,
    *,
    attended: bool,
    is_cached: bool = True,
    is_led: bool = False,
) -> SystemText:
    """Return the system prompt of a resumed session. If nothing else has changed since the last request, it states the
    same permission mode as then and, if that request `is_cached`, the same presence of the user: different text would
    invalidate the provider's cache, and a note states the current facts."""
    now = system_text(config, root, model, mode, windows, attended=attended, is_led=is_led)
    if last is None:
        return now
    for there in (attended, not attended) if is_cached else (attended,):
        text = now
        if there != attended:
            text = system_text(config, root, model, mode, windows, attended=there, is_led=is_led)
        for named in MODES:
            then = in_mode(text.instructions, mode, named)
            if last.begins_with(then.text):
                return SystemText(then, named, there)
    return now


def is_in_cache(used: tuple[str, float] | None, facts: ModelFacts) -> bool:
    """Whether the provider may still have a session's last request in its cache. `used`: its model, and how many
    seconds ago it was sent."""
    return used is not None and used[0] == facts.id and used[1] <= facts.cache_ttl


def surroundings_of(config: Config, *, attended: bool) -> Surroundings:
    """Return the surroundings of a conversation, as the system prompt states them at the start."""
    return Surroundings(attended=attended, date=date.today().isoformat(), branch=git_branch(config.project))


def debug_of(config: Config, environment: Mapping[str, str], *, interactive: bool) -> Debug:
    """Return the debug log if it is enabled; headless runs print it as well."""
    if not is_enabled(environment):
        return Debug()
    return Debug(config.folders.logs / "context.jsonl", None if interactive else sys.stderr)
