"""The question that asks the user to approve a call: its text and possible answers."""

from collections.abc import Mapping
from dataclasses import replace

from ebbtide.agent.calls.policy import parse_rule
from ebbtide.agent.errors import ConfigError
from ebbtide.agent.events.permissions import Decision, PermissionAsked, RuleTrial
from ebbtide.tools.outputs.extent import ellipsize, pluralize
from ebbtide.tools.tool_traits import command_argument, path_argument, text_argument, traits_of
from ebbtide.tui.text.sanitise import sanitise, sanitise_line
from ebbtide.tui.text.spans import Line, Span, parse_inline_code
from ebbtide.tui.text.unified_diff import FileDiff, count_changes, parse_diff
from ebbtide.tui.view.change_choices import build_changes_choice
from ebbtide.tui.view.question import Choice, QuestionSpec, Subject, TextEntry, build_denial_choice


def describe_rule(rule: str, *, is_exact: bool = False) -> str:
    """Describe what a rule covers, so that it completes "don't ask again for …". `is_exact`: whether the rule covers
    just one command line or file."""
    try:
        parsed_rule = parse_rule(rule)
    except ConfigError:
        return sanitise_line(rule)
    tool, prefix = sanitise_line(parsed_rule.tool), sanitise_line(parsed_rule.prefix)
    traits = traits_of(tool)
    scope_suffix = " outside the sandbox" if tool == "outside" else ""
    if parsed_rule.exact_line is not None:
        return f"this command{scope_suffix}"
    if tool == "network":
        return f"connections to {prefix}" if prefix else "all connections"
    if traits.role == "run_command" or tool == "outside":
        return f'"{prefix} …" commands{scope_suffix}' if prefix else f"all commands{scope_suffix}"
    if tool.startswith("mcp__"):
        server, _, name = tool.removeprefix("mcp__").partition("__")
        return f"calls to {name} on {server}" if name else f"all tools of {server}"
    noun = traits.rule_noun or "calls to " + tool
    if not prefix:
        return f"all {noun}"
    if traits.role == "fetch_page":
        return f"{noun} from {prefix}"
    if is_exact and prefix != ".":
        return f"{noun.replace('new or rewritten files', 'rewrites')} of {prefix}"
    return f"{noun} in {'this project' if prefix == '.' else prefix.rstrip('/') + '/'}"


_MAX_DANGERS = 3
"""Maximum number of dangerous parts listed."""
_MAX_PART_CHARS = 60
"""Maximum number of characters shown per dangerous part."""
_CHANGE_VERBS: Mapping[str, str] = {"new": "Create", "deleted": "Delete"}
"""Verbs for the headline, by what the diff does with the file."""
SCOPE_TEXTS: Mapping[str, str] = {"session": "this session", "project": "in future sessions"}
OUTSIDE_ID_PREFIX = "outside-"
"""Prefix of the ids of questions about whether to run a command again outside the sandbox."""


def build_call_question(question: PermissionAsked) -> QuestionSpec:
    """Build the question about a call."""
    headline = permission_headline(question)
    reason = reason_lines(question)
    choices = _build_choices(question, "session")
    project_choices = _build_choices(question, "project") if question.rules_file and question.offers else ()
    is_short = len(reason) == 1 and not question.dangers
    return QuestionSpec(
        headline,
        _build_subject(question),
        choices,
        reason,
        project_choices,
        question.rules_file,
        has_one_line_reason=is_short,
    )


def _build_subject(question: PermissionAsked) -> Subject:
    """Show what the call would do: the command line, the diff or all arguments."""
    command = _command_text(question)
    if command:
        return Subject("code", command, "bash", tuple((danger.start, danger.end) for danger in question.dangers))
    if question.preview:
        return Subject("diff", question.preview, is_named_in_headline=_single_file(question) is not None)
    return Subject("arguments", arguments=question.arguments)


def _command_text(question: PermissionAsked) -> str:
    """Get the command line. Its folder is not included, because the headline names it."""
    has_job = bool(text_argument(question.arguments, "job"))
    return command_argument(question.arguments) if has_job else text_argument(question.arguments, "command")


