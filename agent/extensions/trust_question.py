"""Builds the questions about a project's extensions, and the notice for sessions that cannot ask."""

import re
from collections.abc import Iterable, Mapping, Sequence

from ebbtide.agent.extensions.extension_folders import ExtensionKind
from ebbtide.agent.extensions.trust import TrustItem, TrustRecord, TrustState
from ebbtide.tools.outputs.extent import pluralize

APPROVE_OPTION, POSTPONE_OPTION, REFUSE_OPTION = "approve", "not now", "never in this project"
ITEM_OPTIONS = (POSTPONE_OPTION, APPROVE_OPTION, REFUSE_OPTION)
TRUST_ALL_OPTION, ASK_EACH_OPTION = "trust all of it", "ask about each"
PROJECT_OPTIONS = (POSTPONE_OPTION, TRUST_ALL_OPTION, ASK_EACH_OPTION, REFUSE_OPTION)
"""Options of a question about all items. The safe option comes first, in case a key is pressed by mistake."""

MAX_ITEM_LINES = 40
"""Maximum number of lines per item in a question about several items. Hooks and servers are always shown in full. A
question about a single item shows it in full."""
MAX_NAMES_PER_KIND = 6
"""Maximum number of names per kind that the notice lists."""

_HOW_TO_DECIDE = "start `ebb` in a terminal to decide, or give `--trust` to use what this project contains"
_EFFECTS: Mapping[ExtensionKind, str] = {
    "skill": "The model reads a skill when it is relevant; its scripts run like the model's commands.",
    "command": "A command's text becomes your message when you use it; its shell commands run like the model's.",
    "agent": "The model may delegate work to an agent, which has no more permissions than the session.",
    "hook": "A hook runs automatically, without asking, each time: in the sandbox, if there is one.",
}
_PLURALS: Mapping[ExtensionKind, str] = {
    "skill": "skills", "command": "commands", "agent": "agents", "hook": "hooks", "server": "servers",
    "plugin": "plugins",
}  # fmt: skip

_SELF_STARTING_KINDS: Sequence[ExtensionKind] = ("hook", "server")
"""Kinds that run without being invoked. They are shown first, so that harmless items cannot push them off the screen.
Hooks precede servers, because a project has only a few hook files."""
_LINE_BREAK = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_BLANK_RUN = re.compile(r"[\s\u2800]{24,}")
"""Whitespace long enough to push text off the screen."""

UndecidedItem = tuple[TrustItem, TrustRecord | None]
"""An item that is not approved in its current state, with its earlier approval if it has one."""


def build_item_question(item: TrustItem, earlier: TrustRecord | None) -> str:
    """Build the question about one item. It shows everything that would be approved, and what has changed since an
    earlier approval."""
    verb = "has" if earlier is None else "has changed"
    lines = [f"This project {verb} {_item_label(item, 'in')}.", "", *_detail_lines(item), ""]
    return "\n".join([*lines, *_change_lines(item, earlier), f"{_effect_text(item)} May it be used?".lstrip()])


def build_project_question(undecided_items: Sequence[UndecidedItem]) -> str:
    """Build one question about all undecided items, with the details of each. Long details are shortened."""
    undecided_items = sorted(
        undecided_items,
        key=lambda undecided_item: (*_SELF_STARTING_KINDS, undecided_item[0].kind).index(undecided_item[0].kind),
    )
    lines = [f"This project has {_counts_by_kind(item for item, _ in undecided_items)} that you have not approved:", ""]
    for item, earlier in undecided_items:
        details = _detail_lines(item)
        visible_count = len(details) if item.kind in _SELF_STARTING_KINDS else MAX_ITEM_LINES
        cut_note = (
            [f"  … {len(details) - visible_count} more lines: choose “{ASK_EACH_OPTION}” to see them"]
            if len(details) > visible_count
            else []
        )
        change_text = "" if earlier is None else ", which has changed"
        title = f"{_item_label(item, 'of')}{change_text}"
        lines += [title, *details[:visible_count], *cut_note, *_change_lines(item, earlier), ""]
    effects = dict.fromkeys(filter(None, (_effect_text(item) for item, _ in undecided_items)))
    return "\n".join([*lines, *effects, "Do you trust all of it?"])


