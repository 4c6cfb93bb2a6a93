"""Commands for skills, hooks and approvals, with their lists."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ebbtide.agent.config.hook_tables import HOOK_EVENTS
from ebbtide.agent.errors import AgentError
from ebbtide.tui.commands.command_context import CommandContext
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.text.spans import Line, TextStyle
from ebbtide.tui.view.panel import (
    ActionOutcome,
    Panel,
    PanelAction,
    PanelRow,
    ShowMessage,
    always_available,
    heading_row,
)

if TYPE_CHECKING:  # few folders need these modules, because few have extensions
    from ebbtide.agent.config.option_values import AfterToolHook
    from ebbtide.agent.extensions.session_extensions import SessionExtensions
    from ebbtide.agent.extensions.session_trust import SessionTrust
    from ebbtide.agent.extensions.trust import TrustItem, TrustState, TrustVerdict
    from ebbtide.agent.hooks.declarations import DeclaredHook
    from ebbtide.agent.hooks.runner import HookStatistics
    from ebbtide.agent.hooks.session_hooks import SessionHooks

NO_HOOKS = 'No hooks yet. Add one in `config.toml`: `hooks.Stop = [{ hooks = [{ command = "make test" }] }]`'
_TRUST_STATE_STYLES: "dict[TrustState, TextStyle]" = {
    "on": "good",
    "not approved": "warn",
    "changed": "warn",
    "refused": "dim",
}


async def show_skills(context: CommandContext, _: str) -> None:
    """List the skills. Choosing one puts it into the prompt."""
    session = context.controller.session
    extensions = session.extensions if session is not None else None
    if extensions is None or not extensions.skills:
        context.controller.show_notice("No skills yet. Add one as `skills/NAME/SKILL.md` in `.ebb` or `.claude`.")
        return
    choice = await context.show(build_skills_panel(extensions))
    if choice is not None:
        context.insert_in_prompt(f"/{choice.value} ")


def build_skills_panel(extensions: "SessionExtensions") -> Panel:
    """Build the list of a session's skills. Choosing one puts it into the prompt."""
    rows = []
    for skill in extensions.skills:
        trust_state = extensions.trust_state(skill)
        line: Line = (
            (sanitise_line(f"/{skill.name}"), "text"),
            (f"  {skill.owner}, {skill.source}", "dim"),
            (f"  {trust_state}", _TRUST_STATE_STYLES[trust_state]) if trust_state != "on" else ("", "dim"),
        )
        details: list[Line] = [
            ((sanitise_line(skill.description), "text"),),
            ((sanitise_line(str(skill.path)), "dim"),),
        ]
        if not skill.is_listed_for_model:
            details.append((("only used when you call it", "dim"),))
        rows.append(PanelRow(skill.name, line, search_text=f"{skill.name} {skill.description}", details=tuple(details)))
    headline: Line = (("Skills", "strong"), ("  the model loads one when it fits the task", "dim"))
    return Panel(
        "skills", (headline,), tuple(rows), "Up, Down   Enter insert   Esc close", row_noun="skill", max_list_lines=12
    )


async def show_trust(context: CommandContext, _: str) -> None:
    """List what the project ships, to be approved or refused."""
    session = context.controller.session
    if session is None or session.trust is None:
        context.controller.show_notice("nothing in this folder needs approval")
    else:
        await context.show(_build_trust_panel(session.trust))


def _build_trust_panel(trust: "SessionTrust") -> Panel:
    """Build the list of the project's extensions. It shows what the user has decided about each, and has actions to
    change that."""
    items = {item.key: item for item in trust.trust_items}

    def create_action(key: str, label: str, message: str, decide: "Callable[[TrustItem], None]") -> PanelAction:
        def apply_decision(value: str) -> str:
            decide(items[value])
            return f"{items[value].kind} {items[value].name}: {message}"

        return _decision_action(key, label, apply_decision, lambda: _build_trust_panel(trust))

    headline: Line = (
        ("Extensions of this project", "strong"),
        ("  changes need a new approval", "dim"),
    )
    actions = (
        create_action(
            "a", "approve", "approved, takes effect with your next message", lambda item: trust.decide(item, "approved")
        ),
        create_action("n", "never", "not used in this project", lambda item: trust.decide(item, "refused")),
        create_action("x", "reset", "you will be asked with your next message", trust.forget),
    )
    return Panel(
        "trust", (headline,), tuple(_trust_row(item, trust.trust_state(item)) for item in items.values()),
        "Up, Down   a approve   n never   x reset   Esc close",
        empty_message="Nothing here needs approval.", actions=actions,
        search_placeholder="", previews_before_action=True, page_keys_scroll_details=True, max_list_lines=12,
    )  # fmt: skip


def _trust_row(item: "TrustItem", trust_state: "TrustState") -> PanelRow:
    line: Line = (
        (sanitise_line(f"{item.kind} {item.name}"), "text"),
        (f"  {trust_state}", _TRUST_STATE_STYLES[trust_state]),
        (f"  {sanitise_line(item.source)}", "dim"),
    )
    details: tuple[Line, ...] = tuple(((sanitise_line(detail), "dim"),) for detail in item.details)
    return PanelRow(item.key, line, details=details)


