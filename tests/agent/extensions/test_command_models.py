"""Commands that are meant for another model than the session's, in runs of the program."""

import json

import pytest

from ebbtide.agent.compose.sessions import ProjectSessions
from ebbtide.agent.config.load import load_config
from ebbtide.agent.events.session import ModelSwitched, ReplyFinished
from ebbtide.agent.messages import Text
from ebbtide.agent.messages import User as Said
from ebbtide.agent.providers.choices import resolve_model_name
from tests.kit.commands import Run
from tests.kit.fake_provider import Call, FakeProvider, Turn
from tests.kit.files import write_file
from tests.kit.user import User


def model(user: User, name: str, *replies: object, window: int = 200_000) -> str:
    path = user.home / f"{name}.json"
    path.write_text(json.dumps({"reply": replies, "context_window": window}))
    return f"scripted/{path}"


def command(user: User, name: str, model: str) -> None:
    write_file(user.home / "config" / "commands" / f"{name}.md", f"---\nmodel: {model}\n---\nLook at it.\n")


def run(user: User, prompt: str, *flags: str) -> Run:
    done = user.ebb("-p", prompt, "--output-format", "stream-json", *flags)
    assert done.code == 0, done.err
    return done


def asked(done: Run) -> list[str]:
    return [line["model"] for line in done.lines if line["type"] == "reply_finished"]


def told(done: Run) -> list[str]:
    return [line["text"] for line in done.lines if line["type"] == "noticed"]


def test_a_command_has_its_turn_with_the_model_that_it_is_meant_for(user: User) -> None:
    (user.project / "a.txt").write_text("hello")
    read = {"calls": [{"name": "read", "arguments": {"path": "a.txt"}}]}
    own, other = model(user, "own", {"text": "own"}), model(user, "other", read, {"text": "other"})
    command(user, "look", other)
    first = run(user, "/look", "-m", own)
    assert (asked(first), first.lines[-1]["result"], first.lines[-1]["model"]) == ([other, other], "other", other)
    switches = [(line["after"], line["why"]) for line in first.lines if line["type"] == "model_switched"]
    assert switches == [(other, "`/look` asks for it until this turn ends"), (own, "the turn has ended")]
    assert not [line for line in first.lines if line["type"] == "prefix_drifted"]
    # The session is still one with its own model, which sees what the other one has said.
    assert user.query("select model from sessions") == [(own,)]
    second = run(user, "and now?", "-c")
    assert (asked(second), told(second)) == ([own], [])


def test_so_has_a_skill_that_the_user_names_and_not_one_that_the_model_reads(user: User) -> None:
    path = user.home / "config" / "skills" / "look" / "SKILL.md"
    path.parent.mkdir(parents=True)
    read = {"calls": [{"name": "read", "arguments": {"path": str(path)}}]}
    own, other = model(user, "own", read, {"text": "own"}), model(user, "other", {"text": "other"})
    path.write_text(f"---\ndescription: looks\nmodel: {other}\n---\nLook at it.\n")
    assert asked(run(user, "/look", "-m", own)) == [other]
    assert asked(run(user, "go", "-m", own)) == [own, own]


async def test_one_that_is_named_while_a_turn_runs_has_the_rest_of_it(user: User) -> None:
    (user.project / "a.txt").write_text("hello")
    read = {"calls": [{"name": "read", "arguments": {"path": "a.txt"}}]}
    own, other = model(user, "own", read, {"text": "own"}), model(user, "other", {"text": "other"})
    command(user, "look", other)
    environment = {"HOME": str(user.home), "EBB_HOME": str(user.home), "EBB_SANDBOX": "off", "PATH": "/usr/bin:/bin"}
    config = load_config(user.project, environment, {"agent.model": own})
    sessions = ProjectSessions(config, user.project, environment, is_interactive=False)
    session = await sessions.open(None)
    pending: list[list[Said]] = [[], [Said((Text("/look"),))]]
    events = [event async for event in session.send("go", pending_messages=lambda: pending.pop(0) if pending else [])]
    assert [event.model for event in events if isinstance(event, ReplyFinished)] == [own, other]
    assert [event.after for event in events if isinstance(event, ModelSwitched)] == [other, own]
    assert session.model == own
    await sessions.close()


