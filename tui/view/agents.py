"""What an agent does, in the block of the call that sent it off: one line for each call, with time and tokens."""

from agent.events.session import AgentActivity, CallDenied, Noticed, ToolStarted, TurnFailed
from tui.text.numbers import tokens as so_many
from tui.text.sanitise import visible_line
from tui.view.titles import title_of


def agent_line(activity: AgentActivity, tokens: int) -> str:
    """The line, with its end; empty where there is nothing to be told."""
    match activity.event:
        case ToolStarted(name=name, arguments=arguments):
            told = title_of(name, arguments)
        case CallDenied(name=name, rule=rule):
            told = f"{name} was not run: {rule}"
        case Noticed(text=text):
            told = text
        case TurnFailed(message=message):
            told = f"failed: {message}"
        case _:
            return ""
    return f"{activity.seconds:.0f} s · {so_many(tokens)} tokens · {visible_line(told)}\n"
