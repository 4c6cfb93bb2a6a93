"""Commands for skills, hooks and approvals."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ebbtide.agent.errors import AgentError
from ebbtide.tui.actions.command_context import CommandContext
from ebbtide.tui.view.extensions import NO_HOOKS, hooks_panel, skills_panel, trust_panel
from ebbtide.tui.view.panel import Outcome, Panel, PanelAction, PanelRow, ShowMessage, any_row

if TYPE_CHECKING:  # types only: few folders bring something
    from ebbtide.agent.config.option_values import AfterTool
    from ebbtide.agent.extensions.session_trust import SessionTrust
    from ebbtide.agent.extensions.trust import TrustItem, Verdict
    from ebbtide.agent.hooks.session_hooks import SessionHooks


async def show_skills(context: CommandContext, _: str) -> None:
    """List the skills; choosing one inserts it into the prompt."""
    session = context.controller.session
    extensions = session.extensions if session is not None else None
    if extensions is None or not extensions.skills:
        context.controller.notice("there are no skills: `skills/NAME/SKILL.md` in `.ebb` or `.claude` is one")
        return
    taken = await context.show(skills_panel(extensions))
    if taken is not None:
        context.insert(f"/{taken.value} ")


async def show_trust(context: CommandContext, _: str) -> None:
    """List what the project ships, and approve or refuse it."""
    session = context.controller.session
    if session is None or session.trust is None:
        context.controller.notice("this folder brings nothing that would have to be approved")
    else:
        await context.show(_trust_panel(session.trust))


async def show_hooks(context: CommandContext, _: str) -> None:
    """List the hooks with their results, and decide about those of other programs and the project."""
    session, settings = context.controller.session, context.settings
    hooks = session.hooks if session is not None else None
    after_tool = settings.config.hooks_after_tool if settings is not None else ()
    if hooks is None and not after_tool:
        context.controller.notice(NO_HOOKS)
    else:
        await context.show(_hooks_panel(hooks, after_tool))


def _trust_panel(trust: "SessionTrust") -> Panel:
    items = {item.key: item for item in trust.items}

    def action(key: str, word: str, said: str, decide: "Callable[[TrustItem], None]") -> PanelAction:
        def do(value: str) -> str:
            decide(items[value])
            return f"{items[value].kind} {items[value].name}: {said}"

        return _deciding(key, word, do, lambda: _trust_panel(trust))

    return trust_panel(
        [(item, trust.standing(item)) for item in items.values()],
        action("a", "approve", "approved, from your next message on", lambda item: trust.decide(item, "approved")),
        action("n", "never", "not used in this project", lambda item: trust.decide(item, "refused")),
        action("x", "take back", "asked about with your next message", trust.forget),
    )


def _hooks_panel(hooks: "SessionHooks | None", after_tool: "Sequence[AfterTool]") -> Panel:
    records = hooks.records if hooks is not None else ()

    def action(key: str, word: str, said: str, verdict: "Verdict | None") -> PanelAction:
        def do(value: str) -> str:
            hook = records[int(value)][0]
            if hooks is not None:
                hooks.decide(hook, verdict)
            return f"the hooks of {hook.source}: {said}"

        def can(row: PanelRow) -> bool:
            return row.value.isdecimal() and records[int(row.value)][0].file is not None

        return _deciding(key, word, do, lambda: _hooks_panel(hooks, after_tool), can)

    return hooks_panel(
        records,
        after_tool,
        hooks.problems if hooks is not None else (),
        action("a", "approve", "they run from now on", "approved"),
        action("n", "never", "they do not run", "refused"),
        action("x", "take back", "asked about with your next message", None),
    )


def _deciding(
    key: str,
    word: str,
    decide: Callable[[str], str],
    again: Callable[[], Panel],
    can: Callable[[PanelRow], bool] = any_row,
) -> PanelAction:
    """An action that decides about a row: `decide` gets its value and returns a message."""

    async def do(row: PanelRow, _: str) -> Outcome:
        try:
            said = decide(row.value)
        except AgentError as error:
            return ShowMessage(f"it holds for this session only: {error}", "warn")
        return replace(again(), mark=row.value, message=ShowMessage(said))

    return PanelAction((key,), word, do, can)
