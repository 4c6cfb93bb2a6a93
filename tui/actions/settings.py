"""Commands that change how the program is set."""

from agent.config.options import THEMES
from agent.errors import AgentError
from tui.actions.command_context import CommandContext
from tui.view.settings import settings_panel
from tui.view.themes import themes_panel


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
        taken = await context.show(themes_panel(before, looks.colorless, looks.wear))
        if taken is None:
            return looks.wear(before)
        name = taken.value
    if looks is not None:
        looks.wear(next(theme for theme in THEMES if theme == name))
    if settings is not None:
        try:
            context.hint(settings.put("tui.theme", name))
        except AgentError as error:
            context.controller.notice(str(error))
    return None


async def show_settings(context: CommandContext, words: str) -> None:
    settings = context.settings
    if settings is None:
        return context.controller.notice("the settings cannot be changed here; `ebb config` lists them")

    def change(key: str, text: str) -> str:
        told = settings.put(key, text) if text.strip() else settings.take(key)
        context.applied(key)
        return told

    await context.show(settings_panel(settings.rows, change, words))
    return None
