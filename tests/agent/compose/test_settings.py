"""What a configuration makes of the parts of a session."""

from dataclasses import replace
from pathlib import Path

import pytest

from ebbtide.agent.budget.request_budget import Window
from ebbtide.agent.compose.session_tools import missing_tools, select_session_tools
from ebbtide.agent.compose.settings import (
    NO_SANDBOX_ERROR,
    additional_folders,
    build_compaction_settings,
    build_policy,
    build_turn_limits,
)
from ebbtide.agent.config.load import load_config
from ebbtide.agent.config.options import CONTEXT_STYLES, PERMISSION_MODES
from ebbtide.agent.errors import ConfigError
from ebbtide.agent.events.plan import PlanDecision, PlanSubmitted
from ebbtide.agent.events.session import Event
from ebbtide.agent.events.view import PrefixDrifted, PrefixRenewed
from ebbtide.agent.eviction.settings import (
    PATIENCE_BY_STYLE,
    CompactionCaps,
    CompactionSettings,
    RewritePatience,
    StyleChoice,
    SummaryPreferences,
)
from ebbtide.agent.integrations.lsp.session_language_servers import SessionLanguageServers
from ebbtide.agent.messages import Note, ToolOutput, User
from ebbtide.agent.prompt.reminder_notes import MODE_DESCRIPTIONS, PRESENCE_DESCRIPTIONS
from ebbtide.agent.providers.base import Request
from ebbtide.agent.providers.wires.scripted import ScriptedProvider
from ebbtide.agent.session import Session
from ebbtide.agent.window.turn_limits import TurnLimits
from ebbtide.tools.sandbox.system import NoSandbox, SandboxProgram
from tests.kit.mcp_project import McpProject, say
from tests.kit.project import Project
from tests.kit.session import events_of

ALL = (
    'agent.summary_prompt="what was done"',
    'agent.summary_directives=["name the tests"]',
    'agent.retain_prompt="ids"',
    'agent.retain_directives=["and paths"]',
    "agent.retain_last_turns=3",
    "agent.keep_last_n=10",
    "agent.protect_tokens=500",
)


def test_every_setting_of_a_compaction_reaches_it(tmp_path: Path) -> None:
    config = load_config(tmp_path, {"EBB_HOME": str(tmp_path)}, {}, ALL)
    caps = CompactionCaps(
        6000, 3600, 1200, 1800, protected_output_tokens=500, protected_message_count=10, max_tail_turns=3
    )
    wishes = SummaryPreferences("what was done", ("name the tests",), "ids", ("and paths",))
    assert build_compaction_settings(config, 100_000) == CompactionSettings(caps, wishes)
    assert config.notices == ()


def test_a_cache_is_kept_alive_only_where_somebody_thinks(tmp_path: Path) -> None:
    config = load_config(tmp_path, {"EBB_HOME": str(tmp_path)}, {}, ("agent.keep_alive=2", "agent.max_turns=9"))
    assert build_turn_limits(config, is_interactive=True) == TurnLimits(9, max_keep_alive_requests=2)
    assert build_turn_limits(config, is_interactive=False) == TurnLimits(9)
    usual = load_config(tmp_path, {"EBB_HOME": str(tmp_path)}, {})
    assert (usual.keep_alive, build_turn_limits(usual, is_interactive=True)) == ("off", TurnLimits())


def test_each_style_waits_longer_for_a_rewrite_than_the_one_before(tmp_path: Path) -> None:
    def patience(*settings: str, window: int = 100_000) -> RewritePatience:
        config = load_config(tmp_path, {"EBB_HOME": str(tmp_path)}, {}, settings)
        return StyleChoice(config.context_style).apply(build_compaction_settings(config, window), window).patience

    frugal, balanced, careful = (f'context.style="{style}"' for style in CONTEXT_STYLES)
    assert [patience(frugal), patience(balanced), patience(careful)] == list(PATIENCE_BY_STYLE.values())
    assert (patience(), patience(window=1_000_000)) == (patience(balanced), patience(careful))
    assert patience(balanced, window=1_000_000) == patience(balanced)
    assert patience(careful, "rewrite.kappa_mask=1", "rewrite.kappa_compact=4") == RewritePatience(4.0, 20.0, 15.0)
    former = [patience(f'rewrite.patience="{value}"', window=1_000_000) for value in ("usual", "careful")]
    assert former == [patience(balanced), patience(careful)]