def _item_label(item: TrustItem, preposition: str) -> str:
    """Return a label for an item. Hook files are named by their path."""
    source = _escape_layout(item.source)
    if item.name == item.source:
        return f"{_PLURALS[item.kind]} in `{source}`"
    return f"the {item.kind} `{_escape_layout(item.name)}` {preposition} `{source}`"


def build_unapproved_notice(items_with_state: Sequence[tuple[TrustItem, TrustState]]) -> str:
    """Format one line about all unapproved items, for sessions that cannot ask."""
    parts = []
    for trust_state, state_text in (("not approved", "not approved"), ("changed", "changed since it was approved")):
        items = [item for item, item_state in items_with_state if item_state == trust_state]
        if items:
            is_single_item = len(items) == 1 and items[0].kind != "hook"
            verb = (
                ("is" if is_single_item else "are")
                if trust_state == "not approved"
                else ("has" if is_single_item else "have")
            )
            state_text = state_text if is_single_item else state_text.replace("it was", "they were")
            parts.append(f"{_names_by_kind(items)} {verb} {state_text}")
    pronoun = "it is" if len(items_with_state) == 1 and items_with_state[0][0].kind != "hook" else "they are"
    return f"{' and '.join(parts)}, so {pronoun} skipped; {_HOW_TO_DECIDE}"


def _names_by_kind(items: Sequence[TrustItem]) -> str:
    """Format a list such as "the skills `a`, `b` and the server `c` of this project"."""
    groups = []
    for kind in dict.fromkeys(item.kind for item in items):
        names = [f"`{_escape_layout(item.name)}`" for item in items if item.kind == kind]
        more = f" and {len(names) - MAX_NAMES_PER_KIND} others" if len(names) > MAX_NAMES_PER_KIND else ""
        kind_text = "hooks in" if kind == "hook" else kind if len(names) == 1 else _PLURALS[kind]
        groups.append(f"the {kind_text} {', '.join(names[:MAX_NAMES_PER_KIND])}{more}")
    return f"{_join_words(groups)} of this project"


def _counts_by_kind(items: Iterable[TrustItem]) -> str:
    """Format the number of items of each kind. Hooks are counted by file, since each file is approved as a whole."""
    kinds = [item.kind for item in items]
    counts = [(kinds.count(kind), kind) for kind in dict.fromkeys(kinds)]
    return _join_words(
        [f"{pluralize(count, 'file')} of hooks" if kind == "hook" else pluralize(count, kind) for count, kind in counts]
    )


def _join_words(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _effect_text(item: TrustItem) -> str:
    return item.effect or _EFFECTS.get(item.kind, "")


def _detail_lines(item: TrustItem) -> list[str]:
    return [f"  {_escape_layout(line)}" for line in item.details]


def _escape_layout(text: str) -> str:
    """Put a project's text on one line: line breaks are escaped and long whitespace is replaced with a note, so that no
    part of it can be hidden or look like a line of the question."""
    shortened = _BLANK_RUN.sub(lambda match: f" [{len(match[0]):,} spaces] ", text)
    return _LINE_BREAK.sub(lambda match: f"\\x{ord(match[0]):02x}" if ord(match[0]) != 10 else "\\n", shortened)


def _change_lines(item: TrustItem, earlier: TrustRecord | None) -> list[str]:
    """List the lines removed or added since the earlier approval, between a heading and a blank line. Returns nothing
    if the earlier lines are unknown."""
    if earlier is None or not earlier.details:
        return []
    removed_lines = [f"  - {_escape_layout(line)}" for line in earlier.details if line not in item.details]
    added_lines = [f"  + {_escape_layout(line)}" for line in item.details if line not in earlier.details]
    return ["What has changed:", *(removed_lines + added_lines or ["  - details not shown here"]), ""]
