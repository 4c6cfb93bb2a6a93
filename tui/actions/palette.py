"""The command palette: everything that can be done, in one list."""

from time import time

from tui.actions.desk import CommandContext
from tui.commands import COMMANDS, Invocation, parse
from tui.keys import KEYS

# Screens are loaded when they are first shown: the prompt is there sooner without them.


async def show_palette(desk: CommandContext, _: str = "") -> None:
    from tui.screens.commands import PaletteScreen  # noqa: PLC0415  # deferred: see above
    from tui.view.command_palette import palette_entries  # noqa: PLC0415  # deferred: see above

    sessions = await desk.talk.sessions.recent()
    entries = palette_entries(COMMANDS, KEYS, sessions, desk.talk.sessions.models(), time())
    if len(desk.app.screen_stack) > 1:
        return
    await run(desk, await desk.app.push_screen_wait(PaletteScreen(entries)))


async def run(desk: CommandContext, chosen: str) -> None:
    """Does what was chosen: a command that needs more words is written into the prompt."""
    kind, _, action = chosen.partition(":")
    if kind == "action":
        home, _, name = action.rpartition(".")
        await desk.app.run_action(name, desk.app.screen_stack[0] if home == "main" else desk.app)
        return
    invocation = parse(chosen)
    if not isinstance(invocation, Invocation):
        return
    if invocation.command.hint.isupper() and not invocation.argument:
        desk.prompt.put(f"{chosen} ")
    else:
        desk.invoke(invocation)