def test_in_a_small_window_less_stays(tmp_path: Path) -> None:
    config = load_config(tmp_path, {"EBB_HOME": str(tmp_path)}, {})
    assert build_compaction_settings(config, 10_000).caps == CompactionCaps(2000, 2000, 1000, 1250, 2500)


def test_a_tool_that_no_window_is_offered_is_missing_unless_it_was_chosen(tmp_path: Path) -> None:
    def missing(*sizes: int, settings: tuple[str, ...] = ()) -> frozenset[str]:
        config = load_config(tmp_path, {"EBB_HOME": str(tmp_path)}, {}, settings)
        return missing_tools(config, [Window(size, 0, 0) for size in sizes], is_interactive=True)

    assert missing(31_999) == {"apply_patch"}
    assert missing(31_999, 32_000) == missing() == frozenset()
    assert "apply_patch" not in missing(31_999, settings=('tools.allowed=["apply_patch"]',))


def test_what_is_for_notebooks_is_offered_where_there_are_some(tmp_path: Path) -> None:
    def offered(*settings: str) -> set[str]:
        config = load_config(tmp_path, {"EBB_HOME": str(tmp_path)}, {}, settings)
        return {tool.name for tool in select_session_tools(build_compaction_settings(config, 10_000), config)}

    usual = offered()
    assert offered('tools.allowed=["edit_notebook"]') == {"edit_notebook"}
    (tmp_path / "a.ipynb").touch()
    assert offered() - usual == {"edit_notebook"}
    assert offered('tools.denied=["edit_notebook"]') == usual


def test_a_search_of_the_web_is_offered_where_something_can_search(tmp_path: Path) -> None:
    def is_offered(*settings: str, provider_searches: bool = False) -> bool:
        config = load_config(tmp_path, {"EBB_HOME": str(tmp_path)}, {}, settings)
        compaction = build_compaction_settings(config, 10_000)
        return "web_search" in {
            tool.name for tool in select_session_tools(compaction, config, provider_searches=provider_searches)
        }

    assert not is_offered()
    assert is_offered(provider_searches=True)
    assert is_offered('web.search=["ddgr"]')
    assert not is_offered('tools.denied=["web_search"]', provider_searches=True)


def test_what_asks_language_servers_is_offered_where_there_seem_to_be_some(tmp_path: Path) -> None:
    project, programs = tmp_path / "app", tmp_path / "bin"
    environment = {"EBB_HOME": str(tmp_path), "PATH": str(programs)}
    project.mkdir()
    programs.mkdir()

    def offered(*settings: str) -> set[str]:
        config = load_config(project, environment, {}, settings)
        languages = SessionLanguageServers(config, project, None, environment)
        return {
            tool.name for tool in select_session_tools(build_compaction_settings(config, 10_000), config, languages)
        }

    usual, asking = offered(), {"diagnostics", "symbols"}
    (project / "a.py").touch()
    assert offered() == usual
    assert offered('lsp.servers.mine.command="x"', 'lsp.servers.mine.extensions=["py"]') == usual | asking
    (programs / "ruff").touch(mode=0o755)
    assert offered() == usual | asking
    assert offered("lsp.enabled=false") == usual
    assert offered('tools.denied=["symbols"]') == usual | {"diagnostics"}


