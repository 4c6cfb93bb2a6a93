"""Runs with a small model behind a llama.cpp: what it is told, and what becomes of what such models write. The replies
are those that Qwen2.5-Coder 1.5B gave."""

from typing import Any

import pytest

from tests.kit.commands import Run
from tests.kit.fake_provider import FakeProvider, Turn
from tests.kit.files import write_file, write_files
from tests.kit.user import User

LLAMA: dict[str, object] = {
    "/props": {"default_generation_settings": {"n_ctx": 16_384, "params": {"temperature": 0.800000011920929}}},
    "/v1/models": {"data": [{"id": "/m.gguf", "meta": {"n_params": 1_777_088_000, "n_ctx_train": 32_768}}]},
}
APP = "def main(:\n    print('up')\n\n\nmain()\n"
FIXED = """\
To fix the syntax error in `app.py`, the correct syntax for a function definition in Python is:

```python
def function_name(parameters):
    # function body
    pass
```

Here is the corrected version of `app.py`:

```python
def main():
    print('up')

main()
```

After making this change, you can run the script again:

```bash
python app.py
```

This should resolve the syntax error."""


class Asked:
    """A run in a project with these files, on a server whose model says these things in turn."""

    def __init__(self, user: User, prompt: str, files: dict[str, str], *says: str, pages: Any = LLAMA) -> None:
        write_files(user.project, files)
        with FakeProvider([Turn(text=text) for text in says], pages=pages) as server:
            flags = ("--permission-mode", "auto", "--config", f"providers.openai-chat.base_url={server.url}/v1")
            env = {"OPENAI_API_KEY": "x"}
            self.run: Run = user.ebb("-p", prompt, "-m", "openai-chat/q", *flags, env=env)
            self.bodies: list[dict[str, Any]] = [dict(request.body) for request in server.requests]
        self.answer = self.run.out.removesuffix("\n")

    def told(self, request: int) -> str:
        """The last message of a request."""
        content = self.bodies[request]["messages"][-1]["content"]
        return content if isinstance(content, str) else "\n".join(part["text"] for part in content)


def test_it_is_shown_the_files_that_are_named_and_has_six_tools(user: User) -> None:
    files = {"src/calc.py": "def add(a, b):\n    return a - b\n", "src/other.py": "x = 1\n", ".env": "KEY=secret\n"}
    asked = Asked(user, "What does add in calc.py do? Leave .env alone.", files, "It subtracts.")
    assert asked.answer == "It subtracts."
    (body,) = asked.bodies
    assert body["temperature"] == 0.2
    tools = [tool["function"]["name"] for tool in body["tools"]]
    assert tools == ["read", "write", "edit", "bash", "read_result", "recall"]
    assert asked.told(0) == (
        "What does add in calc.py do? Leave .env alone.\n"
        "The folder `./` holds:\n\n.env\nsrc/calc.py\nsrc/other.py\n"
        "`src/calc.py` contains (2 lines):\n\ndef add(a, b):\n    return a - b\n"
    )


def test_it_is_shown_the_files_that_hold_a_name_which_it_is_asked_about(user: User) -> None:
    files = {"a.py": "x = 1\n", "b.py": "def secret_sauce():\n    pass\n", "c.bin": "secret_sauce\0\1\2"}
    asked = Asked(user, "Which file defines secret_sauce?", files, "b.py")
    assert "`b.py` contains (2 lines):\n\ndef secret_sauce():\n    pass\n" in asked.told(0)
    assert "`a.py` holds" not in asked.told(0)
    assert "`c.bin` holds" not in asked.told(0)


def test_another_model_is_told_nothing_of_that(user: User) -> None:
    pages = {**LLAMA, "/v1/models": {"data": [{"id": "q", "meta": {"n_params": 7_615_616_512}}]}}
    asked = Asked(user, "What does add in calc.py do?", {"calc.py": "x = 1\n"}, "Nothing.", pages=pages)
    assert asked.told(0) == "What does add in calc.py do?"
    assert "temperature" not in asked.bodies[0]


def test_a_file_that_it_shows_as_it_is_to_be_is_written(user: User) -> None:
    asked = Asked(user, "app.py has a syntax error. Fix it.", {"app.py": APP}, FIXED, "Done.")
    assert (asked.run.code, asked.answer) == (0, "Done.")
    assert (user.project / "app.py").read_text() == "def main():\n    print('up')\n\nmain()\n"
    assert asked.told(1) == "overwrote `app.py`: 4 lines"


def test_a_question_is_answered_by_a_file_that_it_shows(user: User) -> None:
    asked = Asked(user, "How would you fix app.py?", {"app.py": APP}, FIXED)
    assert (asked.answer, (user.project / "app.py").read_text()) == (FIXED, APP)


