"""A call that the user changes before it runs, in lines: a command in its place, anything else in the user's editor."""

import os

from agent.events import Decision, PermissionAsked
from tui.plain.lines import Lines
from tui.terminal.edit_text import changed_by, editor_of, keys_left_to_it
from tui.text.sanitise import visible
from tui.view.permission import changeable, changed
from tui.view.titles import path_of

COMMAND = "Command to run: "


async def change(context: Lines, question: PermissionAsked) -> Decision | None:
    """What the user makes of the call; None when nothing was made of it. Raises `UsageError`."""
    before = str(question.arguments[changeable(question)])
    if changeable(question) == "command" and visible(before) == before:
        if not context.reader().begin(COMMAND, before):
            context.say(("Type the command to run in its place; an empty line goes back to the question.",))
        text = visible(await context.ask(COMMAND))
        if not text.strip():
            return None
        return Decision("allow") if text == before else Decision("allow", arguments=changed(question, text))
    text = await in_editor(context, before, path_of(question.arguments))
    return Decision("edit", arguments=changed(question, text)) if text != before else None


async def in_editor(context: Lines, text: str, name: str) -> str:
    """What the user makes of a text in an editor, in a file whose name ends as `name` does. Raises `UsageError`."""
    command = editor_of(os.environ)
    with keys_left_to_it():
        return await context.reader().lend(lambda: changed_by(command, text, name))