def test_a_map_is_offered_where_there_is_much_code(tmp_path: Path) -> None:
    def offered() -> set[str]:
        config = load_config(tmp_path, {"EBB_HOME": str(tmp_path)}, {})
        return {tool.name for tool in select_session_tools(build_compaction_settings(config, 10_000), config)}

    for number in range(19):
        (tmp_path / f"{number}.go").touch()
    usual = offered()
    (tmp_path / "20.ts").touch()
    assert offered() - usual == {"repo_map"}


async def test_a_session_that_goes_on_in_another_mode_begins_as_before_and_its_model_is_told(tmp_path: Path) -> None:
    mcp_project = McpProject(tmp_path)
    sent: list[Request] = []
    events: list[Event] = []

    async def turn(session: Session) -> None:
        provider = session._ctx.model.provider
        assert isinstance(provider, ScriptedProvider)
        before = len(provider.requests)
        events.extend(await say(session))
        sent.extend(provider.requests[before:])

    replies = [{"text": "done"}] * 2
    first = await mcp_project.sessions(*replies, interactive=True).open()
    await turn(first)
    await first.change_mode("plan")
    await turn(first)
    await first.close()
    modes = []
    for mode in PERMISSION_MODES:
        sessions = mcp_project.sessions(*replies)
        sessions.config = replace(sessions.config, permission_mode=mode)
        session = await sessions.open(id_prefix=first.id)
        modes.append(session.mode)
        await turn(session)
        await session.close()
    await mcp_project.close()
    assert modes == list(PERMISSION_MODES)
    assert [one.system for one in sent] == [sent[0].system] * 6
    assert [event for event in events if isinstance(event, PrefixRenewed | PrefixDrifted)] == []
    notes = [part.text for m in sent[-1].messages if isinstance(m, User) for part in m.parts if isinstance(part, Note)]
    told = [text.split("`")[1] for text in notes if text.startswith("[The permission mode is now")]
    assert told == ["plan", *PERMISSION_MODES]  # the mode of the first one is in the system text


async def asked(session: Session) -> Request:
    """What the model is sent when something is said."""
    await events_of(session, "go")
    provider = session._ctx.model.provider
    assert isinstance(provider, ScriptedProvider)
    return provider.requests[-1]


def told(request: Request, *kinds: str) -> list[str]:
    parts = [part for message in request.messages if isinstance(message, User) for part in message.parts]
    return [part.text for part in parts if isinstance(part, Note) and part.kind in kinds]


def asks(request: Request) -> bool:
    """Whether the model may ask the user something."""
    return "ask_user" in {tool.name for tool in request.tools}


@pytest.mark.parametrize("mode", PERMISSION_MODES)
async def test_the_first_request_says_what_the_mode_means_and_who_is_there(project: Project, mode: str) -> None:
    for there in (True, False):
        sent = await asked(await project.session({"text": "ok"}, mode=mode, interactive=there))
        assert (asks(sent), "`ask_user`" in sent.system) == (there, there)
        assert (
            f"\nPermission mode: {mode} ({MODE_DESCRIPTIONS[mode]})\n{PRESENCE_DESCRIPTIONS[there]}.\n" in sent.system
        )
        assert PRESENCE_DESCRIPTIONS[not there] not in sent.system
        assert told(sent, "mode", "presence") == []


async def test_a_session_that_goes_on_where_nobody_is_begins_as_before_and_its_model_is_told(project: Project) -> None:
    sent = []
    for there, resume in ((True, None), (False, ""), (False, ""), (True, "")):
        sessions = project.sessions(*[{"text": "ok"}] * 4, interactive=there)
        session = await sessions.open(resume)
        sent.append(await asked(session))
        await session.close()
    assert [(one.system, one.tools) for one in sent] == [(sent[0].system, sent[0].tools)] * 4
    assert told(sent[-1], "presence") == [f"[From now on: {PRESENCE_DESCRIPTIONS[there]}.]" for there in (False, True)]


