"""The session options that an editor can change: permission mode, model and reasoning effort. No I/O."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from acp.schema import (
    SessionConfigOptionSelect,
    SessionConfigSelectOption,
    SessionMode,
    SessionModeState,
)

from ebbtide.agent.config.options import EFFORTS, PERMISSION_MODES, PermissionMode
from ebbtide.agent.config.values import EDITOR_SOURCE, Config
from ebbtide.agent.errors import UsageError
from ebbtide.agent.prompt.reminder_notes import MODE_DESCRIPTIONS

MODE_ID, MODEL_ID, EFFORT_ID = "mode", "model", "thought_level"
"""Ids of the options."""
DEFAULT_EFFORT = "default"
"""The value of the effort option when no effort is configured."""


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """The current values of a session's options."""

    mode: str
    model: str
    effort: str
    """The reasoning effort; empty if not set."""
    models: Sequence[str]
    """The models to offer."""


def build_mode_state(options: SessionOptions) -> SessionModeState:
    modes = [
        SessionMode(id=mode, name=_title_case(mode), description=MODE_DESCRIPTIONS[mode]) for mode in PERMISSION_MODES
    ]
    return SessionModeState(current_mode_id=options.mode, available_modes=modes)


def build_config_options(session_options: SessionOptions) -> list[SessionConfigOptionSelect]:
    models = dict.fromkeys((session_options.model, *session_options.models))
    modes = [
        SessionConfigSelectOption(value=mode, name=_title_case(mode), description=MODE_DESCRIPTIONS[mode])
        for mode in PERMISSION_MODES
    ]
    model_options = [SessionConfigSelectOption(value=model, name=model) for model in models]
    efforts = [SessionConfigSelectOption(value=level, name=_title_case(level)) for level in (DEFAULT_EFFORT, *EFFORTS)]
    return [
        SessionConfigOptionSelect(
            id=MODE_ID, name="Mode", category="mode", type="select", current_value=session_options.mode, options=modes,
            description="What may run without asking",
        ),
        SessionConfigOptionSelect(
            id=MODEL_ID, name="Model", category="model", type="select", current_value=session_options.model,
            options=model_options,
        ),
        SessionConfigOptionSelect(
            id=EFFORT_ID, name="Thinking", category="thought_level", type="select", options=efforts,
            current_value=session_options.effort or DEFAULT_EFFORT, description="Reasoning effort, if supported",
        ),
    ]  # fmt: skip


def parse_mode(name: str) -> PermissionMode:
    """Parse the name of a permission mode. Raises `UsageError`."""
    mode = next((mode for mode in PERMISSION_MODES if mode == name), None)
    if mode is None:
        raise UsageError(f"unknown mode `{name}`; use one of {', '.join(f'`{mode}`' for mode in PERMISSION_MODES)}")
    return mode


def parse_effort(name: str) -> str | None:
    """Parse a reasoning effort; None for the default. Raises `UsageError`."""
    if name == DEFAULT_EFFORT:
        return None
    if name not in EFFORTS:
        raise UsageError(f"unknown effort `{name}`; use one of {', '.join(f'`{effort}`' for effort in EFFORTS)}")
    return name


def with_effort(config: Config, effort: str | None) -> Config:
    """Set the reasoning effort in a configuration, overriding per-model settings."""
    if effort is None:
        return config
    sources = {**config.sources, "agent.reasoning_effort": EDITOR_SOURCE}
    return replace(config, reasoning_effort=effort, sources=sources)


def _title_case(word: str) -> str:
    return word[:1].upper() + word[1:].replace("-", " ")
