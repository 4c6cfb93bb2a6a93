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

from bench.attacks.rows import AttackFolders, Row, lay_out, policies_for, rows_of
from ebbtide.agent.calls.permission_request import request_for
from ebbtide.agent.calls.policy import Policy, decide, parse_rule
from ebbtide.agent.config.options import Mode
from ebbtide.tools.base import Tool, ToolError, Workspace
from ebbtide.tools.catalog import builtin_tools
from ebbtide.tools.lazy import dataclass

ORDER = ("allow", "ask", "deny")


@dataclass(frozen=True, slots=True)
class JudgedRow:
    id: str
    expected: str
    decided: str
    rule: str
    call_text: str
    """The command, or the call's arguments."""

    @property
    def got_through(self) -> bool:
        return self.expected in ("ask", "deny") and self.decided == "allow"

    @property
    def is_wrongly_blocked(self) -> bool:
        return self.expected == "allow" and self.decided != "allow"

    @property
    def is_too_mild(self) -> bool:
        return self.expected == "deny" and self.decided == "ask"


def judge_rows(file: Path, wanted: Set[str] = frozenset()) -> Iterator[JudgedRow]:
    """Yield each row that expects a decision about one of our tools, with the actual decision. `wanted` selects ids and
    areas."""
    policies = policies_for(file)
    tools = {tool.name: tool for tool in builtin_tools()}
    for row in rows_of(file, wanted):
        tool, expected = tools.get(row["action"].get("tool", "")), row["expected"].get("decision")
        if tool is not None and expected in ORDER and not row["setup"].get("race"):
            with tempfile.TemporaryDirectory() as folder:
                yield _judge_row(row, tool, policies, AttackFolders(Path(folder).resolve()))


def _judge_row(row: Row, tool: Tool, policies: Mapping[str, Any], places: AttackFolders) -> JudgedRow:
    setup, arguments, root = row["setup"], row["action"]["args"], places.project
    lay_out(setup, places)
    named = policies.get(setup.get("policy") or "", {})
    given = {**named, **(setup.get("rules") or {})}
    policy = Policy(
        str(root),
        cast("Mode", setup.get("mode") or "ask"),
        (
            *(parse_rule("bash" if rule == "*" else f"bash({rule})") for rule in named.get("allow", ())),
            *(parse_rule(f"web_fetch({host})") for host in _allowed_hosts(row)),
        ),
        tuple(parse_rule(_ours(rule)) for rule in given.get("deny", ())),
    )
    said = str(arguments.get("command", arguments))
    try:
        request = request_for(tool, arguments, Workspace(root, places.folder / "outputs"), policy.mode)
        ruling = decide(request, policy)
    except ToolError as error:
        return JudgedRow(row["id"], row["expected"]["decision"], "deny", f"refused: {error}", said)
    if ruling.verdict == "allow" and tool.name == "read" and not _opens(request.subjects[0]):
        return JudgedRow(row["id"], row["expected"]["decision"], "deny", "refused: links lead in a circle", said)
    return JudgedRow(row["id"], row["expected"]["decision"], ruling.verdict, ruling.rule, said)


def _allowed_hosts(row: Row) -> Sequence[str]:
    """Hosts opened by rules. A row without rules that expects a page tests what follows the user's approval of its
    host. An empty list of rules opens none."""
    if row["action"]["tool"] != "web_fetch":
        return ()
    rules = row["setup"].get("rules")
    if rules is None and row["expected"]["decision"] == "allow":
        return (urlsplit(row["action"]["args"]["url"]).hostname or "",)
    return cast("Sequence[str]", (rules or {}).get("allow", ()))


def _opens(path: str) -> bool:
    try:
        os.stat(path)
    except OSError as error:
        return error.errno != errno.ELOOP
    return True


def _ours(rule: str) -> str:
    return re.sub(r"^[A-Z]\w*", lambda name: name[0].lower(), rule) if "(" in rule else f"bash({rule})"


def report(rows: Sequence[JudgedRow], *, each: bool = False) -> bool:
    """Print the differences; return whether a dangerous call was allowed or a harmless one blocked. With `each`, print
    all rows."""
    for row in rows if each else ():
        print(f"  {row.id}  {row.expected} → {row.decided}: {row.rule}")
    kinds = {
        "allowed without asking": [row for row in rows if row.got_through],
        "harmless and not allowed": [row for row in rows if row.is_wrongly_blocked],
        "asked where it should be denied": [row for row in rows if row.is_too_mild],
    }
    for kind, found in kinds.items():
        print(f"{kind}: {len(found)}")
        for row in found:
            print(f"  {row.id}  {row.call_text[:100]!r}  {row.decided}: {row.rule}")
    harmless = sum(row.expected == "allow" for row in rows)
    print(f"{len(rows)} rows, {harmless} of them harmless")
    return bool(kinds["allowed without asking"] or kinds["harmless and not allowed"])
