"""Commands that change how the program is set."""

from agent.config.options import THEMES
from agent.errors import AgentError
from tui.actions.desk import CommandContext

# What only they need is loaded when it is first needed: the prompt is there sooner without it.


async def choose_theme(desk: CommandContext, name: str) -> None:
    from tui.view.themes import themes_panel  # noqa: PLC0415  # deferred: see above

    looks, settings = desk.looks, desk.settings
    if name and name not in THEMES:
        return desk.talk.notice(f"there is no theme `{name}`; the themes are {', '.join(f'`{t}`' for t in THEMES)}")
    if not name:
        if looks is None:
            return desk.hint("There are no colours here. `/theme NAME` chooses those of the screen.")
        before = looks.chosen
        taken = await desk.show(themes_panel(before, looks.colorless, looks.wear))
        if taken is None:
            return looks.wear(before)
        name = taken.value
    if looks is not None:
        looks.wear(next(theme for theme in THEMES if theme == name))
    if settings is not None:
        try:
            desk.hint(settings.put("tui.theme", name))
        except AgentError as error:
            desk.talk.notice(str(error))
    return None


async def show_settings(desk: CommandContext, words: str) -> None:
    from tui.view.settings import settings_panel  # noqa: PLC0415  # deferred: see above

    settings = desk.settings
    if settings is None:
        return desk.talk.notice("the settings cannot be changed here; `ebb config` lists them")

    def change(key: str, text: str) -> str:
        told = settings.put(key, text) if text.strip() else settings.take(key)
        desk.applied(key)
        return told

    await desk.show(settings_panel(settings.rows, change, words))
    return None
