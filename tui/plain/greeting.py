"""What is said when a session is shown: which it is, and how it was left."""

from tools.extent import counted
from tui.plain.lines import Lines
from tui.plain.print_events import words_of
from tui.text.sanitise import visible_line
from tui.view.blocks import AnswerText, SessionView, UserText
from tui.view.first_run import chosen_by_key


def greet(context: Lines) -> None:
    """Says which session is open, and how it ended when it goes on."""
    session = context.controller.session
    if session is not None:
        where = (
            f"Ebbtide in {visible_line(str(session.root))}, model {visible_line(session.model)}, mode {session.mode}."
        )
        advice = chosen_by_key(session.model, context.settings)
        context.say(
            (
                where,
                *advice,
                "`/help` lists what can be typed.",
                *before_this(context.controller.view),
                *last_said(context.controller.view),
            )
        )
        if draft := context.controller.take_draft():
            context.write(draft, unsent=True)


def before_this(view: SessionView) -> tuple[str, ...]:
    """How much was said before what the model is shown in full, and how it is read."""
    return words_of(view.past[0]) if view.earlier else ()


def last_said(view: SessionView) -> tuple[str, ...]:
    """The last message and its answer, of a session that goes on."""
    said = [index for index, block in enumerate(view.blocks) if isinstance(block, UserText)]
    if not said:
        return ()
    last = view.blocks[said[-1] :]
    answers = [block for block in last if isinstance(block, AnswerText)][-1:]
    words = tuple(line for block in (last[0], *answers) for line in words_of(block))
    return (f"The session goes on after {counted(len(said), 'message')} of yours. The last one:", *words)
