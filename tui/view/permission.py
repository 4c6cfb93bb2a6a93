"""The approval question about a call: its text and answers. Pure."""

from collections.abc import Mapping

from ebbtide.agent.events.permissions import Decision, PermissionAsked, RuleTrial
from ebbtide.tools.outputs.extent import ellipsize
from ebbtide.tools.outputs.extent import pluralize as so_many
from ebbtide.tui.text.sanitise import sanitised, sanitised_line
from ebbtide.tui.text.spans import Line, Span, parse_inline_code
from ebbtide.tui.text.unified_diff import FileDiff, count_changes, files_of
from ebbtide.tui.view.call_titles import command_of, path_of
from ebbtide.tui.view.question import Choice, QuestionSpec, Subject, Writing
from ebbtide.tui.view.rule_wording import words_of_rule

_CHANGEABLE: Mapping[str, str] = {"bash": "command", "write": "content", "edit": "new", "apply_patch": "patch"}
"""The argument of each tool that the user may edit."""
_MAX_DANGERS = 3
"""Maximum lines about dangerous parts."""
_MAX_PART_CHARS = 60
"""Maximum characters of a dangerous part."""
_DONE_TO: Mapping[str, str] = {"new": "Create", "deleted": "Delete"}
"""Verbs by file state in the diff."""
SCOPES: Mapping[str, str] = {"session": "for this session", "project": "in this project, from now on"}
OUTSIDE = "outside-"
"""Prefix of the ids of questions about a second run outside the sandbox."""


def panel_of_call(question: PermissionAsked) -> QuestionSpec:
    """Return the question for a call."""
    headline, reason = headline_of(question, *count_changes(question.preview)), reason_of(question)
    choices = _choices(question, "session")
    for_project = _choices(question, "project") if question.rules_file and question.offers else ()
    is_short = len(reason) == 1 and not question.dangers
    return QuestionSpec(headline, _subject(question), choices, reason, for_project, is_short=is_short)


def _subject(question: PermissionAsked) -> Subject:
    """What the call would do: the command line, the diff, or all arguments."""
    command = command_of(question.arguments)
    if command:
        return Subject("code", command, "bash", tuple((one.start, one.end) for one in question.dangers))
    if question.preview:
        return Subject("diff", question.preview, is_named=_only_file(question) is not None)
    return Subject("arguments", arguments=question.arguments)


def _choices(question: PermissionAsked, kept: str) -> tuple[Choice, ...]:
    """The answers in order: yes once, yes with a rule, edit, and the ways to say no."""
    once = "Yes, once"
    if question.host:
        once = "Yes, for as long as this command runs"
    elif question.id.startswith(OUTSIDE):
        once = "Yes, once more, outside the sandbox"
    note = Writing("words", _denial, "why not, or what to do instead; Enter denies, Esc goes back")
    return (
        Choice(once, "y", Decision("allow"), brief="Yes"),
        *(_lasting(question, number, kept) for number in range(len(question.offers))),
        *((Choice("Change it first", "e", writes=_change(question)),) if changeable(question) else ()),
        Choice("No", "n", Decision("deny")),
        Choice("No, and say what to do instead", "d", writes=note, brief="No, because"),
    )


def _denial(words: str) -> Decision:
    return Decision("deny", note=sanitised(words.strip()))


def _lasting(question: PermissionAsked, number: int, kept: str) -> Choice:
    rule, is_exact = question.offers[number], question.offers_exact and number == 0
    done = {one.rule: dry_run_of(one) for one in question.tried}
    place = f"kept in {question.rules_file}" if kept == "project" else ""
    words = words_of_rule(rule, is_exact=is_exact)
    return Choice(
        f"Yes, and {words}, {SCOPES[kept]}",
        "a" if is_exact else "",
        Decision("allow", rule=rule, kept="project" if kept == "project" else "session"),
        is_lasting=True,
        rule_text="" if is_exact else rule,  # it says nothing that is not seen
        more="; ".join(part for part in (done.get(rule, ""), place) if part),
        brief=f"Yes, {words}",
    )


def _change(question: PermissionAsked) -> Writing:
    """A printable command is edited in place, anything else in the user's editor."""
    before = str(question.arguments[changeable(question)])
    if changeable(question) == "command" and sanitised(before) == before:
        return Writing("command", lambda text: _as_written(question, before, text), before=before)

    def edited(text: str) -> Decision | None:
        return Decision("edit", arguments=with_changed_argument(question, text)) if text != before else None

    return Writing("editor", edited, before=before, file=path_of(question.arguments))