async def test_once_the_cache_is_gone_it_begins_with_what_holds(project: Project) -> None:
    for there in (False, True):
        session = await project.session(*[{"text": "ok"}] * 2, interactive=there, resume="" if there else None)
        sent = await asked(session)
        await session.close()
        project.sql("UPDATE sessions SET updated = updated - 4000")
        assert (asks(sent), f"\n{PRESENCE_DESCRIPTIONS[there]}.\n" in sent.system) == (there, True)
        assert told(sent, "presence") == []


async def test_where_nobody_is_there_a_question_is_still_answered(project: Project) -> None:
    ask = {"calls": [{"name": "ask_user", "arguments": {"question": "Which?"}}]}
    session = await project.session(ask, {"text": "Both."})
    sent = await asked(session)
    (output,) = sent.messages[-1].parts
    assert isinstance(output, ToolOutput)
    assert "no user is present: decide yourself" in output.text


async def test_an_overview_of_a_closed_session_shows_what_it_was_told(project: Project) -> None:
    session = await project.session({"text": "ok"}, interactive=True)
    await asked(session)
    equipped = project.opened[-1]
    before = (await equipped.overview(session.id)).components[:2]
    await session.close()
    after = (await project.sessions().overview(session.id)).components[:2]
    assert after == before


@pytest.mark.parametrize("there", [True, False])
async def test_plans_are_handed_in_by_a_tool_behind_all_others_where_a_session_begins_in_plan_mode(
    there: bool, project: Project
) -> None:
    modes = ("ask", "plan")
    sent = [await asked(await project.session({"text": "ok"}, mode=mode, interactive=there)) for mode in modes]
    usual, planning = (request.tools for request in sent)
    assert planning[:-1] == usual
    assert (planning[-1].name, "submit_plan" in {tool.name for tool in usual}) == ("submit_plan", False)


async def test_a_change_into_plan_mode_names_the_tool_and_leaves_the_list_alone(project: Project) -> None:
    submits = {"calls": [{"name": "submit_plan", "arguments": {"plan": "# Mine"}}]}
    replies = [{"text": "ok"}, submits, {"text": "ok"}]
    session = await project.session(*replies, mode="ask", interactive=True)
    first = await asked(session)
    await session.change_mode("plan")
    async for event in session.send("plan it"):
        if isinstance(event, PlanSubmitted):
            session.answer(event.id, PlanDecision("accept", "accept-edits"))
    provider = session._ctx.model.provider
    assert isinstance(provider, ScriptedProvider)
    last = provider.requests[-1]
    assert (last.system, last.tools) == (first.system, first.tools)
    changed, accepted = told(last, "mode")
    assert "Pass the plan as Markdown in `plan`; call it even if it is not in your tool list.]" in changed
    assert accepted.startswith("[The permission mode is now `accept-edits`: ")
    assert session.mode == "accept-edits"


@pytest.mark.parametrize("own", ["plan", "ask"])
async def test_a_session_left_at_a_plan_asks_again_in_plan_mode_however_the_terminal_is_set(
    own: str, project: Project
) -> None:
    submits = {"calls": [{"name": "submit_plan", "arguments": {"plan": "# Mine"}}]}
    first = await project.session(submits, mode=own, interactive=True)
    await first.change_mode("plan")
    async for event in first.send("plan it"):
        if isinstance(event, PlanSubmitted):
            first.end_turn_for_exit()
    await first.close()
    again = await project.session({"text": "done"}, resume="", interactive=True)
    assert (again.mode, again.has_open_question) == ("plan", True)
    asked_again = []
    async for event in again.resume_turn():
        if isinstance(event, PlanSubmitted):
            asked_again.append(event.plan)
            again.answer(event.id, PlanDecision("accept", "accept-edits"))
    assert (asked_again, again.mode, again.has_open_question) == (["# Mine"], "accept-edits", False)


