"""Sessions for an editor, from its requests to what is on the disk, over real pipes."""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from acp import RequestError, embedded_text_resource, resource_block, resource_link_block, text_block
from acp.schema import EnvVariable, McpServerStdio, PermissionOption

from ebbtide.tui.integrations.line_transport import MAX_MESSAGE_BYTES
from tests.kit.editor import Editor, Pick, connected, said, served
from tests.kit.fake_provider import Call, FakeProvider, Turn
from tests.kit.files import write_file
from tests.kit.project import Project
from tests.kit.search_frames import answer, openai_stream, searches
from tests.kit.session import bash, call, calls

EDIT = call("edit", path="a.txt", old="one", new="uno")
TODO = call("todo", items=[{"text": "mend it", "status": "doing"}, {"text": "test it", "status": "pending"}])


def kind(wanted: str) -> Pick:
    """Picks the first option of a kind."""

    def pick(options: Sequence[PermissionOption]) -> str | None:
        return next((option.option_id for option in options if option.kind == wanted), "")

    return pick


@pytest.fixture
def text(project: Project) -> str:
    (project.root / "a.txt").write_text("one\ntwo\n")
    return str(project.root / "a.txt")


async def test_a_turn_is_told_and_told_again_when_the_session_is_loaded(project: Project, text: str) -> None:
    editor, root = Editor(), str(project.root)
    replies = ({"text": "I look.", "calls": [TODO, call("read", path="a.txt")]}, calls(EDIT), {"text": "Done."})
    async with connected(project, editor, *replies) as agent:
        new = await agent.new_session(cwd=root, mcp_servers=[])
        assert await said(agent, new.session_id, "mend a.txt") == "end_turn"
        listed = await agent.list_sessions(cwd=root)
    assert editor.asked == ["Change a.txt?  +1 −1"]
    assert (project.root / "a.txt").read_text() == "uno\ntwo\n"
    plan = {
        "sessionUpdate": "plan",
        "entries": [
            {"content": "mend it", "priority": "medium", "status": "in_progress"},
            {"content": "test it", "priority": "medium", "status": "pending"},
        ],
    }
    content = [{"type": "content", "content": {"type": "text", "text": "```\n1\tone\n2\ttwo\n```"}}]
    read = [
        {
            "sessionUpdate": "tool_call",
            "toolCallId": "call-2-2",
            "title": "read  a.txt",
            "kind": "read",
            "status": "in_progress",
            "rawInput": {"path": "a.txt"},
            "locations": [{"path": text}],
        },
        {"sessionUpdate": "tool_call_update", "toolCallId": "call-2-2", "status": "completed", "content": content},
    ]
    change = [{"type": "diff", "path": text, "oldText": "one\ntwo\n", "newText": "uno\ntwo\n"}]
    updates = editor.told("tool_call", "tool_call_update", "plan")
    assert updates[:3] == [plan, *read]
    assert [(one["toolCallId"], one.get("status"), one.get("content")) for one in updates[3:]] == [
        ("call-3-3", "in_progress", None),
        ("call-3-3", "completed", change),
    ]
    assert editor.said == "I look.Done."
    assert [(one.session_id, one.cwd, one.title) for one in listed.sessions] == [(new.session_id, root, "mend a.txt")]

    again = Editor()
    async with connected(project, again, {"text": "Yes."}) as agent:
        await agent.load_session(cwd=root, session_id=new.session_id, mcp_servers=[])
        assert again.told("tool_call", "tool_call_update", "plan")[:3] == [plan, *read]
        assert [one["content"]["text"] for one in again.told("user_message_chunk")] == ["mend a.txt"]
        assert again.said == "I look.Done."
        forked = await agent.fork_session(cwd=root, session_id=new.session_id, mcp_servers=[])
        assert await said(agent, forked.session_id) == "end_turn"
        assert await said(agent, new.session_id) == "end_turn"
    assert forked.session_id != new.session_id


@pytest.mark.parametrize("pick", [lambda options: None, lambda options: "yes", kind("reject_once")])
async def test_nothing_but_an_option_that_was_offered_allows_a_call(project: Project, text: str, pick: Pick) -> None:
    editor = Editor(pick)
    async with connected(project, editor, calls(EDIT), {"text": "So be it."}) as agent:
        new = await agent.new_session(cwd=str(project.root), mcp_servers=[])
        assert await said(agent, new.session_id) == "end_turn"
    assert [one["status"] for one in editor.told("tool_call_update")] == ["failed"]
    assert (project.root / "a.txt").read_text() == "one\ntwo\n"


