"""Whatever is looked for, by a model or a user, is answered: nothing that is written is a mistake in the language of
the index, and no regular expression runs for ever."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from ebbtide.agent.archive.recall import create_fetch_function, create_search_function
from ebbtide.tools.base import Arguments, Tool, ToolError, Workspace
from ebbtide.tools.outputs.recall_results import RECALLED_KINDS, RecalledItem, RecallQuery, RecallResult
from ebbtide.tools.outputs.recall_scope import RECALL_SCOPES
from ebbtide.tools.recall import Recall
from ebbtide.tools.search import output_search
from ebbtide.tools.tool_output_cache import ToolOutputCacheGrep
from ebbtide.tui.cli.search import result_lines
from tests.kit.archived_sessions import HERE, Sessions
from tests.store.test_search import HOSTILE

QUERIES = 1_000
ASKED_TEXTS = ("please mend the parser", "a plain text with words and 測試", *HOSTILE[::4])
TIMES = ("", "1h", "2 days ago", "999999w", "0001-01-01", "9999-12-31 23:59", "yesterday", "-5", "\0")
REFS = (
    "r1", "r9", "msg-0", "sum-1", "ebb://one/aaaa/r1", "ebb://%00/../r1", "nexora://_/current/r1:L1-2", "\0", "r1:B9-1",
)  # fmt: skip
BLOWS_UP = r"(x+)+\1y"
"""With a back reference, so that no engine of linear time takes it."""


@pytest.fixture
async def sessions(sessions: Sessions) -> Sessions:
    for text in ASKED_TEXTS:
        await sessions.says(text)
        await sessions.runs("bash", f"printed {text}", command=text.replace("\0", " "), path="src/a.py")
    await sessions.compacts("a summary of the grammar work", keep=20)
    return sessions


def workspace_of(sessions: Sessions, folder: Path) -> Workspace:
    recall = sessions.recall("all")
    fetch = create_fetch_function(recall)
    return Workspace(
        folder,
        folder,
        get_stored_content=lambda ref: fetch(ref, None),
        fetch_stored_content=fetch,
        search_history=create_search_function(recall),
    )


def queries() -> list[str]:
    """Signs of the index's language and words, strung together with and without blanks; the same ones every time."""
    rng = random.Random(11)
    words = [*HOSTILE, "parser", "plain", "測試", '"the parser"']
    made = [rng.choice(["", " ", " AND ", '"']).join(rng.choices(words, k=rng.randint(1, 9))) for _ in range(QUERIES)]
    return [*ASKED_TEXTS, *made]


async def test_no_query_of_a_model_or_a_user_is_a_mistake(sessions: Sessions, tmp_path: Path) -> None:
    rng, workspace, found = random.Random(12), workspace_of(sessions, tmp_path), list[RecalledItem]()

    async def looked_up(asked: RecallQuery) -> RecallResult:
        memory = await workspace.search_history(asked)
        found.extend(memory.items)
        return memory

    for query in queries():
        filters: dict[str, object] = {"tool": query[:5], "path": query[:9], "since": rng.choice(TIMES)}
        filters |= {
            "kind": rng.choice(RECALLED_KINDS),
            "scope": rng.choice(RECALL_SCOPES),
            "max_tokens": rng.choice([1, 50, 10**9]),
        }
        given = {name: value for name, value in filters.items() if rng.random() < 0.3}
        answer = await answer_of(Recall(), {"query": query, **given}, replace(workspace, search_history=looked_up))
        assert answer or "since" in given
    assert len(found) > QUERIES
    assert all(result_lines(one) for one in found)


async def answer_of(tool: Tool, arguments: Arguments, workspace: Workspace) -> str:
    """What a model is told, or nothing where the call was a mistake."""
    try:
        return (await tool.run(arguments, workspace)).text
    except ToolError:
        return ""


async def test_wherever_a_text_is_asked_for_there_is_an_answer(sessions: Sessions) -> None:
    recall, view = sessions.recall(), sessions.views[HERE]
    texts = [message.text for message in view.messages if message.text.strip()]
    for query in queries():
        await recall.locate_text(query, view)
    for text in texts:
        assert (await recall.locate_text(text, view)).occurrences


async def test_no_reference_is_a_mistake(sessions: Sessions, tmp_path: Path) -> None:
    rng, workspace, found = random.Random(13), workspace_of(sessions, tmp_path), 0
    for _ in range(300):
        ref = "".join(rng.choices([*REFS, *HOSTILE, ":", "/", "1"], k=rng.randint(1, 4)))
        for wanted in (ref, rng.choice(REFS)):
            found += bool(await answer_of(Recall(), {"ref_id": wanted}, workspace))
    assert found


@pytest.mark.parametrize("tool", [Recall(), ToolOutputCacheGrep()])
async def test_a_pattern_that_blows_up_is_ended(
    sessions: Sessions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Recall | ToolOutputCacheGrep
) -> None:
    monkeypatch.setattr(output_search, "SEARCH_TIMEOUT_S", 0.5)
    await sessions.runs("bash", "a part", whole=b"x" * 4_000 + b"z\n", command="make")
    number = len(ASKED_TEXTS) + 1
    result = await tool.run(
        {"ref_id": f"r{number}", "search": BLOWS_UP, "pattern": BLOWS_UP}, workspace_of(sessions, tmp_path)
    )
    argument = "search" if isinstance(tool, Recall) else "pattern"
    assert f"so lines may be missing: use a simpler `{argument}`" in result.text
    with pytest.raises(ToolError, match="there is no `r99`"):
        await tool.run({"ref_id": "r99", "search": BLOWS_UP, "pattern": BLOWS_UP}, workspace_of(sessions, tmp_path))
