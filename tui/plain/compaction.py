"""A compaction by hand in lines, step by step."""

from agent.errors import AgentError
from tui.plain.lines import Lines
from tui.plain.print_events import lines_of_text, plain_lines
from tui.session.compaction import ManualCompaction, size_of
from tui.view.compaction_preview import draft_text, gate_lines, headline, plan_lines


async def compact(context: Lines, by_hand: ManualCompaction) -> None:
    context.say((headline(by_hand.preview), *plain_lines(plan_lines(by_hand.preview))))
    if (await context.ask("y lets the model write the summary; an empty line cancels: ")).strip().lower() != "y":
        return
    try:
        drafted = await by_hand.draft()
        text = by_hand.completed(by_hand.text)
        while not drafted.is_interrupted:
            told = draft_text(by_hand.drafted, size_of(text), by_hand.result(text))
            gate = plain_lines(gate_lines(by_hand.missing(text), size_of(text) == 0))
            context.say((*lines_of_text(text), told, *gate))
            answer = await context.ask("y compacts, other words are added to the summary, an empty line cancels: ")
            if not answer.strip():
                break
            if answer.strip().lower() == "y":
                await by_hand.apply(text)
                break
            text = by_hand.completed(f"{text.rstrip()}\n{answer}")
    except AgentError as error:
        context.controller.fail(error)