async def show_hooks(context: CommandContext, _: str) -> None:
    """List the hooks and their results. Hooks from the project, and hooks declared for other programs, can be approved
    or refused."""
    session, settings = context.controller.session, context.settings
    hooks = session.hooks if session is not None else None
    after_tool = settings.config.hooks_after_tool if settings is not None else ()
    if hooks is None and not after_tool:
        context.controller.show_notice(NO_HOOKS)
    else:
        await context.show(_build_hooks_panel(hooks, after_tool))


def _build_hooks_panel(hooks: "SessionHooks | None", after_tool: "Sequence[AfterToolHook]") -> Panel:
    """Build the panel of hooks by event, `hooks.after_tool` commands, and reasons why other hooks are ignored. The
    value of a hook's row is the hook's index in `hook_states`."""
    hook_records = hooks.hook_states if hooks is not None else ()

    def create_action(key: str, label: str, message: str, verdict: "TrustVerdict | None") -> PanelAction:
        def apply_decision(value: str) -> str:
            hook = hook_records[int(value)][0]
            if hooks is not None:
                hooks.decide(hook, verdict)
            return f"hooks of {hook.declared_in}: {message}"

        def has_file(row: PanelRow) -> bool:
            return row.value.isdecimal() and hook_records[int(row.value)][0].hook_file is not None

        return _decision_action(key, label, apply_decision, lambda: _build_hooks_panel(hooks, after_tool), has_file)

    actions = (
        create_action("a", "approve", "will run from now on", "approved"),
        create_action("n", "never", "will not run", "refused"),
        create_action("x", "reset", "you will be asked with your next message", None),
    )
    headline: Line = (("Hooks", "strong"), ("  your programs, run on events", "dim"))
    return Panel(
        "hooks", (headline,), _hook_rows(hook_records, after_tool, hooks.problems if hooks is not None else ()),
        "Up, Down   a approve   n never   x reset   Esc close",
        actions=actions, search_placeholder="", previews_before_action=True, page_keys_scroll_details=True,
        max_list_lines=16,
    )  # fmt: skip


def _hook_rows(
    records: "Sequence[tuple[DeclaredHook, TrustState, HookStatistics]]",
    after_tool: "Sequence[AfterToolHook]",
    problems: Sequence[str],
) -> tuple[PanelRow, ...]:
    rows: list[PanelRow] = []
    for event in HOOK_EVENTS:
        event_hooks = [(str(index), *record) for index, record in enumerate(records) if record[0].event == event]
        rows += [heading_row(event)] if event_hooks else []
        rows += [_hook_row(*record) for record in event_hooks]
    if after_tool:
        rows.append(heading_row("hooks.after_tool"))
    for hook in after_tool:
        rows.append(
            PanelRow("", ((f"  {sanitise_line(hook.match)}  ", "dim"), (sanitise_line(hook.command_line), "text")))
        )
    if problems:
        rows.append(heading_row("ignored"))
    rows += [PanelRow("", ((f"  {sanitise_line(problem)}", "warn"),)) for problem in problems]
    return tuple(rows)


def _hook_row(value: str, hook: "DeclaredHook", trust_state: "TrustState", statistics: "HookStatistics") -> PanelRow:
    entry = hook.entry
    conditions = [entry.matcher.strip() or "*", *([f"if {entry.condition}"] if entry.condition else ())]
    counts = [f"ran {_times_text(statistics.run_count)}"] if statistics.run_count else []
    counts += [f"blocked {_times_text(statistics.objection_count)}"] if statistics.objection_count else []
    line: Line = (
        (f"  {sanitise_line(', '.join(conditions))}  ", "dim"),
        (sanitise_line(entry.action_text), "text"),
        (f"  {trust_state}", _TRUST_STATE_STYLES[trust_state]) if trust_state != "on" else ("", "dim"),
        (f"  {', '.join(counts)}", "dim") if counts else ("", "dim"),
        (f"  failed {_times_text(statistics.failure_count)}", "warn") if statistics.failure_count else ("", "dim"),
    )
    owner_text = {"user": "your hook", "project": "project hook", "plugin": "plugin hook"}[hook.owner]
    facts = [
        f"{owner_text} from {hook.declared_in}",
        f"timeout {hook.timeout:g} s",
        *(["runs once"] if entry.is_once_per_session else ()),
    ]
    facts += ["runs in the background"] if entry.runs_in_background else []
    details: list[Line] = [((sanitise_line(action_line), "text"),) for action_line in entry.action_text.splitlines()]
    details.append(((sanitise_line("; ".join(facts)), "dim"),))
    if statistics.problem:
        details.append(((sanitise_line(statistics.problem), "warn"),))
    return PanelRow(value, line, details=tuple(details))


def _times_text(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _decision_action(
    key: str,
    label: str,
    decide: Callable[[str], str],
    rebuild_panel: Callable[[], Panel],
    is_available: Callable[[PanelRow], bool] = always_available,
) -> PanelAction:
    """Create an action that records a decision. `decide` takes the value of the selected row and returns a message."""

    async def run(row: PanelRow, _: str) -> ActionOutcome:
        try:
            message = decide(row.value)
        except AgentError as error:
            return ShowMessage(f"applies to this session only: {error}", "warn")
        return replace(rebuild_panel(), initial_value=row.value, message=ShowMessage(message))

    return PanelAction((key,), label, run, is_available)
