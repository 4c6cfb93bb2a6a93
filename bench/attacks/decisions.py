"""Permission decisions about attack rows, without running them: how many dangerous calls are allowed, and how many
harmless ones are not."""

import errno
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from bench.attacks.rows import AttackFolders, AttackRow, create_files, load_policies, read_rows
from ebbtide.agent.calls.permission_request import build_permission_request
from ebbtide.agent.calls.policy import Policy, decide, parse_rule
from ebbtide.agent.config.options import PermissionMode
from ebbtide.tools.base import Tool, ToolError, Workspace
from ebbtide.tools.catalog import create_builtin_tools
from ebbtide.tools.lazy import dataclass

VERDICTS = ("allow", "ask", "deny")


@dataclass(frozen=True, slots=True)
class JudgedRow:
    id: str
    expected: str
    decided: str
    rule: str
    call_text: str
    """The command, or the call's arguments."""

    @property
    def is_wrongly_allowed(self) -> bool:
        return self.expected in ("ask", "deny") and self.decided == "allow"

    @property
    def is_wrongly_blocked(self) -> bool:
        return self.expected == "allow" and self.decided != "allow"

    @property
    def is_asked_not_denied(self) -> bool:
        return self.expected == "deny" and self.decided == "ask"


def judge_rows(file: Path, selected: Set[str] = frozenset()) -> Iterator[JudgedRow]:
    """Yield each row that expects a decision about one of our tools, with the actual decision. `selected` selects ids
    and areas."""
    policies = load_policies(file)
    tools = {tool.name: tool for tool in create_builtin_tools()}
    for row in read_rows(file, selected):
        tool, expected = tools.get(row["action"].get("tool", "")), row["expected"].get("decision")
        if tool is not None and expected in VERDICTS and not row["setup"].get("race"):
            with tempfile.TemporaryDirectory() as folder:
                yield _judge_row(row, tool, policies, AttackFolders(Path(folder).resolve()))


def _judge_row(row: AttackRow, tool: Tool, policies: Mapping[str, Any], dirs: AttackFolders) -> JudgedRow:
    setup, arguments, root = row["setup"], row["action"]["args"], dirs.project
    create_files(setup, dirs)
    named = policies.get(setup.get("policy") or "", {})
    rules = {**named, **(setup.get("rules") or {})}
    policy = Policy(
        str(root),
        cast(PermissionMode, setup.get("mode") or "ask"),
        (
            *(parse_rule("bash" if rule == "*" else f"bash({rule})") for rule in named.get("allow", ())),
            *(parse_rule(f"web_fetch({host})") for host in _allowed_hosts(row)),
        ),
        tuple(parse_rule(_our_rule(rule)) for rule in rules.get("deny", ())),
    )
    command = str(arguments.get("command", arguments))
    try:
        request = build_permission_request(tool, arguments, Workspace(root, dirs.folder / "outputs"), policy.mode)
        ruling = decide(request, policy)
    except ToolError as error:
        return JudgedRow(row["id"], row["expected"]["decision"], "deny", f"refused: {error}", command)
    if ruling.verdict == "allow" and tool.name == "read" and not _can_open(request.subjects[0]):
        return JudgedRow(row["id"], row["expected"]["decision"], "deny", "refused: links lead in a circle", command)
    return JudgedRow(row["id"], row["expected"]["decision"], ruling.verdict, ruling.decided_by, command)


def _allowed_hosts(row: AttackRow) -> Sequence[str]:
    """Return the hosts allowed by rules. A row without rules that expects a page tests the state after the user has
    approved its host. An empty list of rules allows none."""
    if row["action"]["tool"] != "web_fetch":
        return ()
    rules = row["setup"].get("rules")
    if rules is None and row["expected"]["decision"] == "allow":
        return (urlsplit(row["action"]["args"]["url"]).hostname or "",)
    return cast("Sequence[str]", (rules or {}).get("allow", ()))


def _can_open(path: str) -> bool:
    try:
        os.stat(path)
    except OSError as error:
        return error.errno != errno.ELOOP
    return True


def _our_rule(rule: str) -> str:
    return re.sub(r"^[A-Z]\w*", lambda name: name[0].lower(), rule) if "(" in rule else f"bash({rule})"


def report(rows: Sequence[JudgedRow], *, each: bool = False) -> bool:
    """Print the differences. Return whether a dangerous call was allowed or a harmless one blocked. With `each`, print
    all rows."""
    for row in rows if each else ():
        print(f"  {row.id}  {row.expected} → {row.decided}: {row.rule}")
    kinds = {
        "allowed without asking": [row for row in rows if row.is_wrongly_allowed],
        "harmless and not allowed": [row for row in rows if row.is_wrongly_blocked],
        "asked where it should be denied": [row for row in rows if row.is_asked_not_denied],
    }
    for kind, found in kinds.items():
        print(f"{kind}: {len(found)}")
        for row in found:
            print(f"  {row.id}  {row.call_text[:100]!r}  {row.decided}: {row.rule}")
    harmless = sum(row.expected == "allow" for row in rows)
    print(f"{len(rows)} rows, {harmless} of them harmless")
    return bool(kinds["allowed without asking"] or kinds["harmless and not allowed"])
