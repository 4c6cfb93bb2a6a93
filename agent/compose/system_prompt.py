"""The system prompt of a session. A resumed session sends the same text again if possible."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

from ebbtide.agent import extensions
from ebbtide.agent.budget.last_request import RequestRecord
from ebbtide.agent.budget.request_budget import Window
from ebbtide.agent.compose.session_tools import missing_tools
from ebbtide.agent.config.options import PERMISSION_MODES, PermissionMode
from ebbtide.agent.config.values import Config
from ebbtide.agent.input.instructions import git_branch, load_instructions, replace_mode
from ebbtide.agent.prompt.build import Instructions
from ebbtide.agent.prompt.reminder_notes import ReminderFacts
from ebbtide.agent.prompt.small_window import SMALL_LIMIT_TOKENS
from ebbtide.agent.providers.base import ModelFacts
from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class SystemText:
    """The system prompt of a session, with the facts in it that can change during the session."""

    instructions: Instructions
    mode: PermissionMode
    is_interactive: bool
    """Whether the system prompt says that the user is present."""


def build_system_text(
    config: Config,
    root: Path,
    model: str,
    mode: PermissionMode,
    windows: Sequence[Window],
    *,
    is_interactive: bool,
    is_small_model: bool = False,
) -> SystemText:
    """Build the system prompt of a new session. `windows`: the windows of the model and its fallbacks. The prompt must
    fit all of them."""
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
        is_short=is_small_model or all(window.available_tokens < SMALL_LIMIT_TOKENS for window in windows),
    )
    if config.may_have_extensions:
        instructions = replace(instructions, skills=extensions.skills.initial_skill_list(config))
    base = config.system_prompt or instructions.base_text
    instructions = replace(instructions, base_text=base, appended_text=config.append_system_prompt)
    return SystemText(instructions, mode, is_interactive)


def build_resumed_system_text(
    config: Config,
    root: Path,
    model: str,
    mode: PermissionMode,
    windows: Sequence[Window],
    last_request: RequestRecord | None,
    *,
    is_interactive: bool,
    is_cached: bool = True,
    is_small_model: bool = False,
) -> SystemText:
    """Build the system prompt of a resumed session. If possible, it is identical to the one in the last request,
    because a different text would invalidate the provider's cache. The text might therefore state an outdated
    permission mode. If the last request `is_cached`, the text might also be wrong about whether the user is present.
    Notes tell the model the current values."""
    current = build_system_text(
        config, root, model, mode, windows, is_interactive=is_interactive, is_small_model=is_small_model
    )
    if last_request is None:
        return current
    for stated_interactive in (is_interactive, not is_interactive) if is_cached else (is_interactive,):
        stated_text = current
        if stated_interactive != is_interactive:
            stated_text = build_system_text(
                config, root, model, mode, windows, is_interactive=stated_interactive, is_small_model=is_small_model
            )
        for stated_mode in PERMISSION_MODES:
            candidate = replace_mode(stated_text.instructions, mode, stated_mode)
            if last_request.has_system_prompt(candidate.text):
                return SystemText(candidate, stated_mode, stated_interactive)
    return current


def is_in_cache(last_use: tuple[str, float] | None, facts: ModelFacts) -> bool:
    """Whether the provider might still have the session's last request in its cache. `last_use`: the model of that
    request, and the seconds since it was sent."""
    if last_use is None:
        return False
    model, seconds_ago = last_use
    return model == facts.id and seconds_ago <= facts.cache_ttl


def environment_facts(config: Config, *, is_interactive: bool) -> ReminderFacts:
    """Return the facts that the system prompt states: the user's presence, the date and the git branch."""
    return ReminderFacts(
        is_interactive=is_interactive, date=date.today().isoformat(), branch=git_branch(config.project_folder)
    )
