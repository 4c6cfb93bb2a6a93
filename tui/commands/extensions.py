"""Commands for skills, hooks and approvals."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ebbtide.agent.errors import AgentError
from ebbtide.tui.commands.command_context import CommandContext
from ebbtide.tui.view.extensions import NO_HOOKS, build_hooks_panel, build_skills_panel, build_trust_panel
from ebbtide.tui.view.panel import Outcome, Panel, PanelAction, PanelRow, ShowMessage, any_row

if TYPE_CHECKING:  # few folders need these modules, because few have extensions
    from ebbtide.agent.config.option_values import AfterToolHook
    from ebbtide.agent.extensions.session_trust import SessionTrust
    from ebbtide.agent.extensions.trust import TrustItem, TrustVerdict
    from ebbtide.agent.hooks.session_hooks import SessionHooks


async def show_skills(context: CommandContext, _: str) -> None:
    """List the skills; choosing one inserts it into the prompt."""
    session = context.controller.session
    extensions = session.extensions if session is not None else None
    if extensions is None or not extensions.skills:
        context.controller.show_notice("No skills yet. Add one as `skills/NAME/SKILL.md` in `.ebb` or `.claude`.")
        return
    choice = await context.show(build_skills_panel(extensions))
    if choice is not None:
        context.insert_in_prompt(f"/{choice.value} ")


async def show_trust(context: CommandContext, _: str) -> None:
    """List what the project ships, and approve or refuse it."""
    session = context.controller.session
    if session is None or session.trust is None:
        context.controller.show_notice("nothing in this folder needs approval")
    else:
        await context.show(_trust_panel(session.trust))


async def show_hooks(context: CommandContext, _: str) -> None:
    """List the hooks with their results. Project hooks, and hooks declared for other programs, can be approved or
    refused."""
    session, settings = context.controller.session, context.settings
    hooks = session.hooks if session is not None else None
    after_tool = settings.config.hooks_after_tool if settings is not None else ()
    if hooks is None and not after_tool:
        context.controller.show_notice(NO_HOOKS)
    else:
        await context.show(_hooks_panel(hooks, after_tool))


def _trust_panel(trust: "SessionTrust") -> Panel:
    items = {item.key: item for item in trust.items}

    def create_action(key: str, label: str, message: str, decide: "Callable[[TrustItem], None]") -> PanelAction:
        def apply_decision(value: str) -> str:
            decide(items[value])
            return f"{items[value].kind} {items[value].name}: {message}"

        return _decision_action(key, label, apply_decision, lambda: _trust_panel(trust))

    return build_trust_panel(
        [(item, trust.trust_state(item)) for item in items.values()],
        create_action(
            "a", "approve", "approved, takes effect with your next message", lambda item: trust.decide(item, "approved")
        ),
        create_action("n", "never", "not used in this project", lambda item: trust.decide(item, "refused")),
        create_action("x", "reset", "you will be asked with your next message", trust.forget),
    )


def _hooks_panel(hooks: "SessionHooks | None", after_tool: "Sequence[AfterToolHook]") -> Panel:
    records = hooks.records if hooks is not None else ()

    def create_action(key: str, label: str, message: str, verdict: "TrustVerdict | None") -> PanelAction:
        def apply_decision(value: str) -> str:
            hook = records[int(value)][0]
            if hooks is not None:
                hooks.decide(hook, verdict)
            return f"hooks of {hook.declared_in}: {message}"

        def has_file(row: PanelRow) -> bool:
            return row.value.isdecimal() and records[int(row.value)][0].file is not None

        return _decision_action(key, label, apply_decision, lambda: _hooks_panel(hooks, after_tool), has_file)

    return build_hooks_panel(
        records,
        after_tool,
        hooks.problems if hooks is not None else (),
        create_action("a", "approve", "will run from now on", "approved"),
        create_action("n", "never", "will not run", "refused"),
        create_action("x", "reset", "you will be asked with your next message", None),
    )


def _decision_action(
    key: str,
    label: str,
    decide: Callable[[str], str],
    rebuild_panel: Callable[[], Panel],
    is_available: Callable[[PanelRow], bool] = any_row,
) -> PanelAction:
    """Return an action that records a decision. `decide` takes the value of the selected row and returns a message."""

    async def run(row: PanelRow, _: str) -> Outcome:
        try:
            message = decide(row.value)
        except AgentError as error:
            return ShowMessage(f"applies to this session only: {error}", "warn")
        return replace(rebuild_panel(), initial_value=row.value, message=ShowMessage(message))

    return PanelAction((key,), label, run, is_available)
