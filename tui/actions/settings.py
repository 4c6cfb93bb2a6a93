"""Commands that change settings."""

from ebbtide.agent.config.options import EFFORTS, THEMES, THOUGHTS
from ebbtide.agent.config.settings import Settings
from ebbtide.agent.errors import AgentError
from ebbtide.tui.actions.command_context import CommandContext
from ebbtide.tui.text.spans import Line
from ebbtide.tui.view.models import offers_here
from ebbtide.tui.view.panel import Panel, PanelRow
from ebbtide.tui.view.settings import settings_panel
from ebbtide.tui.view.themes import themes_panel


async def choose_theme(context: CommandContext, name: str) -> None:
    looks, settings = context.looks, context.settings
    if name and name not in THEMES:
        return context.controller.notice(
            f"there is no theme `{name}`; the themes are {', '.join(f'`{t}`' for t in THEMES)}"
        )
    if not name:
        if looks is None:
            return context.hint("There are no colours here. `/theme NAME` chooses those of the screen.")
        before = looks.chosen
        taken = await context.show(themes_panel(before, looks.colorless, looks.apply_theme))
        if taken is None:
            return looks.apply_theme(before)
        name = taken.value
    if looks is not None:
        looks.apply_theme(next(theme for theme in THEMES if theme == name))
    if settings is not None:
        try:
            context.hint(settings.set_value("tui.theme", name))
        except AgentError as error:
            context.controller.notice(str(error))
    return None


async def switch_panel(context: CommandContext, _: str) -> None:
    settings = context.settings
    if settings is None or context.looks is None:
        return context.hint("There is no panel here. `/files`, `/todos` and `/context` show what is in it.")
    is_wanted = not settings.config.tui_panel
    try:
        told = settings.set_value("tui.panel", "true" if is_wanted else "false")
    except AgentError as error:
        return context.controller.notice(str(error))
    context.apply_setting("tui.panel")
    if settings.config.tui_panel != is_wanted:
        return context.hint(told)  # what is set elsewhere wins
    shown = "the panel is there, on 140 columns and more; F5 hides it"
    return context.hint(shown if is_wanted else "the panel is hidden; F5 shows it again")


async def show_settings(context: CommandContext, words: str) -> None:
    settings = context.settings
    if settings is None:
        return context.controller.notice("the settings cannot be changed here; `ebb config` lists them")

    def change(key: str, text: str) -> str:
        told = settings.set_value(key, text) if text.strip() else settings.unset_value(key)
        context.apply_setting(key)
        return told

    await context.show(settings_panel(settings.rows, change, words))
    return None


NO_SETTINGS = "the settings cannot be changed here; `ebb config` lists them"


async def choose_effort(context: CommandContext, level: str) -> None:
    """Set the reasoning effort from now on, also for the current session."""
    settings, session = context.settings, context.controller.session
    if settings is None or session is None:
        return context.controller.notice(NO_SETTINGS)
    if not level:
        now = settings.config.reasoning_effort or ""
        taken = await context.show(_efforts_panel(now))
        if taken is None or taken.value == now:
            return None
        level = taken.value
    told = settings.set_value("agent.reasoning_effort", level.lower())
    said = bool(session.history.messages)
    if await context.controller.open(resume=session.id if said else None, model=session.model):
        context.show_session()
        context.controller.notice(_effort_message(settings, session.model, told))
    return None


def _effort_message(settings: Settings, model: str, told: str) -> str:
    """The message after a change, including whether the model supports it."""
    _, offer_of = offers_here(settings, model, ())
    heeds = offer_of(model).thinking
    told = told.replace(", from the next session on", ", also in later sessions")
    return told if heeds else f"{told}; `{model}` is not known to think, and may not heed it"


def _efforts_panel(now: str) -> Panel:
    rows = tuple(PanelRow(each, (("● " if each == now else "  ", "good"), (each, "text")), each) for each in EFFORTS)
    head: Line = (("How hard the model thinks", "strong"), ("  more is slower and takes more tokens", "dim"))
    return Panel("effort", (head,), rows, "Up, Down   Enter takes it   Esc cancels", search="", mark=now)


async def choose_thoughts(context: CommandContext, how: str) -> None:
    """Set how reasoning is shown, or switch to the next way."""
    settings = context.settings
    if settings is None:
        return context.controller.notice(NO_SETTINGS)
    now = settings.config.tui_thoughts
    wanted = how.lower() or THOUGHTS[(THOUGHTS.index(now) + 1) % len(THOUGHTS)]
    try:
        told = settings.set_value(
            "tui.thoughts", {"on": "open", "show": "open", "off": "hidden", "hide": "hidden"}.get(wanted, wanted)
        )
    except AgentError as error:
        return context.controller.notice(str(error))
    context.apply_setting("tui.thoughts")
    return context.hint(told)
