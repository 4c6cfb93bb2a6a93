"""Commands that send or edit messages."""

from pathlib import Path

from ebbtide.agent.input.user_actions import run_user_command
from ebbtide.tui.commands.command_context import CommandContext
from ebbtide.tui.view.block_texts import last_answer


async def send_later(context: CommandContext, text: str) -> None:
    if text:
        context.send(text, later=True)
    else:
        context.controller.show_notice("type a message after `/later`; it is sent at the end of the turn")


async def run_shell(context: CommandContext, command: str) -> None:
    if not command:
        return context.controller.show_notice("type a command after `!`, such as `!git status`")
    if context.controller.session is not None and context.controller.session.mode == "plan":
        context.controller.show_notice("plan mode restricts the model only; your own command runs")
    controller = context.controller
    await controller.run_with_activity(
        "running your command",
        lambda session: session.change_conversation(run_user_command, session.calls, command, controller.show_event),
    )
    return None


async def copy_answer(context: CommandContext, _: str) -> None:
    context.copy(last_answer(context.controller.view.blocks))


async def print_conversation(context: CommandContext, _: str) -> None:
    await context.controller.load_older_messages(load_all=True)
    await context.print_conversation()


async def review(context: CommandContext, subject: str) -> None:
    _send(context, "review", subject)


async def propose_instructions(context: CommandContext, request: str) -> None:
    _send(context, "init", request)


def command_prompt(command: str, argument: str) -> str:
    """Build the prompt of `/review` or `/init`. `/review` without an argument reviews the uncommitted changes."""
    prompt = Path(__file__).with_name(f"{command}.md").read_text(encoding="utf-8").strip()
    if command == "review":
        uncommitted_changes = (
            "the uncommitted changes (`git diff HEAD` and new files) or, if there are none, the last commit"
        )
        return prompt.replace("{what}", argument or uncommitted_changes)
    return "\n\n".join(filter(None, (prompt, argument)))


def _send(context: CommandContext, command: str, argument: str) -> None:
    """Send the prompt of a command. The conversation shows the command as it was typed."""
    context.send(
        context.controller.pastes.with_prompt_placeholder(f"/{command} {argument}", command_prompt(command, argument))
    )