def _build_choices(question: PermissionAsked, scope: str) -> tuple[Choice, ...]:
    """Build the answers. Their numbers are the same in every question: 1 yes, 2 yes and don't ask again, 3 edit, 4 no.
    Further choices follow."""
    allow_label = "Yes"
    if question.host:
        allow_label = "Yes, while this command runs"
    elif question.id.startswith(OUTSIDE_ID_PREFIX):
        allow_label = "Yes, run it again outside the sandbox"
    lasting_choices = _build_lasting_choices(question, scope)
    changes_choice = build_changes_choice(question, permission_headline(question))
    extra_choices = lasting_choices[1:]
    first_extra_number = 5 + len(changes_choice)
    return (
        Choice(allow_label, "y", Decision("allow"), number=1, short_label="Yes"),
        *(replace(choice, key="a", number=2) for choice in lasting_choices[:1]),
        *(
            (Choice("Edit it first", "e", text_entry=_build_edit_entry(question), number=3),)
            if editable_argument(question)
            else ()
        ),
        build_denial_choice(Decision("deny"), _build_denial),
        *(replace(choice, number=5) for choice in changes_choice),
        *(
            replace(choice, number=number, is_extra=True)
            for number, choice in enumerate(extra_choices, first_extra_number)
        ),
    )


def _build_denial(text: str) -> Decision:
    return Decision("deny", note=sanitise(text.strip()))


def _build_lasting_choices(question: PermissionAsked, scope: str) -> tuple[Choice, ...]:
    """Build the answers after which such calls are not asked about again, the usual one first: for a file change, all
    edits; otherwise the rule after the one for exactly this call."""
    rule_choices = [_build_rule_choice(question, number, scope) for number in range(len(question.offers))]
    if scope == "session" and question.mode_offer:
        mode_choice = Choice(
            "Yes, and allow all edits this session",
            answer=Decision("allow", mode=question.mode_offer),
            is_lasting=True,
            rule_text=f"{question.mode_offer} mode",
            details="files in this project; /mode changes it back",
            short_label="Yes, all edits",
        )
        return (mode_choice, *rule_choices)
    usual_index = len(rule_choices) - 1 if question.mode_offer else min(question.offers_exact, len(rule_choices) - 1)
    usual_choices = rule_choices[usual_index : usual_index + 1] if rule_choices else []
    return (*usual_choices, *(choice for choice in rule_choices if choice not in usual_choices))


def _build_rule_choice(question: PermissionAsked, offer_index: int, scope: str) -> Choice:
    rule, is_exact = question.offers[offer_index], question.offers_exact and offer_index == 0
    trial_texts = {trial.rule: rule_trial_text(trial) for trial in question.tried}
    storage_note = f"saved in {question.rules_file}" if scope == "project" else ""
    description = describe_rule(rule, is_exact=is_exact)
    return Choice(
        f"Yes, and don't ask again for {description} {SCOPE_TEXTS[scope]}",
        answer=Decision("allow", rule=rule, scope="project" if scope == "project" else "session"),
        is_lasting=True,
        rule_text="" if is_exact else rule,  # an exact rule is already shown
        details="; ".join(text for text in (trial_texts.get(rule, ""), storage_note) if text),
        short_label=f"Yes, always {description}",
    )


def _build_edit_entry(question: PermissionAsked) -> TextEntry:
    """Decide how the user edits the call: a printable command in place, anything else in their editor."""
    original_text = str(question.arguments[editable_argument(question)])
    if editable_argument(question) == "command" and sanitise(original_text) == original_text:
        return TextEntry(
            "command", lambda text: _edited_command_decision(question, original_text, text), initial_text=original_text
        )

    def build_decision(text: str) -> Decision | None:
        return Decision("edit", arguments=with_edited_argument(question, text)) if text != original_text else None

    return TextEntry(
        "editor", build_decision, initial_text=original_text, file_suffix=path_argument(question.arguments)
    )


def _edited_command_decision(question: PermissionAsked, original_text: str, text: str) -> Decision | None:
    """Allow the call with the edited command, without unprintable characters. None if the command is empty."""
    if not text.strip():
        return None
    return (
        Decision("allow")
        if text == original_text
        else Decision("allow", arguments=with_edited_argument(question, sanitise(text)))
    )