def test_a_command_that_it_shows_is_run_once(user: User) -> None:
    answer = "You can use `mv`:\n\n```bash\n$ mv notes.txt journal.txt\n```\n\nAfter that the file has its new name."
    asked = Asked(user, "Rename notes.txt to journal.txt.", {"notes.txt": "n\n"}, answer, answer)
    assert (user.project / "journal.txt").read_text() == "n\n"
    assert (asked.answer, len(asked.bodies)) == (answer, 2)


def test_a_command_that_stands_in_a_file_is_not_run(user: User) -> None:
    answer = "The README says:\n\n```bash\ntouch  made; echo done\n```"
    files = {"README.md": "Set up:\n\n    touch made; echo done\n"}
    asked = Asked(user, "Fix what README.md says.", files, *[answer] * 3)
    assert (asked.answer, (user.project / "made").exists()) == (answer, False)


def test_the_first_call_between_words_is_made(user: User) -> None:
    answer = (
        "You need to set `replace_all`. Here's how:\n\n"
        '```json\n{"name": "edit", "arguments": {"path": "a.md", "old": "projct", "new": "project", '
        '"replace_all": true}}\n```\n\nThis replaces all of them.'
    )
    asked = Asked(user, "Fix 'projct' in a.md.", {"a.md": "projct\nprojct\n"}, answer, "Done.")
    assert (asked.answer, (user.project / "a.md").read_text()) == ("Done.", "project\nproject\n")


def test_a_call_that_is_written_without_end_is_made_once(user: User) -> None:
    write = '```json\n{"name": "bash", "arguments": {"command": "echo eggs >> todo.txt"}}\n```\n\n'
    asked = Asked(user, "Append 'eggs' to todo.txt.", {"todo.txt": "milk\n"}, "I add it.\n\n" + write * 1_000, "Done.")
    assert (asked.answer, (user.project / "todo.txt").read_text()) == ("Done.", "milk\neggs\n")
    assert "the model said the same " in asked.run.err


def test_an_answer_without_end_is_stopped(user: User) -> None:
    asked = Asked(user, "What is in todo.txt?", {"todo.txt": "milk\n"}, "It is milk, and so on. " * 5_000)
    assert (asked.run.code, asked.answer) == (6, "It is milk, and so on. ")
    assert "the model kept repeating itself; tell it what to do with `ebb -c`" in asked.run.err


def test_a_file_is_not_emptied_by_mistake(user: User) -> None:
    write = '{"name": "write", "arguments": {"path": "./todo.txt", "content": "eggs\\n"}}'
    append = '{"name": "bash", "arguments": {"command": "echo eggs >> todo.txt"}}'
    asked = Asked(user, "Append 'eggs' to todo.txt.", {"todo.txt": "milk\nbread\n"}, write, append, "Done.")
    assert asked.told(1) == (
        "the call was not run: `todo.txt` would lose 2 of its 2 lines, 'milk' among them: write the complete file, "
        "including these lines; to append to it, call `bash` with printf '%s\\n' TEXT >> ./todo.txt; to replace it "
        "anyway, make this call again"
    )
    assert (user.project / "todo.txt").read_text() == "milk\nbread\neggs\n"


def test_a_file_is_replaced_where_the_model_insists(user: User) -> None:
    write = '{"name": "write", "arguments": {"path": "todo.txt", "content": "eggs\\n"}}'
    Asked(user, "Write 'eggs' into todo.txt.", {"todo.txt": "milk\nbread\n"}, write, write, "Done.")
    assert (user.project / "todo.txt").read_text() == "eggs\n"


def test_work_that_is_only_told_of_is_asked_for_twice(user: User) -> None:
    answer = "I have added the import."
    asked = Asked(
        user, "now.py fails. Add the import.", {"now.py": "print(datetime.date(2020, 1, 2))\n"}, *[answer] * 3
    )
    reminded = [
        asked.told(number).startswith("[So far nothing was changed. `now.py` still contains:") for number in range(3)
    ]
    assert reminded == [False, True, True]
    assert (asked.run.code, asked.answer) == (0, answer)


@pytest.mark.parametrize("prompt", ["Is there an import in now.py?", "Which file is it?", "hello"])
def test_an_answer_to_anything_but_a_wish_for_a_change_is_one(user: User, prompt: str) -> None:
    asked = Asked(user, prompt, {"now.py": "print(1)\n"}, "```python\nprint(1)\n```")
    assert len(asked.bodies) == 1


def test_a_silence_behind_a_failure_is_asked_for_words(user: User) -> None:
    edit = '{"name": "edit", "arguments": {"path": "helper.py", "old": "greeting", "new": "hello"}}'
    words = ["It is not there."] * 3
    asked = Asked(user, "Fix the greeting.", {"helper.py": "x = 'helo'\n"}, edit, "", "", *words)
    assert asked.told(3).startswith("[Your reply was empty.")
    assert asked.run.code == 0


def test_the_temperature_is_what_the_user_sets(user: User) -> None:
    write_file(user.home / "config" / "config.toml", "[providers.openai-chat]\ntemperature = 0.7\n")
    assert Asked(user, "hello", {}, "Hi.").bodies[0]["temperature"] == 0.7
