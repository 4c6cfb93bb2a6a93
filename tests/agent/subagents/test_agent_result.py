"""What an agent hands back, as the model reads it."""

from pathlib import Path

from ebbtide.agent.events.subagents import AgentFinished
from ebbtide.agent.messages import Usage
from ebbtide.agent.subagents.agent_result import MAX_ANSWER_CHARS, result_texts
from tests.agent.subagents.test_task import model_of, task
from tests.kit.user import User


def test_a_long_report_is_shown_to_a_length_and_kept_whole() -> None:
    head = "[Agent explore answered: 2 requests, 0 tokens, $0.0000]"
    usual, longer = "x" * MAX_ANSWER_CHARS, "y" * (MAX_ANSWER_CHARS + 7)
    assert result_texts(handed_back(usual)) == (f"{head}\n{usual}", "")
    answer = f"{head}\n{longer[:MAX_ANSWER_CHARS]}\n[… 7 more characters]"
    assert result_texts(handed_back(longer)) == (answer, f"{head}\n{longer}")


def test_a_report_of_sixteen_kilobytes_is_whole_in_a_small_window(tmp_path: Path) -> None:
    report = "\n".join(f"src/module_{number}.py:{number}: what it does" for number in range(400))[:15_900]
    user = User(tmp_path)
    flags = (*model_of(user, {"text": report}), "--config", "agent.context_window=16000")
    run = user.ask({"calls": [task("explore")]}, {"text": "Read."}, flags=flags, form="stream-json")
    assert run.code == 0
    (given,) = [line["text"] for line in run.lines if line["type"] == "tool_finished"]
    assert report in given


def handed_back(answer: str) -> AgentFinished:
    return AgentFinished("a", "c", "explore", "answered", answer, (), (), (), (), 2, Usage(), 0.0, 1.0)
