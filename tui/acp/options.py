"""The session options of an editor: permission mode, model and reasoning effort. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from acp.schema import (
    SessionConfigOptionSelect,
    SessionConfigSelectOption,
    SessionMode,
    SessionModeState,
)

from ebbtide.agent.config.options import EFFORTS, MODES, Mode
from ebbtide.agent.config.values import Config
from ebbtide.agent.context.reminder_notes import MODES as MEANINGS
from ebbtide.agent.errors import UsageError

MODE, MODEL, EFFORT = "mode", "model", "thought_level"
"""The option ids."""
AS_CONFIGURED = "default"
"""The effort option if none is configured."""


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """The current options of a session."""

    mode: str
    model: str
    effort: str
    """Empty if not set."""
    models: Sequence[str]
    """The models to offer."""


def modes_of(chosen: SessionOptions) -> SessionModeState:
    modes = [SessionMode(id=mode, name=_title_case(mode), description=MEANINGS[mode]) for mode in MODES]
    return SessionModeState(current_mode_id=chosen.mode, available_modes=modes)


def options_of(chosen: SessionOptions) -> list[SessionConfigOptionSelect]:
    models = dict.fromkeys((chosen.model, *chosen.models))
    modes = [
        SessionConfigSelectOption(value=mode, name=_title_case(mode), description=MEANINGS[mode]) for mode in MODES
    ]
    named = [SessionConfigSelectOption(value=model, name=model) for model in models]
    efforts = [SessionConfigSelectOption(value=level, name=_title_case(level)) for level in (AS_CONFIGURED, *EFFORTS)]
    return [
        SessionConfigOptionSelect(
            id=MODE, name="Mode", category="mode", type="select", current_value=chosen.mode, options=modes,
            description="What runs without a question",
        ),
        SessionConfigOptionSelect(
            id=MODEL, name="Model", category="model", type="select", current_value=chosen.model, options=named
        ),
        SessionConfigOptionSelect(
            id=EFFORT, name="Thinking", category="thought_level", type="select", options=efforts,
            current_value=chosen.effort or AS_CONFIGURED, description="How hard the model thinks, where it can",
        ),
    ]  # fmt: skip


def mode_named(name: str) -> Mode:
    """Raises `UsageError`."""
    mode = next((mode for mode in MODES if mode == name), None)
    if mode is None:
        raise UsageError(f"there is no mode `{name}`; the modes are {', '.join(f'`{mode}`' for mode in MODES)}")
    return mode


def effort_named(name: str) -> str | None:
    """None for the default. Raises `UsageError`."""
    if name == AS_CONFIGURED:
        return None
    if name not in EFFORTS:
        raise UsageError(f"there is no effort `{name}`; there are {', '.join(f'`{each}`' for each in EFFORTS)}")
    return name


def with_effort(config: Config, effort: str | None) -> Config:
    """The configuration with this effort, which overrides per-model settings."""
    if effort is None:
        return config
    sources = {**config.sources, "agent.reasoning_effort": "command line"}
    return replace(config, reasoning_effort=effort, sources=sources)


def _title_case(word: str) -> str:
    return word[:1].upper() + word[1:].replace("-", " ")
