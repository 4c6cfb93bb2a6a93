"""The lines of a file of tasks: what they say, and what is wrong with them."""

import json

import pytest

from ebbtide.agent.integrations.batch.tasks import BatchTask, read_tasks


def test_a_task_is_known_by_its_id_or_by_its_line() -> None:
    schema = {"type": "object"}
    task = {"id": 7, "prompt": "second", "model": "ollama/x", "allow": ["read"], "output_schema": schema}
    content = b"\xef\xbb\xbf" + b'{"prompt": "first", "cwd": null}\r\n\n' + json.dumps(task).encode()
    (first, second), problems = read_tasks(content)
    assert not problems
    assert first == BatchTask("1", 1, "first", first.digest, 1, {})
    assert second == BatchTask("7", 3, "second", second.digest, 7, {"model": "ollama/x", "allow": ["read"]}, schema)


def test_the_digest_is_of_all_but_the_id() -> None:
    lines = [
        '{"id": "a", "prompt": "x", "model": "ollama/m"}', '{"id": "b", "model": "ollama/m", "prompt": "x"}',
        '{"id": "c", "prompt": "x"}',
    ]  # fmt: skip
    digests = [task.digest for task in read_tasks("\n".join(lines).encode())[0]]
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"{", "it is not JSON"),
        (b"\xff", "it is not UTF-8"),
        (b'["prompt"]', "it is not a JSON object"),
        (b"[" * 100_000, "it is nested too deeply"),
        (b"{}", "`prompt` must be a non-empty string"),
        (b'{"prompt": " "}', "`prompt` must be a non-empty string"),
        (b'{"prompt": "a", "id": true}', "`id` must be a string or an integer"),
        (b'{"prompt": "a", "id": "' + b"x" * 201 + b'"}', "longer than 200 characters"),
        (b'{"prompt": "a", "modle": "x"}', "unknown option `modle`; a task can have id, prompt, model"),
        (b'{"prompt": "a", "max_cost": NaN}', "NaN is not a JSON value"),
        (b'{"prompt": "a", "max_cost": 0}', "`max_cost` must be dollars above 0"),
        (b'{"prompt": "a", "max_turns": 1.5}', "`max_turns` must be a whole number above 0"),
        (b'{"prompt": "a", "allow": "read"}', "`allow` must be a list of rules"),
        (b'{"prompt": "a", "permission_mode": "yolo"}', "one of ask, accept-edits, plan, auto"),
        (b'{"prompt": "a", "output_schema": {"type": "nonsense"}}', "`output_schema` cannot be used"),
        (b'{"prompt": "a", "id": "1"}', "the task in line 1 also has the id `1`"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(line: bytes, says: str) -> None:
    tasks, (problem,) = read_tasks(b'{"prompt": "good"}\n' + line + b'\n{"prompt": "good, too"}')
    assert [task.line_number for task in tasks] == [1, 3]
    assert problem.startswith("line 2: ")
    assert says in problem
