"""Commands that show what was changed in files."""

from tui.actions.desk import CommandContext


async def show_turn(desk: CommandContext, argument: str = "") -> None:
    """What the last turn changed; with `session` behind the command, what the whole session did."""
    await _show(desk, whole=argument.strip().lower() == "session")


async def show_session(desk: CommandContext, _: str = "") -> None:
    await _show(desk, whole=True)


async def _show(desk: CommandContext, *, whole: bool) -> None:
    from tui.screens.changes import ChangesScreen, changes_screen  # noqa: PLC0415  # deferred: loaded when first shown

    if desk.talk.session is None:
        return
    screen = await changes_screen(desk.talk.session.files, "session" if whole else "turn")
    if not isinstance(desk.app.screen, ChangesScreen):
        desk.app.push_screen(screen)