def _as_written(question: PermissionAsked, before: str, text: str) -> Decision | None:
    """Run the command as shown; unprintable characters are removed from an edited one."""
    if not text.strip():
        return None
    return (
        Decision("allow")
        if text == before
        else Decision("allow", arguments=with_changed_argument(question, sanitised(text)))
    )


def headline_of(question: PermissionAsked, added: int, removed: int) -> Line:
    """The headline. `added` and `removed`: number of changed lines."""
    path = sanitised_line(path_of(question.arguments))
    name: Span = (sanitised_line(question.name), "strong")
    whose: tuple[Span, ...] = ((f"agent {sanitised_line(question.agent)}: ", "strong"),) if question.agent else ()
    asks: tuple[Span, ...] = (("? ", "warn"), *whose)
    start: tuple[Span, ...] = (*asks, ("May ", "text"), name)
    if question.host:
        return (*start, (" reach ", "text"), (sanitised_line(question.host), "strong"), ("?", "text"))
    if question.id.startswith(OUTSIDE):
        return (*start, (" run this again, outside the sandbox?", "text"))
    if command_of(question.arguments):
        return (*asks, ("Run this command?", "strong"), *_edited_note(question))
    if question.preview:
        file = _only_file(question)
        verb = _DONE_TO.get(file.state, "Change") if file is not None else "Change"
        what = path or (sanitised_line(file.name) if file is not None else "") or "these files"
        counts: Line = ((f"  +{added}", "good"), (f" −{removed}", "bad"))
        return (*asks, (f"{verb} {what}?", "strong"), *counts, *_edited_note(question))
    asked: Span = (f" touch {path}?" if path else " run with these arguments?", "text")
    return (*start, asked, *_edited_note(question))


def _only_file(question: PermissionAsked) -> FileDiff | None:
    """The only changed file, unless it is renamed."""
    files = files_of(question.preview)
    return files[0] if len(files) == 1 and not files[0].before else None


def _edited_note(question: PermissionAsked) -> tuple[Span, ...]:
    return (("  as you changed it", "warn"),) if question.is_edited else ()


def danger_texts(question: PermissionAsked) -> tuple[str, ...]:
    """The dangerous parts of the command with their effects, in words."""
    return tuple(f"`{part}`{why}" for part, why in _dangers(question))


def _dangers(question: PermissionAsked) -> tuple[tuple[str, str], ...]:
    command, parts = command_of(question.arguments), dict[str, list[str]]()
    for danger in question.dangers:
        part = ellipsize(sanitised_line(command[danger.start : danger.end]), _MAX_PART_CHARS)
        parts.setdefault(part, []).append(sanitised_line(danger.why))
    return tuple((part, f" {', and '.join(dict.fromkeys(whys))}") for part, whys in parts.items())


def reason_of(question: PermissionAsked) -> tuple[Line, ...]:
    """The dangerous parts, and why approval is needed."""
    told = _dangers(question)
    dangers: list[Line] = [
        (("Dangerous: ", "bad"), (part, "code"), (why, "strong")) for part, why in told[:_MAX_DANGERS]
    ]
    if len(told) > _MAX_DANGERS:
        dangers.append(((f"and {so_many(len(told) - _MAX_DANGERS, 'more dangerous part')}", "bad"),))
    return (*dangers, *(parse_inline_code(line, "dim") for line in sanitised(question.reason).split("\n")))


def dry_run_of(rule: RuleTrial) -> str:
    """What a rule would have allowed so far, in a sentence."""
    if not rule.of:
        return "nothing like this was asked about so far"
    calls = so_many(rule.of, "earlier call")
    if not rule.allowed:
        return f"would have allowed none of {calls}"
    examples = ", ".join(f'"{sanitised_line(example)}"' for example in rule.examples)
    return f"would have allowed {rule.allowed:,} of {calls}" + (f", e.g. {examples}" if examples else ", all like this")


def changeable(question: PermissionAsked) -> str:
    """The argument that the user may edit; empty if there is none."""
    is_fixed = question.host or question.id.startswith(OUTSIDE)
    name = "" if is_fixed else _CHANGEABLE.get(question.name, "")
    return name if isinstance(question.arguments.get(name), str) else ""


def with_changed_argument(question: PermissionAsked, text: str) -> Mapping[str, object]:
    """The call's arguments with the edited text."""
    return {**question.arguments, changeable(question): text}
