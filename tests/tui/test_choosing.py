"""The command palette, the help and the list of models: what is found is done, and what it costs is told before."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from ebbtide.agent.budget.prices import Prices
from ebbtide.agent.errors import UsageError
from ebbtide.agent.input.memory import append_memory, list_memory_files
from ebbtide.agent.providers.choices import ModelChoice
from ebbtide.tui.command_topics import EVERYDAY_TASKS, OTHER_TOPIC, TOPICS
from ebbtide.tui.commands.help import build_palette_rows, help_rows
from ebbtide.tui.commands.models import model_details, model_line, plain_model_line, switch_cost_text
from ebbtide.tui.keys import KEYS, KeyBinding
from ebbtide.tui.slash_commands import COMMANDS, Invocation, SlashCommand, parse_command
from ebbtide.tui.text.spans import strip_backticks
from ebbtide.tui.view.panel import row_line
from tests.kit.app_pilot import Terminal, terminal
from tests.kit.fake_sessions import FakeSession, FakeSessions, conversation, measured, session_info
from tests.kit.plain_lines import plain
from tests.kit.user_settings import Setup

KNOWN = ModelChoice("a/b", 200_000, Prices(3.0, 15.0, 0.3, 3.75), True, True, False, True, "A_KEY")


def test_a_model_is_told_in_words() -> None:
    line = "window 200k; in 3.00, out 15.00, cache read 0.30; supports tools, images"
    assert plain_model_line(KNOWN, "a/b") == f"a/b (in use); {line}"
    assert plain_model_line(replace(KNOWN, has_key=False), "") == f"a/b; {line}; no key"
    assert plain_model_line(ModelChoice("a/c\x1b[2J"), "a/b") == "a/c␛[2J"


# Help


def test_every_key_and_every_command_is_in_the_help() -> None:
    lines = [plain(row_line(entry, 100)) for entry in help_rows(KEYS, COMMANDS)]
    for key in KEYS:
        assert any(strip_backticks(key.help) in line for line in lines), key
    for command in COMMANDS:
        assert any(strip_backticks(command.help) in line for line in lines), command
    assert sum(entry.is_heading for entry in help_rows(KEYS, COMMANDS)) <= len(TOPICS) + 2


def test_what_nobody_has_sorted_comes_last() -> None:
    entries = help_rows(
        [KeyBinding("", "F9", "", "fly")], [SlashCommand("dance", "", "dance"), SlashCommand("quit", "", "leave")]
    )
    assert [entry.value for entry in entries][-5:] == ["", "/quit", "", "F9", "/dance"]
    assert [plain(row_line(entry, 100)) for entry in entries if entry.is_heading] == [
        "Everyday",
        "Settings",
        OTHER_TOPIC,
    ]


def test_what_people_do_most_names_commands_and_keys_that_exist() -> None:
    labels = {label.strip() for key in KEYS for label in key.label.split(",")}
    for name, _ in EVERYDAY_TASKS:
        assert name in labels or isinstance(parse_command(name), Invocation), name


async def test_a_command_is_found_in_the_help_and_written_into_the_prompt() -> None:
    async with terminal(FakeSession()) as t:
        await t.press("f1", lists="help")
        await t.press(*"summarise", "enter", until=lambda: t.prompt.text == "/compact ")


# The palette


async def test_what_is_found_in_the_palette_is_done() -> None:
    async with terminal(FakeSession(), infos=[session_info("s7", "mend the parser")]) as t:
        await t.press("ctrl+p", lists="commands")
        await t.press(*"high-con", "enter", until=lambda: t.app.theme == "ebb-high-contrast")
        await t.press("ctrl+p", lists="commands")
        await t.press(*"mend", "enter", until=lambda: t.sessions.opened[-1] == ("s7", None))


async def test_a_command_that_needs_words_is_written_into_the_prompt() -> None:
    async with terminal(FakeSession()) as t:
        await t.press("ctrl+p", lists="commands")
        await t.press(*"/why", "enter", until=lambda: t.prompt.text == "/why ")


async def test_a_key_is_as_good_as_pressed() -> None:
    async with terminal(FakeSession()) as t:
        await t.press("ctrl+p", lists="commands")
        await t.pilot.press(*next(key.help for key in KEYS if key.action == "main.focus_transcript"), "enter")
        await t.until(lambda: t.transcript.has_focus)


def test_the_palette_holds_everything() -> None:
    entries = build_palette_rows(COMMANDS, KEYS, [session_info("s7", "\x1b[2Jtitle")], ["a/b"], 60.0)
    values = [entry.value for entry in entries]
    assert {f"/{command.name}" for command in COMMANDS} <= set(values)
    assert {"/resume s7", "/model a/b", "/theme ansi", "/settings agent.model", "action:main.find"} <= set(values)
    assert [plain(row_line(entry, 100)) for entry in entries if entry.is_heading] == [
        "Commands",
        "Keys",
        "Sessions",
        "Models",
        "Themes",
        "Settings",
    ]
    assert not any("\x1b" in plain(row_line(entry, 100)) for entry in entries)


# Models


def test_what_is_known_of_a_model_is_in_its_line() -> None:
    assert plain(model_line(KNOWN, True)) == f"● {'a/b':<28}    200k    3.00   15.00    0.30  tools, images"
    unknown = ModelChoice("x/y", has_key=False)
    assert plain(model_line(unknown, False)) == f"  {'x/y':<28}{'':32}    no key"


def test_what_a_switch_costs_is_told() -> None:
    message = "switching resends about 100k uncached tokens "
    assert switch_cost_text(KNOWN, 100_000) == message + "(≈ $0.38)"
    assert switch_cost_text(ModelChoice("x/y"), 100_000) == message + "(price unknown)"
    assert switch_cost_text(ModelChoice("x/y", prices=Prices(0, 0, 0, 0)), 100_000) == message + "(free)"
    assert "free" in switch_cost_text(KNOWN, 0)
    assert [plain(line) for line in model_details(KNOWN, "a/b", 9)] == [
        "supports tools, images",
        "$ per million tokens: in 3.00, out 15.00, cache read 0.30, cache write 3.75",
    ]


@asynccontextmanager
async def choosing(folder: Path, *sessions: FakeSession | UsageError) -> AsyncIterator[tuple[Terminal, FakeSessions]]:
    setup = Setup(folder, '[agent]\nmodel = "ollama/qwen3"\n', {"OPENAI_API_KEY": "x"})
    async with terminal(*sessions, size=(100, 30), settings=lambda: setup.settings) as t:
        yield t, t.sessions


async def test_the_price_of_a_switch_is_shown_before_it_is_done(tmp_path: Path) -> None:
    old = FakeSession([[measured()]], history=conversation(1))
    async with choosing(tmp_path, old) as (screen, opener):
        await screen.says("go on")
        await screen.type("/model openai/gpt-6-sol", lists="model")
        await screen.until(lambda: "uncached tokens (≈ $" in screen.reads("said"))
        assert len(opener.opened) == 1
        await screen.press("enter", until=lambda: opener.opened[-1] == ("abc123", "openai/gpt-6-sol"))


async def test_any_name_may_be_typed(tmp_path: Path) -> None:
    async with choosing(tmp_path, FakeSession()) as (screen, opener):
        await screen.type("/model", lists="model")
        await screen.press(*"ollama/my-own", "enter", until=lambda: opener.opened[-1] == (None, "ollama/my-own"))


async def test_models_without_a_key_say_which(tmp_path: Path) -> None:
    async with choosing(tmp_path, FakeSession()) as (screen, _):
        await screen.type("/model", lists="model")
        await screen.pilot.press(*"anthropic opus")
        await screen.until(lambda: "no API key: add one with `/key anthropic`" in screen.reads("said"))
        await screen.press("escape")


async def test_a_note_is_forgotten_with_a_key(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    own = list_memory_files(setup.settings.config)[1].path
    append_memory("use tabs", own)
    async with terminal(FakeSession(working_folder=setup.project), settings=lambda: setup.settings) as t:
        await t.press(*"/memory", "enter", lists="memory")
        await t.press("x", until=lambda: not own.exists())