def test_the_session_s_own_model_finds_its_requests_in_its_cache_afterwards(user: User) -> None:
    command(user, "look", "haiku")
    (user.project / "a.txt").write_text("hello")
    read = Turn(calls=(Call("read", {"path": "a.txt"}),), reasoning="of haiku")
    with FakeProvider([Turn(text="one", reasoning="of opus"), read, Turn(text="two"), Turn(text="three")]) as server:
        for said, flag in (("first", "--model=anthropic/claude-opus-5"), ("/look", "-c"), ("third", "-c")):
            assert user.ebb("-p", said, flag, env=server.environment).code == 0
    bodies = [request.body for request in server.requests]
    assert [body["model"] for body in bodies] == ["claude-opus-5", *["claude-haiku-5-5"] * 2, "claude-opus-5"]
    first, last = bodies[0], bodies[-1]
    assert (last["system"], last["tools"]) == (first["system"], first["tools"])
    assert last["messages"][:1] == first["messages"]
    # What one model has thought is shown to that one alone.
    thoughts = ["of opus" in json.dumps(body) for body in bodies], ["of haiku" in json.dumps(body) for body in bodies]
    assert thoughts == ([False, False, False, True], [False, False, True, False])


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("opus", "`scripted` has no known model by that name"),
        ("anthropic/claude-opus-5", "`scripted` has no known model by that name"),
        ("scripted/none.json", "cannot read the script `none.json`: No such file or directory"),
    ],
)
def test_where_that_model_cannot_be_had_a_line_says_why(user: User, name: str, why: str) -> None:
    own = model(user, "own", {"text": "own"})
    command(user, "look", name)
    done = run(user, "/look", "-m", own)
    assert asked(done) == [own]
    assert told(done) == [f"`/look` asks for the model `{name}` but runs with yours: {why}"]


def test_a_model_that_is_too_small_does_not_have_the_turn(user: User) -> None:
    own, small = model(user, "own", {"text": "x" * 40_000}, {"text": "own"}), model(user, "small", window=8_000)
    command(user, "look", small)
    run(user, "go", "-m", own)
    done = run(user, "/look", "-c")
    assert asked(done) == [own]
    (line,) = told(done)
    assert line.startswith(f"`/look` asks for the model `{small}` but runs with yours: the conversation takes ")


def test_where_that_model_fails_the_session_goes_on_with_its_own(user: User) -> None:
    own, other = model(user, "own", {"text": "own"}), model(user, "other", {"error": "auth"})
    command(user, "look", other)
    done = user.ebb("-p", "/look", "-m", own, "--output-format", "stream-json")
    assert done.code == 4
    assert [line["type"] for line in done.lines[-3:]] == ["model_switched", "turn_failed", "result"]
    assert asked(run(user, "again", "-c")) == [own]


@pytest.mark.parametrize("own_model", ["inherit", "own"])
def test_its_own_model_is_not_told_of(user: User, own_model: str) -> None:
    own = model(user, "own", {"text": "own"})
    command(user, "look", own if own_model == "own" else own_model)
    done = run(user, "/look", "-m", own)
    assert (asked(done), told(done)) == ([own], [])


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("", "anthropic/claude-opus-5"),
        ("inherit", "anthropic/claude-opus-5"),
        ("haiku", "anthropic/claude-haiku-5-5"),
        ("Sonnet", "anthropic/claude-sonnet-5-5"),
        ("claude-sonnet-4-5", "anthropic/claude-sonnet-4-5"),
        ("claude-sonnet-4-5-20250929", "anthropic/claude-sonnet-4-5-20250929"),
        ("anthropic/claude-next", "anthropic/claude-next"),
        ("gpt-5", None),
        ("openai/gpt-5", None),
    ],
)
def test_a_word_is_the_newest_model_of_the_provider_that_is_called_so(name: str, found: str | None) -> None:
    assert resolve_model_name(name, "anthropic/claude-opus-5") == found
