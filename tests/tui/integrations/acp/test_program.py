"""`ebb acp` as an editor starts it: a process of its own."""

import pytest
from acp import spawn_agent_process

from tests.kit.commands import ROOT, command, environment
from tests.kit.editor import Editor, said
from tests.kit.fake_provider import Call, FakeProvider, Turn
from tests.kit.user import User


async def test_a_session_over_the_pipes_of_a_process(user: User) -> None:
    (user.project / "a.txt").write_text("one\n")
    edit = Call("edit", {"path": "a.txt", "old": "one", "new": "uno"})
    editor = Editor()
    with FakeProvider([Turn(text="I edit.", calls=(edit,)), Turn(text="Done.")]) as server:
        env = environment(user.home, {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "k"})
        words = command("acp", "-m", "anthropic/claude-haiku-5-5")
        async with spawn_agent_process(editor, *words, env=env, cwd=ROOT) as (agent, process):  # type: ignore[arg-type]  # it has no terminals
            await agent.initialize(1)
            new = await agent.new_session(cwd=str(user.project), mcp_servers=[])
            assert await said(agent, new.session_id) == "end_turn"
        assert process.returncode == 0
    assert (editor.said, editor.asked) == ("I edit.Done.", ["Change a.txt?  +1 −1"])
    assert (user.project / "a.txt").read_text() == "uno\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "ebb: `ebb acp` needs pipes to an editor on stdin and stdout; see docs/editors.md\n"),
        (("hello",), "ebb: `ebb acp` accepts only settings; prompts and sessions come from the editor\n"),
    ],
)
def test_somebody_who_is_no_editor_is_told_so(user: User, words: tuple[str, ...], message: str) -> None:
    run = user.ebb("acp", *words)
    assert (run.code, run.out, run.err) == (2, "", message)
