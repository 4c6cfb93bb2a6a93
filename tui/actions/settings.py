"""Commands that change how the program is set."""

from agent.config.options import THEMES
from agent.errors import AgentError
from tui.actions.desk import CommandContext

# Each screen is loaded when it is first shown: the prompt is there sooner without them.


async def choose_theme(desk: CommandContext, name: str) -> None:
    from tui.screens.themes import ThemesScreen  # noqa: PLC0415  # deferred: see above

    if name and name not in THEMES:
        desk.talk.notice(f"there is no theme `{name}`; the themes are {', '.join(f'`{theme}`' for theme in THEMES)}")
        return
    looks = desk.looks
    chosen = next((theme for theme in THEMES if theme == name), None)
    if chosen is None:
        chosen = await desk.app.push_screen_wait(ThemesScreen(looks.chosen, looks.colorless, looks.wear))
    if chosen is None:
        return
    looks.wear(chosen)
    if desk.settings is not None:
        try:
            desk.showing.for_a_moment(desk.settings.put("tui.theme", chosen))
        except AgentError as error:
            desk.talk.notice(str(error))


async def show_settings(desk: CommandContext, words: str) -> None:
    from tui.screens.settings import SettingsScreen  # noqa: PLC0415  # deferred: see above

    if desk.settings is None:
        desk.talk.notice("the settings cannot be changed here; `ebb config` lists them")
        return
    settings = desk.settings

    def change(key: str, text: str) -> str:
        told = settings.put(key, text) if text.strip() else settings.take(key)
        if key == "tui.theme":
            desk.looks.wear(settings.config.tui_theme)
        if key == "tui.keys":
            desk.prompt.use_vim(settings.config.tui_keys == "vim")
        return told

    desk.app.push_screen(SettingsScreen(settings.rows, change, words))
