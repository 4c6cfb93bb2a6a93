"""Builds the questions about a project's extensions, and the notice for sessions that cannot ask. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence

from ebbtide.agent.extensions.extension_folders import Kind
from ebbtide.agent.extensions.trust import Standing, TrustItem, TrustRecord
from ebbtide.tools.outputs.extent import pluralize

APPROVE, LATER, NEVER = "approve", "not now", "never in this project"
ONE_OPTIONS = (LATER, APPROVE, NEVER)
ALL, EACH = "trust all of it", "ask about each"
FOLDER_OPTIONS = (LATER, ALL, EACH, NEVER)
"""The safe answer comes first, in case a key is pressed by mistake."""

MAX_ITEM_LINES = 40
"""Maximum number of lines per item in a question about several, except for hooks and servers. A question about one item
shows all."""
MAX_NAMES_PER_KIND = 6
"""Maximum number of names of a kind in one line."""

_DECIDE = "start `ebb` in a terminal to decide, or give `--trust` to use what this project contains"
_EFFECTS: Mapping[Kind, str] = {
    "skill": "The model reads a skill when it is relevant; its scripts run like the model's commands.",
    "command": "A command's text becomes your message when you use it; its shell commands run like the model's.",
    "agent": "The model may delegate work to an agent, which has no more permissions than the session.",
    "hook": "A hook runs automatically, without asking, each time: in the sandbox, if there is one.",
}
_PLURALS: Mapping[Kind, str] = {
    "skill": "skills", "command": "commands", "agent": "agents", "hook": "hooks", "server": "servers",
    "plugin": "plugins",
}  # fmt: skip

_BY_THEMSELVES: Sequence[Kind] = ("hook", "server")
"""Kinds that run without being invoked. They are shown first, so that harmless items cannot push them down; hooks, of
which a project has few files, before servers."""
_LINE_END = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_BLANK_RUN = re.compile(r"[\s\u2800]{24,}")
"""Whitespace long enough to push text out of sight."""

Waiting = tuple[TrustItem, TrustRecord | None]
"""An item that is not approved in its current state, and its earlier approval."""


def item_question(item: TrustItem, before: TrustRecord | None) -> str:
    """Build the question about one item, with everything that would be approved and what has changed since an earlier
    approval."""
    does = "has" if before is None else "has changed"
    lines = [f"This project {does} {_item_label(item, 'in')}.", "", *_lines(item), ""]
    return "\n".join([*lines, *_changes(item, before), f"{_effect(item)} May it be used?".lstrip()])


def folder_question(waiting: Sequence[Waiting]) -> str:
    """Build the question about all items, with the details of each."""
    waiting = sorted(waiting, key=lambda one: (*_BY_THEMSELVES, one[0].kind).index(one[0].kind))
    lines = [f"This project has {_counts(item for item, _ in waiting)} that you have not approved:", ""]
    for item, before in waiting:
        shown = _lines(item)
        most = len(shown) if item.kind in _BY_THEMSELVES else MAX_ITEM_LINES
        more = [f"  … {len(shown) - most} more lines: choose “{EACH}” to see them"] if len(shown) > most else []
        changed = "" if before is None else ", which has changed"
        head = f"{_item_label(item, 'of')}{changed}"
        lines += [head, *shown[:most], *more, *_changes(item, before), ""]
    effects = dict.fromkeys(filter(None, (_effect(item) for item, _ in waiting)))
    return "\n".join([*lines, *effects, "Do you trust all of it?"])


def _item_label(item: TrustItem, where: str) -> str:
    """Hook files are named by their path."""
    source = _as_one_line(item.source)
    if item.name == item.source:
        return f"{_PLURALS[item.kind]} in `{source}`"
    return f"the {item.kind} `{_as_one_line(item.name)}` {where} `{source}`"


def unapproved_notice(waiting: Sequence[tuple[TrustItem, Standing]]) -> str:
    """One line about everything unapproved, for sessions that cannot ask."""
    parts = []
    for standing, what in (("not approved", "not approved"), ("changed", "changed since it was approved")):
        items = [item for item, found in waiting if found == standing]
        if items:
            is_one = len(items) == 1 and items[0].kind != "hook"
            verb = ("is" if is_one else "are") if standing == "not approved" else ("has" if is_one else "have")
            what = what if is_one else what.replace("it was", "they were")
            parts.append(f"{_names(items)} {verb} {what}")
    them = "it is" if len(waiting) == 1 and waiting[0][0].kind != "hook" else "they are"
    return f"{' and '.join(parts)}, so {them} left out; {_DECIDE}"


def _names(items: Sequence[TrustItem]) -> str:
    """For example: the skills `a`, `b` and the server `c` of this project"""
    groups = []
    for kind in dict.fromkeys(item.kind for item in items):
        names = [f"`{_as_one_line(item.name)}`" for item in items if item.kind == kind]
        more = f" and {len(names) - MAX_NAMES_PER_KIND} others" if len(names) > MAX_NAMES_PER_KIND else ""
        what = "hooks in" if kind == "hook" else kind if len(names) == 1 else _PLURALS[kind]
        groups.append(f"the {what} {', '.join(names[:MAX_NAMES_PER_KIND])}{more}")
    return f"{_join_words(groups)} of this project"


def _counts(items: Iterable[TrustItem]) -> str:
    """Hooks are approved per file, not one by one."""
    kinds = [item.kind for item in items]
    counts = [(kinds.count(kind), kind) for kind in dict.fromkeys(kinds)]
    return _join_words(
        [f"{pluralize(count, 'file')} of hooks" if kind == "hook" else pluralize(count, kind) for count, kind in counts]
    )


def _join_words(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _effect(item: TrustItem) -> str:
    return item.effect or _EFFECTS.get(item.kind, "")


def _lines(item: TrustItem) -> list[str]:
    return [f"  {_as_one_line(line)}" for line in item.details]


def _as_one_line(text: str) -> str:
    """Text from a project, escaped so that it cannot look like several lines or hide its end."""
    closed = _BLANK_RUN.sub(lambda found: f" [{len(found[0]):,} spaces] ", text)
    return _LINE_END.sub(lambda found: f"\\x{ord(found[0]):02x}" if ord(found[0]) != 10 else "\\n", closed)


def _changes(item: TrustItem, before: TrustRecord | None) -> list[str]:
    """The lines that have changed, followed by an empty one."""
    if before is None or not before.details:
        return []
    gone = [f"  - {_as_one_line(line)}" for line in before.details if line not in item.details]
    new = [f"  + {_as_one_line(line)}" for line in item.details if line not in before.details]
    return ["What has changed:", *(gone + new or ["  - details not shown here"]), ""]
