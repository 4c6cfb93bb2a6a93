"""Whole processes with servers whose tools a provider refuses: one tool, or one too many, never ends a session."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.kit.commands import Run, ebb
from tests.kit.fake_provider import Call, FakeProvider, Turn
from tests.test_unseen import LOCAL, ROOTS
from tests.tools.integrations.mcp.conftest import raw


def run(provider: str, tmp_path: Path, server: FakeProvider, *way: str, settings: str = "") -> Run:
    home, project = tmp_path / "home", tmp_path / "project"
    (home / "config").mkdir(parents=True)
    (project / ".git").mkdir(parents=True)
    command, *arguments = raw(*way).command
    (home / "config" / "config.toml").write_text(
        f'[agent]\nmodel = "{provider}/m"\npermission_mode = "auto"\n{settings}'
        f'[providers.{provider}]\nbase_url = "{server.url}{ROOTS[provider]}"\n'
        f"[providers.{provider}.models.m]\ncontext_window = 400000\n"
        f"[mcp]\nwait = 20\n"
        f"[mcp.servers.raw]\ncommand = {json.dumps(command)}\nargs = {json.dumps(arguments)}\n"
    )
    keys = {"ANTHROPIC_API_KEY": "key", "OPENAI_API_KEY": "key"}
    return ebb("-p", "go", "--output-format", "json", "-C", str(project), home=home, env=keys)


def tools_of(body: Any) -> dict[str, Any]:
    """The definitions of a request, by name."""
    found = [tool.get("function", tool) for tool in body["tools"]]
    return {tool["name"]: tool for tool in found}


@pytest.mark.parametrize("provider", sorted(ROOTS))
def test_tools_that_no_api_takes_as_they_are_come_in_another_form_or_are_left_out_and_named(
    provider: str, tmp_path: Path
) -> None:
    turns = [Turn(calls=(Call("mcp__raw__listed", {"texts": ["a"]}),)), Turn(text="done")]
    with FakeProvider(turns, LOCAL if provider == "ollama" else None) as server:
        done = run(provider, tmp_path, server, "unlike others")
    assert (done.code, done.result["result"], server.refused) == (0, "done", [])
    sent = tools_of(server.requests[0].body)
    served = [name.removeprefix("mcp__raw__") for name in sent if name.startswith("mcp__raw__")]
    assert served == ["bare", "listed", "placed", "limited", "chosen", "named", "null"]
    assert "the server `raw`: `nonsense` is skipped: its schema is not valid" in done.err
    if provider != "ollama":
        chosen = sent["mcp__raw__chosen"]
        schema = chosen.get("input_schema") or chosen["parameters"]
        assert schema == {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    if provider == "openai-chat":
        text = sent["mcp__raw__listed"]["description"]
        sentence = "A sentence of forty characters, as it is."
        assert text.partition(" [… ")[0] == " ".join([sentence] * (text.count(sentence)))
        assert 900 < len(text) <= 1024


@pytest.mark.parametrize("provider", ["openai", "openai-chat"])
def test_of_more_tools_than_the_provider_takes_the_others_are_found_by_a_search(provider: str, tmp_path: Path) -> None:
    turns = [
        Turn(
            calls=(Call("tool_search" if provider == "openai-chat" else "search_tools", {"query": "mcp__raw__t199"}),)
        ),
        Turn(calls=(Call("call_tool", {"name": "mcp__raw__t199", "arguments": {"text": "a"}}),)),
        Turn(text="done"),
    ]
    with FakeProvider(turns) as server:
        done = run(provider, tmp_path, server, "many", "200")
    assert (done.code, done.result["result"], server.refused) == (0, "done", [])
    sent = tools_of(server.requests[0].body)
    assert len(sent) == 128
    assert {"mcp__raw__t0", "mcp__raw__t199"} & set(sent) == {"mcp__raw__t0"}
    assert done.err.count("tools exceed the 128 that the provider accepts in a request") == 1
    assert json.dumps(server.requests[1].body).count("mcp__raw__t199") == 2


def test_where_no_search_is_allowed_the_surplus_is_left_out_with_a_word(tmp_path: Path) -> None:
    settings = '[tools]\nallowed = ["read", "bash"]\n'
    with FakeProvider([Turn(text="done")]) as server:
        done = run("openai-chat", tmp_path, server, "many", "200", settings=settings)
    assert (done.code, done.result["result"], server.refused) == (0, "done", [])
    assert len(server.requests[0].body["tools"]) == 128
    assert "add `tool_search` and `call_tool` to `tools.allowed`" in done.err
    assert "tool_search" not in json.dumps(server.requests[0].body)  # the model is told of nothing that it has not
