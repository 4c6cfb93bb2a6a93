"""Lists of skills, hooks and everything that needs approval. Pure."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ebbtide.agent.config.hook_tables import HOOK_EVENTS
from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.text.spans import Line, TextStyle
from ebbtide.tui.view.panel import Panel, PanelAction, PanelRow, heading

if TYPE_CHECKING:  # types only: few sessions have them
    from ebbtide.agent.config.option_values import AfterTool
    from ebbtide.agent.extensions.session_extensions import SessionExtensions
    from ebbtide.agent.extensions.trust import Standing, TrustItem
    from ebbtide.agent.hooks.declarations import DeclaredHook
    from ebbtide.agent.hooks.runner import HookRecord

NO_HOOKS = 'there are no hooks: `hooks.Stop = [{ hooks = [{ command = "make test" }] }]` in `config.toml` is one'
_INKS: "dict[Standing, TextStyle]" = {"on": "good", "not approved": "warn", "changed": "warn", "refused": "dim"}


def skills_panel(extensions: "SessionExtensions") -> Panel:
    """The skills of a session; choosing one inserts it into the prompt."""
    rows = []
    for skill in extensions.skills:
        standing = extensions.standing(skill)
        line: Line = (
            (sanitised_line(f"/{skill.name}"), "text"),
            (f"  {skill.owner}, {skill.source}", "dim"),
            (f"  {standing}", _INKS[standing]) if standing != "on" else ("", "dim"),
        )
        about: list[Line] = [
            ((sanitised_line(skill.description), "text"),),
            ((sanitised_line(str(skill.path)), "dim"),),
        ]
        if not skill.for_model:
            about.append((("the model does not use it by itself: you name it", "dim"),))
        rows.append(PanelRow(skill.name, line, searched=f"{skill.name} {skill.description}", about=tuple(about)))
    head: Line = (("Skills", "strong"), ("  the model reads one where it fits", "dim"))
    return Panel("skills", (head,), tuple(rows), "Up, Down   Enter writes it   Esc closes", unit="skill", most=12)


def trust_panel(
    items: "Sequence[tuple[TrustItem, Standing]]", approve: PanelAction, refuse: PanelAction, forget: PanelAction
) -> Panel:
    """The project's extensions and the decisions about them, with actions by key."""
    rows = []
    for item, standing in items:
        line: Line = (
            (sanitised_line(f"{item.kind} {item.name}"), "text"),
            (f"  {standing}", _INKS[standing]),
            (f"  {sanitised_line(item.source)}", "dim"),
        )
        about: tuple[Line, ...] = tuple(((sanitised_line(each), "dim"),) for each in item.details)
        rows.append(PanelRow(item.key, line, about=about))
    head: Line = (
        ("What this folder brings", "strong"),
        ("  approved as it is; what changes is asked about", "dim"),
    )
    return Panel(
        "trust", (head,), tuple(rows), "Up, Down   a approves   n never   x takes back   Esc closes",
        empty="This folder brings nothing that would have to be approved.", actions=(approve, refuse, forget),
        search="", looks=True, reads=True, most=12,
    )  # fmt: skip


def hooks_panel(
    records: "Sequence[tuple[DeclaredHook, Standing, HookRecord]]",
    after_tool: "Sequence[AfterTool]",
    problems: Sequence[str],
    *actions: PanelAction,
) -> Panel:
    """The hooks of a session by event, `hooks.after_tool`, and those left out. The value of a row is its index in
    `records`; actions decide about those that need approval."""
    rows: list[PanelRow] = []
    for event in HOOK_EVENTS:
        found = [(str(at), *record) for at, record in enumerate(records) if record[0].event == event]
        rows += [heading(event)] if found else []
        rows += [_hook_row(*record) for record in found]
    if after_tool:
        rows.append(heading("hooks.after_tool"))
    for hook in after_tool:
        rows.append(PanelRow("", ((f"  {sanitised_line(hook.match)}  ", "dim"), (sanitised_line(hook.line), "text"))))
    if problems:
        rows.append(heading("left out"))
    rows += [PanelRow("", ((f"  {sanitised_line(problem)}", "warn"),)) for problem in problems]
    head: Line = (("Hooks", "strong"), ("  programs and servers that are told what happens", "dim"))
    return Panel(
        "hooks", (head,), tuple(rows), "Up, Down   a approves   n never   x takes back   Esc closes",
        actions=actions, search="", looks=True, reads=True, most=16,
    )  # fmt: skip


def _hook_row(value: str, hook: "DeclaredHook", standing: "Standing", record: "HookRecord") -> PanelRow:
    entry = hook.entry
    only = [entry.matcher.strip() or "*", *([f"if {entry.condition}"] if entry.condition else ())]
    counts = [f"ran {_times(record.runs)}"] if record.runs else []
    counts += [f"objected {_times(record.objections)}"] if record.objections else []
    line: Line = (
        (f"  {sanitised_line(', '.join(only))}  ", "dim"),
        (sanitised_line(entry.action_text), "text"),
        (f"  {standing}", _INKS[standing]) if standing != "on" else ("", "dim"),
        (f"  {', '.join(counts)}", "dim") if counts else ("", "dim"),
        (f"  failed {_times(record.failures)}", "warn") if record.failures else ("", "dim"),
    )
    whose = {"user": "yours", "project": "the project's", "plugin": "of a plugin"}[hook.owner]
    told = [f"{whose}, from {hook.source}", f"{hook.seconds:g} s at most", *(["once"] if entry.once else ())]
    told += ["nobody waits for it"] if entry.in_background else []
    about: list[Line] = [((sanitised_line(each), "text"),) for each in entry.action_text.splitlines()]
    about.append(((sanitised_line("; ".join(told)), "dim"),))
    if record.problem:
        about.append(((sanitised_line(record.problem), "warn"),))
    return PanelRow(value, line, about=tuple(about))


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
