"""Commands that change how the program is set, in lines."""

from agent.config.settings import Settings, text_of
from agent.errors import AgentError
from tui.plain.desk import LineContext, choose
from tui.plain.print_events import plain_lines
from tui.text.sanitise import visible_line


async def choose_theme(desk: LineContext, name: str) -> None:
    """Lines have no colours; a name is kept for the next screen."""
    if not name:
        desk.say(("There are no colours here. `/theme NAME` chooses those of the screen.",))
    elif desk.settings is not None:
        _put(desk, desk.settings, "tui.theme", name)


async def show_settings(desk: LineContext, words: str) -> None:
    from tui.view.settings import lines_about  # noqa: PLC0415  # deferred: loaded when it is first shown

    settings = desk.settings
    if settings is None:
        return desk.talk.notice("the settings cannot be changed here; `ebb config` lists them")
    wanted = words.lower().split()
    rows = [row for row in settings.rows() if all(word in f"{row.key} {row.help}".lower() for word in wanted)]
    names = [visible_line(f"{row.key}, {text_of(row.value)}, {row.origin}") for row in rows]
    index = await choose(desk, "Settings. A number shows one and changes it.", names)
    if index is None:
        return None
    key = rows[index].key
    desk.say((names[index], *plain_lines(lines_about(rows[index]))))
    value = (await desk.ask("New value, or `none` for as without a setting; an empty line leaves it: ")).strip()
    if value:
        _put(desk, settings, key, "" if value == "none" else value)
    return None


def _put(desk: LineContext, settings: Settings, key: str, value: str) -> None:
    try:
        desk.say((settings.put(key, value) if value else settings.take(key),))
    except AgentError as error:
        desk.talk.fail(error)
