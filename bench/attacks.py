"""What the permission policy decides about rows of a file of attacks, none of which is run: how many calls that must be
asked about are allowed, and how many harmless ones are not.

    EBB_ATTACKS=attacks.jsonl python -m bench.attacks

Each row is a JSON object with `id`, `setup` (`policy`: a name in `attacks_policies.json` beside the file; `mode`,
`files`, `symlinks`, `git_repo`), `action` (`tool` and `args`) and `expected.decision`. Rows of other kinds
are left out.
"""

import errno
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from agent.calls.approval import request_for
from agent.calls.policy import Policy, decide, parse_rule
from agent.config.options import Mode
from tools.base import Tool, ToolError, Workspace
from tools.catalog import builtin_tools
from tools.lazy import dataclass

PLACE = "EBB_ATTACKS"
ORDER = ("allow", "ask", "deny")


@dataclass(frozen=True, slots=True)
class JudgedRow:
    id: str
    expected: str
    decided: str
    rule: str
    said: str
    """The command, or what the call was given."""

    @property
    def got_through(self) -> bool:
        return self.expected in ("ask", "deny") and self.decided == "allow"

    @property
    def is_held_up(self) -> bool:
        return self.expected == "allow" and self.decided != "allow"

    @property
    def is_too_mild(self) -> bool:
        return self.expected == "deny" and self.decided == "ask"


def judged(file: Path) -> Iterator[JudgedRow]:
    """Each row that says what is to be decided about a call of one of our tools, with what is decided."""
    policies = json.loads((file.parent / "attacks_policies.json").read_text())
    tools = {tool.name: tool for tool in builtin_tools()}
    for line in file.read_text().splitlines():
        row = cast("Mapping[str, Any]", _expanded(json.loads(line)))
        tool, expected = tools.get(row["action"].get("tool", "")), row["expected"].get("decision")
        if tool is not None and expected in ORDER and not row["setup"].get("race"):
            with tempfile.TemporaryDirectory() as folder:
                yield _judged(row, tool, policies, Path(folder).resolve())


def _judged(row: Mapping[str, Any], tool: Tool, policies: Mapping[str, Any], folder: Path) -> JudgedRow:
    setup, arguments = row["setup"], row["action"]["args"]
    root, elsewhere = folder / "w" / "proj", folder
    _lay_out(setup, root, elsewhere)
    named = policies.get(setup.get("policy") or "", {})
    given = {**named, **(setup.get("rules") or {})}
    policy = Policy(
        str(root),
        cast("Mode", setup.get("mode") or "ask"),
        tuple(parse_rule("bash" if rule == "*" else f"bash({rule})") for rule in named.get("allow", ())),
        tuple(parse_rule(_ours(rule)) for rule in given.get("deny", ())),
    )
    said = str(arguments.get("command", arguments))
    try:
        request = request_for(tool, arguments, Workspace(root, folder / "outputs"), policy)
        ruling = decide(request, policy)
    except ToolError as error:
        return JudgedRow(row["id"], row["expected"]["decision"], "deny", f"refused: {error}", said)
    if ruling.verdict == "allow" and tool.name == "read" and not _opens(request.subjects[0]):
        return JudgedRow(row["id"], row["expected"]["decision"], "deny", "refused: links lead in a circle", said)
    return JudgedRow(row["id"], row["expected"]["decision"], ruling.verdict, ruling.rule, said)


def _opens(path: str) -> bool:
    try:
        os.stat(path)
    except OSError as error:
        return error.errno != errno.ELOOP
    return True


def _ours(rule: str) -> str:
    return re.sub(r"^[A-Z]\w*", lambda name: name[0].lower(), rule) if "(" in rule else f"bash({rule})"


def _lay_out(setup: Mapping[str, Any], root: Path, elsewhere: Path) -> None:
    root.mkdir(parents=True)
    if setup.get("git_repo"):
        subprocess.run(["git", "init", "-q", str(root)], check=True)
    for name, text in (setup.get("files") or {}).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(text))
    for name, target in (setup.get("symlinks") or {}).items():
        inside = str(elsewhere) + target if target.startswith("/w/") else target
        (root / name).symlink_to(inside)


def _expanded(value: object) -> object:
    if isinstance(value, dict):
        if "$repeat" in value:
            unit, times = value["$repeat"]
            return cast("str", unit) * cast("int", times)
        if "$concat" in value:
            return "".join(str(_expanded(part)) for part in value["$concat"])
        return {name: _expanded(each) for name, each in value.items()}
    return [_expanded(each) for each in value] if isinstance(value, list) else value


def main() -> int:
    if not os.environ.get(PLACE):
        print(f"{PLACE} names no file of attacks", file=sys.stderr)
        return 2
    rows = list(judged(Path(os.environ[PLACE])))
    kinds = {
        "allowed without a question": [row for row in rows if row.got_through],
        "harmless and not allowed": [row for row in rows if row.is_held_up],
        "asked where it should be denied": [row for row in rows if row.is_too_mild],
    }
    for kind, found in kinds.items():
        print(f"{kind}: {len(found)}")
        for row in found:
            print(f"  {row.id}  {row.said[:100]!r}  {row.decided}: {row.rule}")
    harmless = sum(row.expected == "allow" for row in rows)
    print(f"{len(rows)} rows, {harmless} of them harmless")
    return 1 if kinds["allowed without a question"] or kinds["harmless and not allowed"] else 0


if __name__ == "__main__":
    sys.exit(main())
