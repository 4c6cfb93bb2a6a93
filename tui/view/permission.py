"""What a question about a call says, and what may be answered. Plain values: it knows no screen."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from textwrap import wrap

from rich.cells import cell_len

from agent.events import Decision, PermissionAsked, Tried
from tools.outputs.extent import counted as so_many
from tools.outputs.extent import shortened
from tui.text.inks import Line, Span
from tui.text.sanitise import visible, visible_line
from tui.view.titles import command_of, path_of

_CHANGEABLE: Mapping[str, str] = {"bash": "command", "write": "content", "edit": "new", "apply_patch": "patch"}
"""The argument of each tool that the user may change before it runs."""
_MOST_DANGERS = 3
"""Lines about what is dangerous in a command."""
_LONGEST_PART = 60
"""Characters of a part of a command that are told again."""


def headline_of(question: PermissionAsked, added: int, removed: int) -> Line:
    """What is asked, in a line. `added` and `removed`: lines of the change."""
    path = visible_line(path_of(question.arguments))
    name: Span = (visible_line(question.name), "strong")
    start: tuple[Span, ...] = (("? ", "warn"), ("May ", "text"), name)
    if question.host:
        return (*start, (" reach ", "text"), (visible_line(question.host), "strong"), ("?", "text"))
    if command_of(question.arguments):
        return (*start, (" run this?", "text"), *_edited(question))
    if question.preview:
        change: Span = (f" change {path or 'these files'}?", "text")
        return (*start, change, (f"  +{added} −{removed}", "dim"), *_edited(question))
    asked: Span = (f" touch {path}?" if path else " run with these arguments?", "text")
    return (*start, asked, *_edited(question))


def _edited(question: PermissionAsked) -> tuple[Span, ...]:
    return (("  as you changed it", "warn"),) if question.is_edited else ()


@dataclass(frozen=True, slots=True)
class AnswerKeys:
    """The keys that answer, as lines."""

    lines: tuple[Line, ...]
    height: int
    """How many lines they take on the screen."""
    has_rules: bool
    """Whether the rules are among them: what is not shown is not offered."""


def dangers_told(question: PermissionAsked) -> tuple[str, ...]:
    """What is dangerous in the command, each part with what it does, in words."""
    command, parts = command_of(question.arguments), dict[str, list[str]]()
    for danger in question.dangers:
        part = shortened(visible_line(command[danger.start : danger.end]), _LONGEST_PART)
        parts.setdefault(part, []).append(visible_line(danger.why))
    return tuple(f"`{part}` {', and '.join(dict.fromkeys(whys))}" for part, whys in parts.items())


def reason_of(question: PermissionAsked) -> tuple[Line, ...]:
    """What is dangerous in the call, and why it is asked about."""
    told = dangers_told(question)
    dangers: list[Line] = [(("Dangerous: ", "bad"), (one, "strong")) for one in told[:_MOST_DANGERS]]
    if len(told) > _MOST_DANGERS:
        dangers.append(((f"and {so_many(len(told) - _MOST_DANGERS, 'more dangerous part')}", "bad"),))
    return (*dangers, *(((line, "dim"),) for line in visible(question.reason).split("\n")))


def answers_in(question: PermissionAsked, *, for_project: bool, width: int, height: int) -> AnswerKeys:
    """As much about the answers as so many lines hold: what rules would have done is left out first, then the rules,
    and then what the keys mean."""
    *longer, shortest = _keys(question)
    keys = next((line for line in longer if len(_words(line)) <= width), shortest)
    for brief in (False, True):
        rules = _rules(question, for_project=for_project, brief=brief)
        lines = (keys, *(line for rule in rules for line in _hung(rule, width)))
        taken = sum(lines_taken(_words(line), width) for line in lines)
        if taken <= height:
            return AnswerKeys(lines, taken, has_rules=True)
    return AnswerKeys((keys,), lines_taken(_words(keys), width), has_rules=False)


def numbered(question: PermissionAsked) -> tuple[tuple[int, str], ...]:
    """The rules that are offered, each with the number that keeps it. 1 is always for exactly this: who presses it by
    habit allows no more."""
    return tuple(enumerate(question.offers, 1 if question.offers_exact else 2))


def said_of_rule(rule: str) -> str:
    """A rule as the user reads it."""
    return "exactly this" if "(=" in rule else visible_line(rule)


def lines_taken(text: str, width: int) -> int:
    """How many lines a text takes at most, words kept whole."""
    return max(1, len(wrap(text, max(1, width))), -(-cell_len(text) // max(1, width)))


def _keys(question: PermissionAsked) -> tuple[Line, ...]:
    """The keys that answer in a word, with more and more of their meaning left out."""
    keys = [("y", "once", "once"), ("n", "no", "no"), ("d", "no, and say why", "why not")]
    if changeable(question):
        keys.append(("e", "edit first", "edit"))
    keys.append(("Esc", "stop", "stop"))
    return (
        tuple(span for key, meaning, _ in keys for span in _key(key, f"{meaning}   ")),
        tuple(span for key, _, meaning in keys for span in _key(key, f"{meaning} ")),
        tuple(span for key, _, meaning in keys[:-1] for span in _key(key, f"{meaning} ")),
        tuple((f"{key} ", "accent") for key, _, _ in keys[:-1]),
    )


def _rules(question: PermissionAsked, *, for_project: bool, brief: bool) -> Iterator[Line]:
    how_long = "in this project, from now on" if for_project else "in this session"
    known = {one.rule: one for one in question.tried}
    for number, offer in numbered(question):
        yield (*_key(str(number), f"{how_long}: "), (said_of_rule(offer), "strong"))
        if not brief and offer in known:
            yield (("   ", "dim"), (dry_run_of(known[offer]), "dim"))
    if question.rules_file:
        other = "only in this session" if for_project else "in this project, from now on"
        place = f" ({visible_line(question.rules_file)})" if for_project and not brief else ""
        yield (*_key("p", f"those rules {other}"), (place, "dim"))


def _hung(line: Line, width: int) -> tuple[Line, ...]:
    """The line; where it is moved in, its further lines are, too."""
    before, (text, ink) = line[0], line[1]
    if before[0].strip():
        return (line,)
    return tuple((before, (part, ink)) for part in wrap(text, max(1, width - len(before[0]))))


def _words(line: Line) -> str:
    return "".join(text for text, _ in line).rstrip()


def _key(key: str, meaning: str) -> tuple[Span, Span]:
    return ((f" {key} ", "accent"), (meaning, "text"))


def dry_run_of(rule: Tried) -> str:
    """What a rule would have allowed so far, in a sentence."""
    if not rule.of:
        return "nothing like this was asked about so far"
    calls = so_many(rule.of, "earlier call")
    if not rule.allowed:
        return f"would have allowed none of {calls}"
    examples = ", ".join(f"`{visible_line(example)}`" for example in rule.examples)
    return f"would have allowed {rule.allowed:,} of {calls}" + (f", e.g. {examples}" if examples else ", all like this")


def decision_for(key: str, question: PermissionAsked, *, for_project: bool) -> Decision | None:
    """What a key answers; None when it answers nothing."""
    rule = dict(numbered(question)).get(int(key) if key.isdecimal() and key.isascii() else 0)
    match key:
        case "y":
            return Decision("allow")
        case "n":
            return Decision("deny")
        case _ if rule is not None:
            return Decision("allow", rule=rule, kept="project" if for_project else "session")
        case _:
            return None


def changeable(question: PermissionAsked) -> str:
    """The argument that the user may change; empty when there is none."""
    name = _CHANGEABLE.get(question.name, "") if not question.host else ""
    return name if isinstance(question.arguments.get(name), str) else ""


def changed(question: PermissionAsked, text: str) -> Mapping[str, object]:
    """The call's arguments with another text in the one that may be changed."""
    return {**question.arguments, changeable(question): text}