async def test_a_script_that_goes_on_from_a_plan_is_told_that_nobody_decided(project: Project) -> None:
    submits = {"calls": [{"name": "submit_plan", "arguments": {"plan": "# Mine"}}]}
    first = await project.session(submits, mode="plan", interactive=True)
    async for event in first.send("plan it"):
        if isinstance(event, PlanSubmitted):
            first.end_turn_for_exit()
    await first.close()
    sent = await asked(await project.session({"text": "done"}, resume=""))
    outputs = [part for m in sent.messages if isinstance(m, User) for part in m.parts if isinstance(part, ToolOutput)]
    assert [(output.status, "never approved" in output.text) for output in outputs] == [("denied", True)]


@pytest.mark.parametrize(
    ("settings", "no_shell", "sandboxed"),
    [
        ((), "", False),
        (("agent.sandbox=require",), f"{NO_SANDBOX_ERROR}: none", False),
        (("permissions.sandboxed=allow",), "", False),
    ],
)
def test_where_there_is_no_sandbox_none_is_relied_upon(
    settings: tuple[str, ...], no_shell: str, sandboxed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ebbtide.tools.sandbox.system.detect_sandbox", lambda: NoSandbox("none"))
    config = load_config(tmp_path, {"EBB_HOME": str(tmp_path)}, {}, settings)
    policy = build_policy(config, tmp_path, "ask", tmp_path)
    assert (policy.no_shell_reason, policy.allows_sandboxed_commands) == (no_shell, sandboxed)


def test_where_there_is_one_commands_run_unasked_if_the_user_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ebbtide.tools.sandbox.system.detect_sandbox", lambda: SandboxProgram("bubblewrap", ()))
    for sandbox, is_unasked in (("auto", True), ("require", True), ("off", False)):
        settings = (f"agent.sandbox={sandbox}", "permissions.sandboxed=allow")
        config = load_config(tmp_path, {"EBB_HOME": str(tmp_path)}, {}, settings)
        assert build_policy(config, tmp_path, "ask", tmp_path).allows_sandboxed_commands == is_unasked


def test_further_folders_must_be_there(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    config = load_config(tmp_path, {"EBB_HOME": str(tmp_path)}, {"permissions.roots": [str(tmp_path / "more")]})
    assert additional_folders(config) == ((tmp_path / "more").resolve(),)
    missing = load_config(tmp_path, {"EBB_HOME": str(tmp_path)}, {"permissions.roots": ["/not/there"]})
    with pytest.raises(ConfigError, match="there is no folder `/not/there`"):
        additional_folders(missing)


async def test_a_folder_that_was_added_outlives_another_model_and_not_the_program(project: Project) -> None:
    added = project.folder / "beside"
    for folder in (project.root / "more", added):
        folder.mkdir()
    more = str(added)
    sessions = project.sessions({"text": "a"}, {"text": "b"}, interactive=True)
    first = await sessions.open()
    async for _ in first.send("go"):
        pass
    first.boundary.add_folder("../beside")
    with pytest.raises(ConfigError, match="is already part of this session"):
        first.boundary.add_folder("more")
    await first.close()
    again = await sessions.open(first.id)
    assert again.boundary.added_folders == (more,)
    async for _ in again.send("go on"):
        pass
    assert f"[You may also work in: `{more}`.]" in repr(again.history)
    await again.close()
    assert (await project.sessions(interactive=True).open(first.id)).boundary.added_folders == ()


async def test_a_change_of_style_applies_to_the_open_session_and_its_past_keeps_its_style(project: Project) -> None:
    session = await project.session({"text": "ok"}, interactive=True)
    await asked(session)
    sessions = project.opened[-1]
    session.set_style("careful")
    costs = await sessions.style_costs(await sessions.overview(session.id))
    assert (session.style, costs.active, costs.recorded) == ("careful", "careful", "balanced")
    session.set_style(None)
    assert session.style == "balanced"
    await session.close()

    resumed = project.sessions()
    resumed.set_config(replace(resumed.config, context_style="frugal"), {})
    again = await resumed.style_costs(await resumed.overview(session.id))
    assert (again.active, again.message_count, again.replayed_count) == ("frugal", 2, 2)
    assert [cost.tokens for cost in again.styles] == [cost.tokens for cost in costs.styles]
