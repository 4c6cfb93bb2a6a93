"""Lists of skills, hooks and everything that needs approval."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ebbtide.agent.config.hook_tables import HOOK_EVENTS
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.text.spans import Line, TextStyle
from ebbtide.tui.view.panel import Panel, PanelAction, PanelRow, heading_row

if TYPE_CHECKING:  # few sessions need these modules, because few have extensions
    from ebbtide.agent.config.option_values import AfterToolHook
    from ebbtide.agent.extensions.session_extensions import SessionExtensions
    from ebbtide.agent.extensions.trust import TrustItem, TrustState
    from ebbtide.agent.hooks.declarations import DeclaredHook
    from ebbtide.agent.hooks.runner import HookStatistics

NO_HOOKS = 'No hooks yet. Add one in `config.toml`: `hooks.Stop = [{ hooks = [{ command = "make test" }] }]`'
_TRUST_STATE_STYLES: "dict[TrustState, TextStyle]" = {
    "on": "good",
    "not approved": "warn",
    "changed": "warn",
    "refused": "dim",
}


def build_skills_panel(extensions: "SessionExtensions") -> Panel:
    """Return the skills of a session; choosing one inserts it into the prompt."""
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


def build_trust_panel(
    items: "Sequence[tuple[TrustItem, TrustState]]", approve: PanelAction, refuse: PanelAction, forget: PanelAction
) -> Panel:
    """Return the project's extensions with the user's decisions about them, and the actions that change these
    decisions."""
    rows = []
    for item, trust_state in items:
        line: Line = (
            (sanitise_line(f"{item.kind} {item.name}"), "text"),
            (f"  {trust_state}", _TRUST_STATE_STYLES[trust_state]),
            (f"  {sanitise_line(item.source)}", "dim"),
        )
        details: tuple[Line, ...] = tuple(((sanitise_line(detail), "dim"),) for detail in item.details)
        rows.append(PanelRow(item.key, line, details=details))
    headline: Line = (
        ("Extensions of this project", "strong"),
        ("  changes need a new approval", "dim"),
    )
    return Panel(
        "trust", (headline,), tuple(rows), "Up, Down   a approve   n never   x reset   Esc close",
        empty_message="Nothing here needs approval.", actions=(approve, refuse, forget),
        search_placeholder="", previews_before_action=True, scrolls_details=True, max_list_lines=12,
    )  # fmt: skip


def build_hooks_panel(
    records: "Sequence[tuple[DeclaredHook, TrustState, HookStatistics]]",
    after_tool: "Sequence[AfterToolHook]",
    problems: Sequence[str],
    *actions: PanelAction,
) -> Panel:
    """Return a session's hooks by event, its `hooks.after_tool` commands, and the reasons why other hooks are ignored.
    The value of a row is its index in `records`. `actions` approve or refuse hooks."""
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
    headline: Line = (("Hooks", "strong"), ("  your programs, run on events", "dim"))
    return Panel(
        "hooks", (headline,), tuple(rows), "Up, Down   a approve   n never   x reset   Esc close",
        actions=actions, search_placeholder="", previews_before_action=True, scrolls_details=True, max_list_lines=16,
    )  # fmt: skip


def _hook_row(value: str, hook: "DeclaredHook", trust_state: "TrustState", record: "HookStatistics") -> PanelRow:
    entry = hook.entry
    conditions = [entry.matcher.strip() or "*", *([f"if {entry.condition}"] if entry.condition else ())]
    counts = [f"ran {_times(record.run_count)}"] if record.run_count else []
    counts += [f"blocked {_times(record.objection_count)}"] if record.objection_count else []
    line: Line = (
        (f"  {sanitise_line(', '.join(conditions))}  ", "dim"),
        (sanitise_line(entry.action_text), "text"),
        (f"  {trust_state}", _TRUST_STATE_STYLES[trust_state]) if trust_state != "on" else ("", "dim"),
        (f"  {', '.join(counts)}", "dim") if counts else ("", "dim"),
        (f"  failed {_times(record.failure_count)}", "warn") if record.failure_count else ("", "dim"),
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
    if record.problem:
        details.append(((sanitise_line(record.problem), "warn"),))
    return PanelRow(value, line, details=tuple(details))


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
