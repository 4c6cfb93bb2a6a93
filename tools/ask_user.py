"""The `ask_user` tool: asks the user a question."""

from ebbtide.tools.base import Arguments, Effect, Result, ToolError, Workspace, read_description
from ebbtide.tools.call_arguments.schema import get_items, get_text, object_schema
from ebbtide.tools.lazy import regex
from ebbtide.tools.tool_traits import ToolTraits, first_line, text_argument

_SUGGEST_TAG = regex(r"<suggest[^>]*>([^<]*)</suggest>")


def _adapt_arguments(arguments: dict[str, object], called_name: str, root: str) -> None:
    questions = arguments.get("questions")
    if isinstance(questions, list) and questions and isinstance(first_question := questions[0], dict):
        if len(questions) > 1:
            raise ToolError("`ask_user` asks one question per call: ask the first one, and wait for the answer")
        arguments.pop("questions")
        arguments.update(
            {name: first_question[name] for name in ("question", "options", "several") if name in first_question}
        )
        if first_question.get("multiSelect") is True:
            arguments["several"] = True
    options = arguments.get("options")
    if isinstance(options, str) and (suggestions := _SUGGEST_TAG.findall(options)):
        arguments["options"] = options = [text.strip() for text in suggestions]
    if isinstance(options, list):
        arguments["options"] = [_option_label(option) for option in options]


def _option_label(option: object) -> object:
    return option.get("label") or option.get("text") or option if isinstance(option, dict) else option


def _convert_to_claude_arguments(arguments: dict[str, object]) -> None:
    options = arguments.pop("options", None)
    choices = [{"label": option} for option in options] if isinstance(options, list) else []
    arguments["questions"] = [{"question": arguments.pop("question", ""), "options": choices}]


class AskUser:
    name = "ask_user"
    description = read_description(__file__)
    effect: Effect = "none"
    traits = ToolTraits(
        role="ask_question",
        output_limit="whole",
        acp_kind="think",
        get_subject=lambda arguments: first_line(text_argument(arguments, "question")),
        aliases="ask_user_question ask_followup_question ask_question request_user_input",
        argument_aliases={"question": "prompt message text", "options": "choices follow_up suggestions"},
        adapt_arguments=_adapt_arguments,
        claude_names=("AskUserQuestion",),
        convert_to_claude=_convert_to_claude_arguments,
        small_window_policy="optional",
    )
    schema = object_schema(
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
        options = tuple(str(option) for option in get_items(arguments, "options"))
        ask = workspace.ask_multiple if arguments.get("several") is True and options else workspace.ask
        return Result(await ask(get_text(arguments, "question"), options))
