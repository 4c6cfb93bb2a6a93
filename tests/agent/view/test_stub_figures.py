"""The figures in the line of an output are those of the output: real tools in sessions, on generated files."""

import asyncio
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ebbtide.agent.messages import ToolCall, ToolOutput
from ebbtide.agent.providers.wires.scripted import ScriptedProvider
from ebbtide.agent.view.visible import numbered_outputs, outcome_with_ref
from tests.conftest import thorough
from tests.kit.session import Home, call, calls, first_turn

Found: TypeAlias = tuple[ToolCall, ToolOutput, str, bytes]
"""A call, its output as it is shown, the line that would replace it, and all that the call gave back."""

CONTENTS = st.lists(
    st.sampled_from(
        ["word", "other word", "", "  ", "12: x", "1\tx", "(lines 1-2 of 3)", "no lines match", "é\u2028é",
         "a\x0cb\x85c", "word " * 700]
    ),
    max_size=30,
)  # fmt: skip
FILES = st.dictionaries(
    st.sampled_from(["a.txt", "b.txt", "1: c.txt", "sub/d.txt", "sub/7-e.py"]),
    st.builds(
        lambda lines, end, copies, ends: end.join(lines * copies) + end * ends,
        CONTENTS, st.sampled_from(["\n", "\r\n"]), st.sampled_from([1, 1, 40]), st.booleans(),
    ),
    min_size=1, max_size=4,
)  # fmt: skip
PRINTED = st.lists(
    st.sampled_from(
        ["ok", "", "error: no such field", "12: error: x", "warning: unused", "Traceback (most recent call last):",
         "KeyError: 'x'", "0 failed", "FAILED test_a", "matches: 3: error: no", "line " * 90]
    ),
    max_size=12,
)  # fmt: skip
NUMBERS = st.integers(1, 60)


def lines_of(content: str) -> list[str]:
    return content.replace("\r\n", "\n").removesuffix("\n").split("\n") if content else []


def shows_lines(text: str) -> list[int]:
    """The numbers of the lines that an output of `read` shows."""
    return [int(found[1]) for line in text.split("\n") if (found := re.match(r"(\d+)\t", line))]


def check_read(found: Found, files: Mapping[str, str]) -> None:
    call, output, line, _ = found
    total = len(lines_of(files[str(call.arguments["path"])]))
    if output.status == "failed":
        assert f" – failed: {output.text}" in line
        return
    shown = shows_lines(output.text)
    assert len(shown) <= total
    if len(shown) == total:
        assert f" – {total:,} line{'' if total == 1 else 's'} [" in line
    else:
        extent = f"line {shown[0]}" if len(shown) == 1 else f"lines {shown[0]}-{shown[-1]}"
        assert f" – {extent} of {total} [" in line
        assert shown == list(range(shown[0], shown[-1] + 1))


def check_grep(found: Found, files: Mapping[str, str]) -> None:
    call, output, line, _ = found
    matching = {
        name: sum(bool(re.search(str(call.arguments["pattern"]), text)) for text in lines_of(content))
        for name, content in files.items()
    }  # fmt: skip
    is_by_file = call.arguments.get("mode") in ("files", "count")
    total = sum(map(bool, matching.values())) if is_by_file else sum(matching.values())
    lines = output.text.split("\n")
    shown = (
        sum(bool(text) and not text.startswith("(") for text in lines) * (output.text != "no lines match")
        if is_by_file
        else sum(bool(re.match(r"\d+:", text)) and text not in files for text in lines)
    )
    noun = "file" if is_by_file else "match"
    plural = {"file": "files", "match": "matches"}[noun]
    counted = line.rpartition(" [")[0].rpartition(" – ")[2]
    if shown == total:
        assert counted == f"{total:,} {noun if total == 1 else plural}"
    else:
        assert counted in (
            f"{shown} of {total} {plural}",
            f"the first {shown} {noun if shown == 1 else plural} of more",
        )


def check_glob(found: Found, files: Mapping[str, str]) -> None:
    _, output, line, _ = found
    count = len(files)
    assert sorted(output.text.split("\n")) == sorted(files)
    assert f" – {count} file{'' if count == 1 else 's'} [" in line


def check_bash(found: Found, files: Mapping[str, str]) -> None:
    call, output, line, whole = found
    code = int(str(call.arguments["command"]).rpartition("exit ")[2])
    assert output.text.endswith(f"exit code {code}")
    ending = line.rpartition(" [recall:")[0].rpartition(f" – exit {code}")[2]
    if code == 0:
        assert ending == ""
        return
    printed = [" ".join(text.split()) for text in whole.decode().split("\n")[:-1]]
    quoted = ending.removeprefix(" – ").removesuffix("…")
    assert (quoted == "" and not any(printed)) or any(text.startswith(quoted) for text in printed if text), line


CHECKS = {"read": check_read, "grep": check_grep, "glob": check_glob, "bash": check_bash}


def draw_calls(data: st.DataObject, files: Mapping[str, str]) -> list[dict[str, Any]]:
    """Calls of all kinds."""
    name = st.sampled_from(sorted(files))
    reads = st.builds(
        lambda path, offset, limit: call("read", path=path, offset=offset, limit=limit), name, NUMBERS, NUMBERS
    )
    whole = st.builds(lambda path: call("read", path=path), name)
    greps = st.builds(
        lambda pattern, mode, limit, context: call("grep", pattern=pattern, mode=mode, limit=limit, context=context),
        st.sampled_from(["word", "^$", "x", "nothing here"]), st.sampled_from(["content", "files", "count"]), NUMBERS,
        st.integers(0, 2),
    )  # fmt: skip
    commands = st.builds(
        lambda lines, code, count: call("bash", command=f"{prints(lines, count)}; exit {code}"),
        PRINTED, st.sampled_from([0, 1, 2, 77]), st.sampled_from([1, 1, 60]),
    )  # fmt: skip
    drawn = data.draw(st.lists(st.one_of(reads, whole, greps, commands), min_size=3, max_size=8))
    return [*drawn, call("glob", pattern="**/*")]


def prints(lines: Sequence[str], count: int) -> str:
    """A command that prints the lines so often."""
    return f"for i in $(seq {count}); do printf '%s\\n' {shlex.join(lines) or repr('')}; done"


async def outputs_in_session(folder: Path, files: Mapping[str, str], wanted: Sequence[dict[str, Any]]) -> list[Found]:
    async with Home(folder) as home:
        for name, content in files.items():
            path = home.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode())
        session, _ = await first_turn(
            home.session(ScriptedProvider.from_replies(calls(*wanted), {"text": "done"}, context_window=10**6))
        )
        return [
            (numbered.call, numbered.output, outcome_with_ref(numbered), await home.archive().read(numbered.ref))
            for numbered in numbered_outputs(session.history)
        ]


@settings(max_examples=thorough(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(FILES, st.data())
def test_the_figures_in_a_line_are_those_of_the_output(
    tmp_path_factory: pytest.TempPathFactory, files: Mapping[str, str], data: st.DataObject
) -> None:
    wanted = draw_calls(data, files)
    found = asyncio.run(outputs_in_session(tmp_path_factory.mktemp("home"), files, wanted))
    assert len(found) == len(wanted)
    for one in found:
        CHECKS[one[0].name](one, files)
