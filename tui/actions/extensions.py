"""Commands about what a folder brings: its skills, and what of all of it is approved."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from agent.errors import AgentError
from tui.actions.command_context import CommandContext
from tui.view.extensions import skills_panel, trust_panel
from tui.view.panel import Outcome, Panel, PanelAction, PanelRow, Told

if TYPE_CHECKING:  # types only: few folders bring something
    from agent.extensions.session_trust import SessionTrust
    from agent.extensions.trust import Item


async def show_skills(context: CommandContext, _: str) -> None:
    """Shows the skills; one that is taken is written into the prompt."""
    session = context.controller.session
    extensions = session.extensions if session is not None else None
    if extensions is None or not extensions.skills:
        context.controller.notice("there are no skills: `skills/NAME/SKILL.md` in `.ebb` or `.claude` is one")
        return
    taken = await context.show(skills_panel(extensions))
    if taken is not None:
        context.insert(f"/{taken.value} ")


async def show_trust(context: CommandContext, _: str) -> None:
    """Shows what the project brings, and decides about it."""
    session = context.controller.session
    if session is None or session.trust is None:
        context.controller.notice("this folder brings nothing that would have to be approved")
    else:
        await context.show(_panel(session.trust))


def _panel(trust: "SessionTrust") -> Panel:
    items = {item.key: item for item in trust.items}

    def action(key: str, word: str, said: str, decide: "Callable[[Item], None]") -> PanelAction:
        async def do(row: PanelRow, _: str) -> Outcome:
            item = items[row.value]
            try:
                decide(item)
            except AgentError as error:
                return Told(f"it holds for this session only: {error}", "warn")
            return replace(_panel(trust), mark=row.value, told=Told(f"{item.kind} {item.name}: {said}"))

        return PanelAction((key,), word, do)

    return trust_panel(
        [(item, trust.standing(item)) for item in items.values()],
        action("a", "approve", "approved, from your next message on", lambda item: trust.decide(item, "approved")),
        action("n", "never", "not used in this project", lambda item: trust.decide(item, "refused")),
        action("x", "take back", "asked about with your next message", trust.forget),
    )
