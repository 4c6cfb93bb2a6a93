"""Commands that send or edit messages."""

from pathlib import Path

from ebbtide.tui.actions.command_context import CommandContext
from ebbtide.tui.view.block_texts import last_answer


async def later(context: CommandContext, text: str) -> None:
    if text:
        context.send(text, later=True)
    else:
        context.controller.notice("write a message after `/later`; it is sent when the turn is over")


async def run_shell(context: CommandContext, command: str) -> None:
    if not command:
        return context.controller.notice("write a command after `!`, such as `!git status`")
    if context.controller.session is not None and context.controller.session.mode == "plan":
        context.controller.notice("plan mode holds for the model; what you run yourself runs")
    await context.controller.run_command(command)
    return None


async def copy_answer(context: CommandContext, _: str) -> None:
    context.copy(last_answer(context.controller.view.blocks))


async def print_conversation(context: CommandContext, _: str) -> None:
    await context.controller.read_earlier(all=True)
    await context.print_conversation()


async def review(context: CommandContext, what: str) -> None:
    _send(context, "review", what)


async def propose_instructions(context: CommandContext, wishes: str) -> None:
    _send(context, "init", wishes)


def prompt_of(command: str, argument: str) -> str:
    """The prompt of `/review` or `/init`. `/review` reviews what is named, or the uncommitted changes."""
    prompt = Path(__file__).with_name(f"{command}.md").read_text(encoding="utf-8").strip()
    if command == "review":
        changed = "what is changed here and not committed yet (`git diff HEAD` and new files), or else the last commit"
        return prompt.replace("{what}", argument or changed)
    return "\n\n".join(filter(None, (prompt, argument)))


def _send(context: CommandContext, command: str, argument: str) -> None:
    """Send the prompt of a command, shown as the command that was typed."""
    context.send(context.controller.pastes.with_prompt(f"/{command} {argument}", prompt_of(command, argument)))