async def test_a_rule_that_is_picked_answers_later_calls(project: Project, text: str) -> None:
    editor = Editor(kind("allow_always"))
    back = call("edit", path="a.txt", old="uno", new="one")
    async with connected(project, editor, calls(EDIT), calls(back), {"text": "Done."}) as agent:
        new = await agent.new_session(cwd=str(project.root), mcp_servers=[])
        await said(agent, new.session_id)
    assert len(editor.asked) == 1
    assert (project.root / "a.txt").read_text() == "one\ntwo\n"


@pytest.mark.parametrize("pick", [lambda options: None, kind("allow_always")])
async def test_what_a_project_brings_is_not_trusted_unless_somebody_says_so(project: Project, pick: Pick) -> None:
    write_file(project.root / ".ebb" / "commands" / "hello.md", "Say hello.")
    editor = Editor(pick)
    async with connected(project, editor, {"text": "Hi."}) as agent:
        new = await agent.new_session(cwd=str(project.root), mcp_servers=[])
        assert await said(agent, new.session_id) == "end_turn"
    assert [one.split(" in ")[0] for one in editor.asked] == ["This project has the command `hello`"]
    names = [
        [one["name"] for one in update["availableCommands"]] for update in editor.told("available_commands_update")
    ]
    own = ["context", "compact", "review", "init"]
    assert names == ([own] if pick([]) is None else [own, [*own, "hello"]])


async def test_a_question_in_words_is_put_as_a_form(project: Project) -> None:
    ask = calls(call("ask_user", question="Which name?"), call("ask_user", question="Colour?", options=["red", "blue"]))
    answers: list[str] = []
    for filled in ({"answer": "Ada", "choice": "green"}, None):
        editor = Editor()
        editor.filled = filled
        async with connected(project, editor, ask, {"text": "Thanks."}) as agent:
            new = await agent.new_session(cwd=str(project.root), mcp_servers=[])
            await said(agent, new.session_id)
        answers += [one["content"][0]["content"]["text"] for one in editor.told("tool_call_update")]
    in_words = (
        "```\n(the question was not shown: the editor supports only multiple choice; ask in your answer instead)\n```"
    )
    assert answers == ["```\nAda\n```", "```\nAda\n```", in_words, "```\nred\n```"]


