"""The `ask_user` tool: asks the user a question."""

from ebbtide.tools.base import Arguments, Effect, Result, Workspace, read_description
from ebbtide.tools.schema import items, object_of, text


class AskUser:
    name = "ask_user"
    description = read_description(__file__)
    effect: Effect = "none"
    schema = object_of(
        {
            "question": {"type": "string"},
            "options": {"type": "array", "items": {"type": "string"}},
            "several": {"type": "boolean"},
        },
        required=("question",),
    )

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return ()

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        options = tuple(str(option) for option in items(arguments, "options"))
        ask = workspace.ask_for_several if arguments.get("several") is True and options else workspace.ask
        return Result(await ask(text(arguments, "question"), options))