def permission_headline(question: PermissionAsked) -> Line:
    """Build the headline: what would be done, and where."""
    path = sanitise_line(path_argument(question.arguments))
    name: Span = (sanitise_line(question.name), "strong")
    agent_name: tuple[Span, ...] = ((f"agent {sanitise_line(question.agent)}: ", "strong"),) if question.agent else ()
    prefix: tuple[Span, ...] = (("? ", "warn"), *agent_name)
    question_start: tuple[Span, ...] = (*prefix, ("Allow ", "text"), name)
    if question.host:
        return (*question_start, (" to connect to ", "text"), (sanitise_line(question.host), "strong"), ("?", "text"))
    if question.id.startswith(OUTSIDE_ID_PREFIX):
        return (*question_start, (" to run this again outside the sandbox?", "text"))
    if _command_text(question):
        folder = text_argument(question.arguments, "workdir")
        place = f" in {sanitise_line(folder)}" if folder not in ("", ".") else ""
        return (*prefix, (f"Run this command{place}?", "strong"), *_edited_note(question))
    if question.preview:
        file = _single_file(question)
        verb = _CHANGE_VERBS.get(file.state, "Change") if file is not None else "Change"
        subject = path or (sanitise_line(file.name) if file is not None else "") or "these files"
        added, removed = count_changes(question.preview)
        counts: Line = ((f"  +{added}", "good"), (f" −{removed}", "bad"))
        return (*prefix, (f"{verb} {subject}?", "strong"), *counts, *_edited_note(question))
    request: Span = (f" to access {path}?" if path else " to run with these arguments?", "text")
    return (*question_start, request, *_edited_note(question))


def _single_file(question: PermissionAsked) -> FileDiff | None:
    """Get the changed file, if there is only one and it is not renamed."""
    files = parse_diff(question.preview)
    return files[0] if len(files) == 1 and not files[0].previous_name else None


def _edited_note(question: PermissionAsked) -> tuple[Span, ...]:
    return (("  edited by you", "warn"),) if question.is_edited else ()


def _danger_parts(question: PermissionAsked) -> tuple[tuple[str, str], ...]:
    command, parts = _command_text(question), dict[str, list[str]]()
    for danger in question.dangers:
        part = ellipsize(sanitise_line(command[danger.start : danger.end]), _MAX_PART_CHARS)
        parts.setdefault(part, []).append(sanitise_line(danger.why))
    return tuple((part, f" {', and '.join(dict.fromkeys(reasons))}") for part, reasons in parts.items())


def reason_lines(question: PermissionAsked) -> tuple[Line, ...]:
    """Format the dangerous parts, whether the sandbox confines the command, and the reason for asking."""
    danger_parts = _danger_parts(question)
    dangers: list[Line] = [
        (("Dangerous: ", "bad"), (part, "code"), (danger_reason, "strong"))
        for part, danger_reason in danger_parts[:_MAX_DANGERS]
    ]
    if len(danger_parts) > _MAX_DANGERS:
        dangers.append(((f"and {pluralize(len(danger_parts) - _MAX_DANGERS, 'more dangerous part')}", "bad"),))
    reasons: list[Line] = [parse_inline_code(line, "dim") for line in sanitise(question.reason).split("\n")]
    match question.is_sandboxed:
        case True:
            reasons[0] = (("in the sandbox · ", "dim"), *reasons[0])
        case False:
            reasons[0] = (("not in the sandbox", "warn"), (" · ", "dim"), *reasons[0])
    return (*dangers, *reasons)


def rule_trial_text(trial: RuleTrial) -> str:
    """Say how many earlier calls the rule would have allowed."""
    if not trial.of:
        return "no earlier call is like this"
    calls = pluralize(trial.of, "earlier call")
    if not trial.allowed:
        return f"would have allowed none of {calls}"
    examples = ", ".join(f'"{sanitise_line(example)}"' for example in trial.examples)
    return f"would have allowed {trial.allowed:,} of {calls}" + (
        f", e.g. {examples}" if examples else ", all like this"
    )


def editable_argument(question: PermissionAsked) -> str:
    """Get the name of the argument that the user can edit; empty if there is none."""
    is_fixed = question.host or question.id.startswith(OUTSIDE_ID_PREFIX)
    name = "" if is_fixed else traits_of(question.name).editable_argument
    return name if isinstance(question.arguments.get(name), str) else ""


def with_edited_argument(question: PermissionAsked, text: str) -> Mapping[str, object]:
    """Replace the editable argument with the edited text."""
    return {**question.arguments, editable_argument(question): text}