async def test_an_editor_that_goes_at_a_question_is_asked_again_when_the_session_goes_on(
    project: Project, text: str
) -> None:
    gone, root = Editor(), str(project.root)
    model = f"scripted/{project.script(calls(EDIT), {'text': 'Done.'})}"
    async with served(project, model=model) as transport:
        await transport.send({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}})
        await transport.receive()
        await transport.send(
            {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": root, "mcpServers": []}}
        )
        session = ""
        words = {"type": "text", "text": "go"}
        while (message := await transport.receive()) is not None:
            if message.get("id") == 1:
                session = message["result"]["sessionId"]
                asked = {"sessionId": session, "prompt": [words]}
                await transport.send({"jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": asked})
            if message.get("method") == "session/request_permission":
                break
    assert (project.root / "a.txt").read_text() == "one\ntwo\n"
    async with connected(project, gone, {"text": "Done."}, {"text": "More."}) as agent:
        await agent.load_session(cwd=root, session_id=session, mcp_servers=[])
        assert await said(agent, session, "go on") == "end_turn"
    assert gone.asked == ["Change a.txt?  +1 −1"]
    assert (project.root / "a.txt").read_text() == "uno\ntwo\n"


async def test_a_prompt_is_cancelled_while_a_command_runs_and_so_is_what_waits(project: Project) -> None:
    editor = Editor()
    sleep = calls(bash("echo begun; sleep 60"))
    async with connected(project, editor, sleep, permission_mode="auto") as agent:
        new = await agent.new_session(cwd=str(project.root), mcp_servers=[])
        turn = asyncio.create_task(said(agent, new.session_id))
        await editor.until_told("tool_call_update", "\\nbegun\\n")
        await agent.cancel(session_id=new.session_id)
        assert await turn == "cancelled"
        assert [one["status"] for one in editor.told("tool_call_update") if "status" in one] == ["failed"]


async def test_the_request_of_a_prompt_is_cancelled_by_its_id(project: Project) -> None:
    model = f"scripted/{project.script(calls(bash('echo begun; sleep 60')))}"

    async def receive(is_it: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        while (message := await transport.receive()) is not None:
            if is_it(message):
                return message
        raise AssertionError("it ended")

    async def answer(id: int) -> dict[str, Any]:
        return await receive(lambda message: message.get("id") == id)

    async with served(project, model=model, permission_mode="auto") as transport:

        async def send(method: str, params: dict[str, object], **id: int) -> None:
            await transport.send({"jsonrpc": "2.0", **id, "method": method, "params": params})

        await send("session/new", {"cwd": str(project.root), "mcpServers": []}, id=1)
        session = (await answer(1))["result"]["sessionId"]
        await send("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]}, id=2)
        await receive(lambda message: "\\nbegun\\n" in str(message))
        await send("$/progress", {"token": 1})
        await send("$/cancel_request", {"requestId": 77})
        await send("session/list", {}, id=3)
        assert "result" in await answer(3)
        await send("$/cancel_request", {"requestId": 2})
        assert (await answer(2))["result"]["stopReason"] == "cancelled"


async def test_a_prompt_during_a_prompt_is_heard_in_the_next_step(project: Project) -> None:
    editor, root = Editor(), str(project.root)
    wait = calls(bash(f"until [ -e {root}/go ]; do sleep 0.01; done"))
    more = calls(bash("true"))
    async with connected(project, editor, wait, more, {"text": "Both."}, permission_mode="auto") as agent:
        new = await agent.new_session(cwd=root, mcp_servers=[])
        first_turn = asyncio.create_task(said(agent, new.session_id, "one"))
        await editor.until_told("tool_call", "until")
        second = asyncio.create_task(said(agent, new.session_id, "two"))
        await agent.set_session_mode(session_id=new.session_id, mode_id="ask")  # answered behind the prompt before it
        (project.root / "go").touch()
        assert [await first_turn, await second] == ["end_turn"] * 2
        assert editor.said == "Both."
    again = Editor()
    async with connected(project, again, {"text": ""}) as agent:
        await agent.load_session(cwd=root, session_id=new.session_id, mcp_servers=[])
    assert [one["content"]["text"] for one in again.told("user_message_chunk")] == ["one", "two"]


async def test_two_sessions_run_at_once_and_choices_hold_for_one(project: Project) -> None:
    editor, root = Editor(), str(project.root)
    other = f"scripted/{project.script({'text': 'Other.'}, name='other')}"
    async with connected(project, editor, {"text": "Hi."}) as agent:
        one, two = [await agent.new_session(cwd=root, mcp_servers=[]) for _ in range(2)]
        await agent.set_session_mode(session_id=one.session_id, mode_id="plan")
        for option, value in (("model", other), ("thought_level", "high")):
            await agent.set_config_option(session_id=one.session_id, config_id=option, value=value)
        ends = await asyncio.gather(said(agent, one.session_id), said(agent, two.session_id))
        assert [*ends] == ["end_turn"] * 2
        assert sorted(part["content"]["text"] for part in editor.told("agent_message_chunk")) == ["Hi.", "Other."]
        chosen = editor.told("config_option_update")[-1]["configOptions"]
        assert [option["currentValue"] for option in chosen] == ["plan", other, "high"]
        listed = {info.session_id for info in (await agent.list_sessions()).sessions}
        assert listed == {one.session_id, two.session_id}
        with pytest.raises(RequestError, match="unknown mode `yolo`"):
            await agent.set_session_mode(session_id=one.session_id, mode_id="yolo")


async def test_files_come_by_name_or_with_their_text_and_servers_from_the_editor(project: Project, text: str) -> None:
    editor, root = Editor(), str(project.root)
    server = McpServerStdio(name="notes", command="notes", args=[], env=[EnvVariable(name="K", value="${NOT_SET}")])
    blocks: list[Any] = [
        text_block("Look at"),
        resource_link_block("a.txt", f"file://{text}#L2"),
        resource_block(embedded_text_resource(f"file://{root}/b.txt", "unsaved")),
    ]
    async with connected(project, editor, {"text": "Seen."}) as agent:
        new = await agent.new_session(cwd=root, mcp_servers=[server])
        await agent.prompt(session_id=new.session_id, prompt=blocks)
        await editor.until_told("agent_thought_chunk", "the server `notes` of `the editor` was skipped")
    await editor.until_told("agent_thought_chunk", "attached `@a.txt:2` (1 line")
    again = Editor()
    async with connected(project, again, {"text": ""}) as agent:
        await agent.load_session(cwd=root, session_id=new.session_id, mcp_servers=[])
    assert again.told("user_message_chunk")[0]["content"]["text"] == "Look at @a.txt:2 `b.txt`"


async def test_what_is_no_message_is_answered_and_does_no_harm(project: Project) -> None:
    hello = {"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": {"protocolVersion": 1}}
    large = json.dumps({"jsonrpc": "2.0", "id": 6, "method": "x", "params": "x" * MAX_MESSAGE_BYTES})
    lines = ('{"jsonrpc":', "[]", '{"id": {}, "result": 1}', '{"id": 1, "error": "x"}', '{"method": 3}', large)
    answers: list[tuple[object, object]] = []
    async with served(project, model="scripted/none.json") as transport:
        for line in (*lines, '{"id": 99, "result": 1}', json.dumps(hello)):
            transport._writer.write(line.encode() + b"\n")
        while (message := await transport.receive()) is not None:
            answers.append((message["id"], message.get("error", {}).get("code")))
            if message["id"] == 7:
                break
    assert answers == [(None, -32700), *[(None, -32600)] * 4, (6, -32600), (7, None)]


async def test_no_update_is_lost(project: Project) -> None:
    editor, words = Editor(), " ".join(f"word{number}" for number in range(2_000))
    async with connected(project, editor, {"text": words}) as agent:
        new = await agent.new_session(cwd=str(project.root), mcp_servers=[])
        await said(agent, new.session_id)
    assert len(editor.told("agent_message_chunk")) == 2_000
    assert editor.said == words


async def test_a_session_is_deleted_also_while_it_is_open(project: Project) -> None:
    async with connected(project, Editor(), {"text": "Yes."}) as agent:
        begun = (await agent.initialize(1)).model_dump()
        assert begun["agent_capabilities"]["session_capabilities"]["delete"] is not None
        first, second = [await agent.new_session(cwd=str(project.root), mcp_servers=[]) for _ in range(2)]
        for each in (first, second):
            await said(agent, each.session_id)
        await agent.close_session(session_id=first.session_id)
        for each in (first, second, second):  # of one that is gone nothing is left to delete
            assert await agent._conn.send_request("session/delete", {"sessionId": each.session_id}) == {}
        assert (await agent.list_sessions()).sessions == []
        third = await agent.new_session(cwd=str(project.root), mcp_servers=[])
        assert await said(agent, third.session_id) == "end_turn"


@pytest.mark.parametrize("key", ["", "k"])
async def test_an_editor_that_logs_in_is_told_whether_there_is_a_key(
    project: Project, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {**project.environment, "ANTHROPIC_API_KEY": key}
    monkeypatch.setattr(project, "environment", environment)
    async with served(project, model="anthropic/claude-haiku-5-5") as transport:
        await transport.send({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}})
        begun = await transport.receive()
        await transport.send({"jsonrpc": "2.0", "id": 2, "method": "authenticate", "params": {"methodId": "key"}})
        answer = await transport.receive()
    assert begun is not None
    assert answer is not None
    assert [method["id"] for method in begun["result"]["authMethods"]] == ([] if key else ["key"])
    assert (answer.get("error") or {}).get("code") == (None if key else -32000)


async def test_an_answer_ends_with_its_sources_also_when_the_session_is_loaded(project: Project) -> None:
    frame = {
        "choices": [{"index": 0, "delta": {"content": "It is [2]."}, "finish_reason": "stop"}],
        "citations": [None, "https://example.org/notes"],
    }
    editor, again = Editor(), Editor()
    with FakeProvider([Turn(raw=f"data: {json.dumps(frame)}\n\ndata: [DONE]\n\n")]) as server:
        project.environment |= server.environment
        async with connected(project, editor, **{"agent.model": "openai-chat/sonar"}) as agent:
            new = await agent.new_session(cwd=str(project.root), mcp_servers=[])
            assert await said(agent, new.session_id) == "end_turn"
        async with connected(project, again, **{"agent.model": "openai-chat/sonar"}) as agent:
            await agent.load_session(cwd=str(project.root), session_id=new.session_id, mcp_servers=[])
    assert editor.said == again.said == "It is [2].\n\nSources:  \n[2] https://example.org/notes\n\n"
    assert not any("Sources" in update["content"]["text"] for update in editor.told("agent_thought_chunk"))


async def test_a_search_of_the_web_is_asked_about_and_shown_as_a_search(project: Project) -> None:
    editor = Editor()
    search = Turn(raw=openai_stream([searches("ws_1", "new in 4.0"), answer("It is fast.")]))
    turns = [Turn(calls=(Call("web_search", {"query": "new in 4.0"}),)), search, Turn(text="Done.")]
    with FakeProvider(turns) as server:
        project.environment |= server.environment
        flags = {"agent.model": "openai/gpt-6-sol", "web.search": "provider"}
        async with connected(project, editor, **flags) as agent:
            new = await agent.new_session(cwd=str(project.root), mcp_servers=[])
            assert await said(agent, new.session_id) == "end_turn"
    assert (len(server.requests), len(editor.asked)) == (3, 1)
    assert editor.shown[0].startswith("```\nquery: new in 4.0\n```\n")
    start, *_, end = editor.told("tool_call", "tool_call_update")
    assert (start["kind"], end["status"]) == ("search", "completed")
    assert "It is fast." in end["content"][0]["content"]["text"]
    assert editor.said == "Done."


async def test_commands_of_ours_are_offered_and_run(project: Project) -> None:
    editor = Editor()
    async with connected(project, editor, {"text": "Reviewed."}) as agent:
        new = await agent.new_session(cwd=str(project.root), mcp_servers=[])
        await said(agent, new.session_id, "/review a.txt")
        await said(agent, new.session_id, "/context")
    named = editor.told("available_commands_update")[0]["availableCommands"]
    assert [command["name"] for command in named] == ["context", "compact", "review", "init"]
    assert editor.said.startswith("Reviewed.```\nContext")


@pytest.mark.parametrize(
    ("method", "params", "message"),
    [
        ("session/new", {"cwd": "here", "mcpServers": []}, "the working folder `here` must be an absolute path"),
        ("session/load", {"cwd": "/", "sessionId": "abcd", "mcpServers": []}, "there is no session `abcd`"),
        ("session/prompt", {"sessionId": "abcd", "prompt": []}, "the session `abcd` is not open"),
        ("session/set_config_option", {"sessionId": "a", "configId": "x", "value": "y"}, "the session `a` is not open"),
        ("authenticate", {"methodId": "x"}, "unknown method `x`; use `key`"),
        ("session/delete", {"sessionId": 3}, "Invalid params"),
        ("session/wish", {}, "Method not found"),
        ("session/new", {"cwd": 3}, "Invalid params"),
    ],
)
async def test_a_request_that_cannot_be_is_one_sentence(
    project: Project, method: str, params: dict[str, object], message: str
) -> None:
    async with served(project, model="scripted/none.json") as transport:
        await transport.send({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        answer = await transport.receive()
    assert answer is not None
    assert answer["error"]["message"].startswith(message)
    assert answer["error"]["code"] == (-32601 if method == "session/wish" else -32602)


async def test_what_is_not_saved_is_saved_before_a_call_looks_at_it(project: Project, text: str) -> None:
    editor, root = Editor(), str(project.root)
    edit = call("edit", path="a.txt", old="two", new="zwei")
    looks = calls(call("read", path="a.txt"))
    editor.unsaved = {text: "one\ntwo\nthree"}
    async with connected(project, editor, looks, {"text": "Planned."}, permission_mode="plan") as agent:
        planned = await agent.new_session(cwd=root, mcp_servers=[])
        await said(agent, planned.session_id)
    assert (project.root / "a.txt").read_text() == "one\ntwo\n"
    async with connected(project, editor, looks, calls(edit), {"text": "Done."}) as agent:
        new = await agent.new_session(cwd=root, mcp_servers=[])
        await said(agent, new.session_id)
    assert editor.unsaved == {}
    assert (project.root / "a.txt").read_text() == "one\nzwei\nthree\n"


async def test_commands_are_shown_in_a_terminal_where_the_editor_has_one(project: Project) -> None:
    editor, root = Editor(), str(project.root)
    editor.has_terminals = True
    async with connected(
        project, editor, calls(bash("echo hi; exit 3")), {"text": "No."}, permission_mode="auto"
    ) as agent:
        new = await agent.new_session(cwd=root, mcp_servers=[])
        await said(agent, new.session_id)
    updates = editor.told("tool_call", "tool_call_update")
    assert [one.get("content") for one in (updates[0], updates[-1])] == [
        [{"type": "terminal", "terminalId": "call-1-1"}]
    ] * 2
    notes = [one["_meta"] for one in updates]
    assert notes[0] == {"terminal_info": {"terminal_id": "call-1-1", "cwd": root}}
    assert "".join(note["terminal_output"]["data"] for note in notes if "terminal_output" in note).startswith("hi\n")
    assert notes[-1]["terminal_exit"]["exit_code"] == 3
