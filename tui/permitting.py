"""What a question about a call says, and what may be answered. Plain values: it knows no screen."""

from collections.abc import Mapping

from agent.events import Decision, PermissionAsked, Tried
from tui.inks import Line, Span
from tui.numbers import counted as so_many
from tui.sanitise import visible_line
from tui.titles import command_of, path_of

_CHANGEABLE: Mapping[str, str] = {"bash": "command", "write": "content", "edit": "new", "apply_patch": "patch"}
"""The argument of each tool that the user may change before it runs."""


def headline_of(question: PermissionAsked, added: int, removed: int) -> Line:
    """What is asked, in a line. `added` and `removed`: lines of the change."""
    path = visible_line(path_of(question.arguments))
    name: Span = (visible_line(question.name), "strong")
    start: tuple[Span, ...] = (("? ", "warn"), ("May ", "text"), name)
    if command_of(question.arguments):
        return (*start, (" run this?", "text"), *_edited(question))
    if question.preview:
        change: Span = (f" change {path or 'these files'}?", "text")
        return (*start, change, (f"  +{added} −{removed}", "dim"), *_edited(question))
    asked: Span = (f" touch {path}?" if path else " run with these arguments?", "text")
    return (*start, asked, *_edited(question))


def _edited(question: PermissionAsked) -> tuple[Span, ...]:
    return (("  as you changed it", "warn"),) if question.is_edited else ()


def answers_of(question: PermissionAsked, *, for_project: bool, brief: bool = False) -> tuple[Line, ...]:
    """The keys that answer, a line or two each. `for_project`: rules are kept for more than this session; `brief`:
    there is no room for what rules would have done."""
    keys = [("y", "once"), ("n", "no"), ("d", "no, and say why")]
    if changeable(question):
        keys.append(("e", "edit first"))
    lines: list[Line] = [tuple(span for key, meaning in keys for span in _key(key, f"{meaning}   "))]
    how_long = "in this project, from now on" if for_project else "in this session"
    known = {one.rule: one for one in question.tried}
    for number, offer in enumerate(question.offers, 1):
        lines.append((*_key(str(number), f"{how_long}: "), (visible_line(offer), "strong")))
        if not brief and offer in known:
            lines.append((("   ", "dim"), (dry_run_of(known[offer]), "dim")))
    if question.rules_file:
        other = "only in this session" if for_project else "in this project, from now on"
        place = f" ({visible_line(question.rules_file)})" if for_project and not brief else ""
        lines.append((*_key("p", f"those rules {other}"), (place, "dim")))
    return tuple(lines)


def _key(key: str, meaning: str) -> tuple[Span, Span]:
    return ((f" {key} ", "accent"), (meaning, "text"))


def dry_run_of(rule: Tried) -> str:
    """What a rule would have allowed so far, in a sentence."""
    if not rule.of:
        return "nothing like it was asked about so far"
    calls = so_many(rule.of, "earlier call")
    if not rule.allowed:
        return f"would have allowed none of {calls}"
    examples = ", ".join(f"`{visible_line(example)}`" for example in rule.examples)
    return f"would have allowed {rule.allowed:,} of {calls}" + (f", e.g. {examples}" if examples else ", all like this")


def decision_for(key: str, question: PermissionAsked, *, for_project: bool) -> Decision | None:
    """What a key answers; None when it answers nothing."""
    offers = question.offers
    number = 1 if key == "a" else int(key) if key.isdecimal() and key.isascii() else 0
    match key:
        case "y":
            return Decision("allow")
        case "n" | "escape":
            return Decision("deny")
        case _ if 0 < number <= len(offers):
            return Decision("allow", rule=offers[number - 1], kept="project" if for_project else "session")
        case _:
            return None


def changeable(question: PermissionAsked) -> str:
    """The argument that the user may change; empty when there is none."""
    name = _CHANGEABLE.get(question.name, "")
    return name if isinstance(question.arguments.get(name), str) else ""


def changed(question: PermissionAsked, text: str) -> Mapping[str, object]:
    """The call's arguments with another text in the one that may be changed."""
    return {**question.arguments, changeable(question): text}
