"""What is imported when: a headless run must not pay for what it does not use."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.commands import environment
from tests.kit.fake_provider import FakeProvider, Turn
from tests.kit.word_vectors import model_in

HEAVY = (
    "textual", "rich", "prompt_toolkit", "anthropic", "openai", "ollama", "tiktoken", "mcp", "pydantic", "httpx",
    "httpx2", "numpy", "model2vec", "acp",
)  # fmt: skip
SELDOM = (
    "ebbtide.agent.integrations.lsp.server_detection",
    "ebbtide.tools.integrations.lsp.pool",
    "ebbtide.agent.extensions.extension_folders",
    "ebbtide.agent.extensions.trust",
    "ebbtide.agent.extensions.session_extensions",
    "yaml",
    "ebbtide.agent.config.hook_tables",
    "ebbtide.agent.hooks.session_hooks",
    "ebbtide.tools.integrations.code_map.run",
    "tree_sitter_python",
    "ebbtide.agent.input.attach",
    "ebbtide.agent.integrations.imports.agent_folders",
    "ebbtide.agent.compaction.compact",
    "ebbtide.agent.compaction.plan",
    "ebbtide.agent.view.provenance",
    "ebbtide.agent.integrations.semantic_search.embeddings",
    "ebbtide.agent.hooks.tool_hooks",
    "ebbtide.agent.archive.indexer",
    "ebbtide.agent.integrations.semantic_search.embedding_index",
    "ebbtide.agent.window.overview",
    "ebbtide.agent.compaction.model_summary",
    "ebbtide.agent.compaction.room",
    "ebbtide.agent.compaction.strategies",
    "ebbtide.agent.integrations.mcp.running_servers",
    "ebbtide.agent.archive.locate",
    "ebbtide.store.queries",
    "ebbtide.store.search",
    "ebbtide.store.vectors",
    "ebbtide.tools.process.child",
    "ebbtide.agent.checkpoints.project",
    "ebbtide.store.checkpoints",
    "ebbtide.tools.edits.patch",
    "ebbtide.tools.search.files",
    "ebbtide.tools.search.output_search",
)
"""Parts of our own that a run needs only when something is looked up or looked at."""
BROUGHT = (
    "ebbtide.agent.extensions",
    "ebbtide.agent.hooks",
    "ebbtide.agent.integrations.imports",
    "ebbtide.agent.integrations.lsp",
    "ebbtide.agent.integrations.mcp",
    "ebbtide.agent.subagents",
    "ebbtide.tools.integrations.code_map",
    "ebbtide.tools.integrations.lsp",
    "ebbtide.tools.integrations.mcp",
    "tree_sitter",
    "yaml",
)
"""What works with things that users and projects bring, and agents that are sent off."""
SHOW = """
import json, sys
from ebbtide.tui.cli.main import main
code = main({!r})
ours = [name for name, module in sys.modules.items() if name.startswith("ebbtide.") and hasattr(module, "__path__")]
print(json.dumps([code, sorted(sys.modules.keys() - {{*ours}})]))
"""
"""Without our folders: they load their modules on first use."""
LAZY = """
import dataclasses, inspect, json, sys
from ebbtide.agent.events import session as events
from ebbtide.tui.cli.main import main
main({!r})
ours = [module for name, module in sys.modules.items() if name.startswith(("ebbtide.agent.", "ebbtide.tools."))]
eager = [one.__name__ for one in ours if getattr(one, "dataclass", None) is dataclasses.dataclass]
kinds = [one for one in vars(events).values() if getattr(one, "__module__", "") == "ebbtide.agent.events.session"]
print(json.dumps([eager, [one.__name__ for one in kinds if inspect.isfunction(vars(one).get("__init__"))]]))
"""


def modules_after(arguments: list[str], home: Path, url: str, typed: str = "") -> set[str]:
    """All that a run has imported by its end."""
    keys = {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}
    urls = {"ANTHROPIC_BASE_URL": url, "OPENAI_BASE_URL": f"{url}/v1", "OLLAMA_HOST": url}
    done = subprocess.run(
        [sys.executable, "-c", SHOW.format(arguments)],
        capture_output=True, text=True, env=environment(home, {**keys, **urls}), input=typed, check=True,
    )  # fmt: skip
    code, modules = json.loads(done.stdout.splitlines()[-1])
    assert code == 0
    return {*modules}


def loaded(arguments: list[str], home: Path, url: str) -> set[str]:
    """The heavy packages and the seldom used parts that a run has imported by its end."""
    return modules_after(arguments, home, url) & {*HEAVY, *SELDOM}


@pytest.mark.parametrize(
    ("model", "wire", "expected"),
    [
        ("anthropic/claude-haiku-5-5", "auto", set()),
        ("openai/gpt-6-sol", "auto", set()),
        ("openai-chat/x", "auto", set()),
        ("ollama/x", "auto", set()),
        ("anthropic/claude-haiku-5-5", "sdk", {"httpx2", "anthropic", "pydantic"}),
        ("openai/gpt-6-sol", "sdk", {"httpx2", "openai", "pydantic"}),
        ("openai-chat/x", "sdk", {"httpx2", "openai", "pydantic"}),
        # httpx, which the ollama SDK is built on, imports rich for a command line of its own when both are there.
        ("ollama/x", "sdk", {"httpx2", "httpx", "ollama", "pydantic", "rich"}),
    ],
)
def test_a_headless_run_imports_only_what_its_wire_needs(
    model: str, wire: str, expected: set[str], tmp_path: Path
) -> None:
    setting = f"providers.{model.split('/')[0]}.wire={wire}"
    with FakeProvider([Turn(text="hi")]) as server:
        found = loaded(["-p", "hi", "-m", model, "--config", setting], tmp_path, server.url)
    assert found == expected


@pytest.mark.parametrize("provider", ["anthropic", "openai", "openai-chat", "ollama"])
def test_a_conversation_waits_for_no_sdk(provider: str, tmp_path: Path) -> None:
    with FakeProvider([Turn(text="hi")]) as server:
        found = modules_after(["--plain", "-m", f"{provider}/x"], tmp_path, server.url, typed="hello\n")
        assert len(server.requests) == 1
    assert found & {"anthropic", "openai", "ollama"} == set()


def test_where_nobody_brings_anything_only_servers_for_languages_are_looked_for(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('{"reply": [{"text": "hi"}]}')
    (tmp_path / "project").mkdir()
    run = ["-p", "hi", "-m", f"scripted/{tmp_path / 's.json'}", "-C", str(tmp_path / "project")]
    found = {name for name in modules_after(run, tmp_path, "http://127.0.0.1:1") if name.startswith(BROUGHT)}
    assert found == {
        "ebbtide.agent.integrations.lsp.session_language_servers",
        "ebbtide.tools.integrations.code_map.repo_map",
        "ebbtide.tools.integrations.lsp.diagnostics_tool",
        "ebbtide.tools.integrations.lsp.spec",
        "ebbtide.tools.integrations.lsp.symbols_tool",
    }


def test_a_fallback_that_is_not_needed_is_not_imported(tmp_path: Path) -> None:
    chain = 'agent.fallback_models=["openai/gpt-6-sol", "ollama/x"]'
    wires = [f"providers.{name}.wire=sdk" for name in ("anthropic", "openai", "ollama")]
    flags = [flag for setting in (chain, *wires) for flag in ("--config", setting)]
    with FakeProvider([Turn(text="hi")]) as server:
        found = loaded(["-p", "hi", "-m", "anthropic/claude-haiku-5-5", *flags], tmp_path, server.url)
    assert found == {"httpx2", "anthropic", "pydantic"}


def test_a_scripted_run_imports_no_network(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('{"reply": [{"text": "hi"}]}')
    assert loaded(["-p", "hi", "-m", f"scripted/{tmp_path / 's.json'}"], tmp_path, "http://127.0.0.1:1") == set()


def test_a_run_writes_no_dataclass_for_a_few_events(tmp_path: Path) -> None:
    arguments = ["-p", "hi", "-m", "anthropic/claude-haiku-5-5"]
    with FakeProvider([Turn(text="hi")]) as server:
        env = environment(tmp_path, {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.url})
        done = subprocess.run(
            [sys.executable, "-c", LAZY.format(arguments)],
            capture_output=True, text=True, env=env, stdin=subprocess.DEVNULL, check=True,
        )  # fmt: skip
    eager, written = json.loads(done.stdout.splitlines()[-1])
    assert eager == [], "every run loads them: they should take `dataclass` from `ebbtide.tools.lazy`"
    assert written == []


def test_servers_are_loaded_only_where_one_is_declared(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('{"reply": [{"text": "hi"}]}')
    (tmp_path / "project").mkdir()
    run = ["-p", "hi", "-m", f"scripted/{tmp_path / 's.json'}", "-C", str(tmp_path / "project")]
    assert loaded(run, tmp_path, "http://127.0.0.1:1") == set()
    declared = {"mcpServers": {"forge": {"command": "/no/such/program"}}}
    (tmp_path / "project" / ".mcp.json").write_text(json.dumps(declared))
    assert loaded(run, tmp_path, "http://127.0.0.1:1") == {
        "ebbtide.agent.integrations.mcp.running_servers",
        "ebbtide.agent.extensions.extension_folders",
        "ebbtide.agent.extensions.trust",
    }
    started = ["--config", 'mcp.servers.forge.command="/no/such/program"']
    assert loaded([*run, *started], tmp_path, "http://127.0.0.1:1") >= {
        "ebbtide.agent.integrations.mcp.running_servers",
        "mcp",
    }


def test_a_model_of_meanings_is_loaded_by_the_first_search(tmp_path: Path) -> None:
    model = ["--config", f'recall.embedding_model="{model_in(tmp_path / "model")}"']
    script = tmp_path / "s.json"
    script.write_text('{"reply": [{"text": "hi"}]}')
    modules = loaded(["-p", "hi", "-m", f"scripted/{script}", *model], tmp_path, "http://127.0.0.1:1")
    assert modules == {"ebbtide.agent.integrations.semantic_search.embeddings"}
    ask = {"calls": [{"name": "recall", "arguments": {"query": "car"}}]}
    script.write_text(json.dumps({"reply": [ask, {"text": "hi"}]}))
    found = loaded(["-p", "hi", "-m", f"scripted/{script}", *model], tmp_path, "http://127.0.0.1:1")
    assert {
        "ebbtide.agent.integrations.semantic_search.embedding_index",
        "model2vec",
        "numpy",
        "ebbtide.store.vectors",
    } <= found
