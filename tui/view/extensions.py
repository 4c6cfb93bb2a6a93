"""What a folder brings as lists: skills, and all that is to be approved. Pure."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tui.text.inks import Ink, Line
from tui.text.sanitise import visible_line
from tui.view.panel import Panel, PanelAction, PanelRow

if TYPE_CHECKING:  # types only: few sessions have them
    from agent.extensions.session_extensions import SessionExtensions
    from agent.extensions.trust import Item, Standing

_INKS: "dict[Standing, Ink]" = {"on": "good", "not approved": "warn", "changed": "warn", "refused": "dim"}


def skills_panel(extensions: "SessionExtensions") -> Panel:
    """The skills of a session; one that is taken is written into the prompt."""
    rows = []
    for skill in extensions.skills:
        standing = extensions.standing(skill)
        line: Line = (
            (visible_line(f"/{skill.name}"), "text"),
            (f"  {skill.owner}, {skill.source}", "dim"),
            (f"  {standing}", _INKS[standing]) if standing != "on" else ("", "dim"),
        )
        about: list[Line] = [((visible_line(skill.description), "text"),), ((visible_line(str(skill.path)), "dim"),)]
        if not skill.for_model:
            about.append((("the model does not use it by itself: you name it", "dim"),))
        rows.append(PanelRow(skill.name, line, searched=f"{skill.name} {skill.description}", about=tuple(about)))
    head: Line = (("Skills", "strong"), ("  the model reads one where it fits", "dim"))
    return Panel("skills", (head,), tuple(rows), "Up, Down   Enter writes it   Esc closes", unit="skill", most=12)


def trust_panel(
    items: "Sequence[tuple[Item, Standing]]", approve: PanelAction, refuse: PanelAction, forget: PanelAction
) -> Panel:
    """What the project brings, and what was decided about it. The actions are those of its keys."""
    rows = []
    for item, standing in items:
        line: Line = (
            (visible_line(f"{item.kind} {item.name}"), "text"),
            (f"  {standing}", _INKS[standing]),
            (f"  {visible_line(item.source)}", "dim"),
        )
        about: tuple[Line, ...] = tuple(((visible_line(each), "dim"),) for each in item.shown)
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
