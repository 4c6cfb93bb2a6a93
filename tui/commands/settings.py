"""Commands that change settings."""

from ebbtide.agent.config.options import CONTEXT_STYLES, EFFORTS, THOUGHTS_DISPLAYS
from ebbtide.agent.config.settings import Settings
from ebbtide.agent.errors import AgentError
from ebbtide.tui.commands.command_context import CommandContext
from ebbtide.tui.commands.models import available_models
from ebbtide.tui.commands.settings_panel import SettingsAccess, build_settings_panel
from ebbtide.tui.text.spans import Line
from ebbtide.tui.view.panel import Panel, PanelRow


async def toggle_side_panel(context: CommandContext, _: str) -> None:
    settings = context.settings
    if settings is None or context.themes is None:
        return context.show_hint("There is no side panel here. Use `/files`, `/todos` and `/context`.")
    is_on = not settings.config.tui_panel
    try:
        message = settings.set_value("tui.panel", "true" if is_on else "false")
    except AgentError as error:
        return context.controller.show_notice(str(error))
    context.apply_setting("tui.panel")
    if settings.config.tui_panel != is_on:
        return context.show_hint(message)  # a source of higher priority overrides the setting
    hint = "side panel on (from 140 columns); F5 hides it"
    return context.show_hint(hint if is_on else "side panel hidden; F5 shows it")


async def show_settings(context: CommandContext, search_text: str) -> None:
    settings = context.settings
    if settings is None:
        return context.controller.show_notice(NO_SETTINGS_NOTICE)

    def change_setting(key: str, text: str) -> str:
        message = settings.set_value(key, text) if text.strip() else settings.unset_value(key)
        context.apply_setting(key)
        return message

    access = SettingsAccess(settings.all_settings, settings.own_value, change_setting, context.show)
    await context.show(build_settings_panel(access, search_text))
    return None


NO_SETTINGS_NOTICE = "settings cannot be changed here; `ebb config` lists them"


def choose_style(context: CommandContext, name: str) -> None:
    """Set the context style, in this session and in later ones."""
    if context.settings is None:
        return context.controller.show_notice(NO_SETTINGS_NOTICE)
    if name.lower() not in CONTEXT_STYLES:
        styles = ", ".join(f"`{style}`" for style in CONTEXT_STYLES)
        return context.controller.show_notice(f"type `/context style NAME`; the styles are {styles}")
    try:
        message = context.settings.set_value("context.style", name.lower())
    except AgentError as error:
        return context.controller.show_notice(str(error))
    context.apply_setting("context.style")
    return context.show_hint(message)


async def choose_effort(context: CommandContext, level: str) -> None:
    """Set the reasoning effort from now on, in the current session too."""
    settings, session = context.settings, context.controller.session
    if settings is None or session is None:
        return context.controller.show_notice(NO_SETTINGS_NOTICE)
    if not level:
        current_effort = settings.config.reasoning_effort or ""
        choice = await context.show(_build_efforts_panel(current_effort))
        if choice is None or choice.value == current_effort:
            return None
        level = choice.value
    message = settings.set_value("agent.reasoning_effort", level.lower())
    has_messages = bool(session.history.messages)
    if await context.controller.open(session_id=session.id if has_messages else None, model=session.model):
        context.show_session()
        context.controller.show_notice(_effort_message(settings, session.model, message))
    return None


def _effort_message(settings: Settings, model: str, message: str) -> str:
    """Add a warning to the message after a change if the model may ignore the setting."""
    _, describe = available_models(settings, model, ())
    is_supported = describe(model).supports_thinking
    message = message.replace("; takes effect in the next session", ", also in later sessions")
    return message if is_supported else f"{message}; `{model}` may ignore it"


def _build_efforts_panel(current_effort: str) -> Panel:
    rows = tuple(
        PanelRow(effort, (("● " if effort == current_effort else "  ", "good"), (effort, "text")), effort)
        for effort in EFFORTS
    )
    title: Line = (("Reasoning effort", "strong"), ("  more is slower and uses more tokens", "dim"))
    return Panel(
        "effort",
        (title,),
        rows,
        "Up, Down   Enter select   Esc cancel",
        search_placeholder="",
        initial_value=current_effort,
    )


async def choose_thoughts(context: CommandContext, mode_name: str) -> None:
    """Set how reasoning is shown. Without a name, switch to the next mode."""
    settings = context.settings
    if settings is None:
        return context.controller.show_notice(NO_SETTINGS_NOTICE)
    current_display = settings.config.tui_thoughts
    new_value = (
        mode_name.lower() or THOUGHTS_DISPLAYS[(THOUGHTS_DISPLAYS.index(current_display) + 1) % len(THOUGHTS_DISPLAYS)]
    )
    try:
        message = settings.set_value(
            "tui.thoughts", {"on": "open", "show": "open", "off": "hidden", "hide": "hidden"}.get(new_value, new_value)
        )
    except AgentError as error:
        return context.controller.show_notice(str(error))
    context.apply_setting("tui.thoughts")
    return context.show_hint(message)
