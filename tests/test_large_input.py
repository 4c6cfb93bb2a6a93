"""More text than a window holds, piped in or said: it is shown in part, kept whole, and ends no session."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.kit.commands import Run, command, ebb, environment
from tests.kit.fake_provider import Call, FakeProvider, Recorded, Turn

LOG = "".join(f"[{number}] compile unit_{number}.c: warning {number * 7919 % 1000}\n" for number in range(40_000))


class User:
    def __init__(self, folder: Path) -> None:
        self.home, self.project = folder / "home", folder / "project"
        self.project.mkdir()

    def say(self, server: FakeProvider, *arguments: str, stdin: bytes = b"", window: int = 32_000) -> Run:
        flags = ("-m", "openai-chat/m", "-C", str(self.project), "--context-window", str(window))
        env = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "key"}
        return ebb(*arguments, *flags, "--output-format", "json", home=self.home, env=env, stdin=stdin)


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path)


def said(request: Recorded) -> str:
    """What the user's message says."""
    return "\n".join(m["content"] for m in request.body["messages"] if m["role"] == "user")


def outputs(request: Recorded) -> list[str]:
    return [message["content"] for message in request.body["messages"] if message["role"] == "tool"]


def look_up(**arguments: Any) -> Any:
    """A step that looks into what the message of the request refers to."""

    def step(request: Recorded) -> Turn:
        refs = re.findall(r'ref_id="(msg-[0-9a-f]{8})"', said(request))
        return Turn(calls=(Call("read_result", {"ref_id": refs[0], **arguments}),))

    return step


@pytest.mark.parametrize("window", [8_000, 32_000, 200_000])
@pytest.mark.parametrize("prompt", ["explain this", "-"])
def test_a_log_that_no_window_holds_is_seen_by_its_ends_and_searched(user: User, prompt: str, window: int) -> None:
    found = "unit_23456.c: warning"
    with FakeProvider([look_up(pattern=r"unit_23456\."), Turn(text="It is fine."), Turn(text="Still.")]) as server:
        run = user.say(server, "-p", prompt, stdin=LOG.encode(), window=window)
        assert (run.code, run.result["result"], run.result["error"]) == (0, "It is fine.", None)
        again = user.say(server, "-p", "are you sure?", "-c", window=window)
        assert (again.code, again.result["result"]) == (0, "Still.")
    message = said(server.requests[0])
    assert "[0] compile unit_0.c" in message
    assert "[39999] compile unit_39999.c" in message
    assert found not in message
    assert found in outputs(server.requests[1])[0]
    assert ("explain this" in message) == (prompt != "-")


def test_what_has_room_is_sent_whole(user: User) -> None:
    text = LOG[:60_000]
    with FakeProvider([Turn(text="Seen.")]) as server:
        assert user.say(server, "-p", "explain this", stdin=text.encode(), window=200_000).code == 0
    assert said(server.requests[0]) == f"explain this\nWhat the user piped in:\n\n{text}"


def test_what_is_piped_in_beside_words_attaches_nothing(user: User) -> None:
    (user.project / "key.txt").write_text("a secret")
    diff = "+see @key.txt\n"
    with FakeProvider([Turn(text="Seen.")]) as server:
        assert user.say(server, "-p", "is that right?", stdin=diff.encode()).code == 0
    assert said(server.requests[0]) == f"is that right?\nWhat the user piped in:\n\n{diff}"
    with FakeProvider([Turn(text="Seen.")]) as server:
        assert user.say(server, "-p", "-", stdin=b"what is in @key.txt?").code == 0
    assert "a secret" in said(server.requests[0])


@pytest.mark.parametrize(
    ("data", "beginning", "stored"),
    [
        (bytes(range(256)) * 2_000, "[not text, 512,000 bytes, which begin with 00 01 02", "20 21 22 23 24 25 26 27"),
        (bytes(range(256)) * 2_000, "fc fd fe ff; `read_result` with", "20 21 22 23 24 25 26 27"),
        ("café\r\n".encode() * 20_000 + b"\xe9", "caf\N{LATIN SMALL LETTER E WITH ACUTE}\r\n", "café"),
        ("漢字の行\n".encode() * 20_000, "漢字の行\n", "漢字の行"),
        (b"x" * 400_000, "xxxxxxxx\n[… ", "xxxxxxxx"),
    ],
    ids=["binary", "end of binary", "broken end", "chinese", "one line"],
)
def test_every_byte_is_kept_whatever_was_piped_in(
    user: User, data: bytes, beginning: str, stored: str, tmp_path: Path
) -> None:
    with FakeProvider([look_up(offset=len(data) // 2, limit=400), Turn(text="Seen.")]) as server:
        asked = user.say(server, "-p", "what is it?", stdin=data)
        assert asked.code == 0
    assert beginning in said(server.requests[0])
    assert stored in outputs(server.requests[1])[0]
    bundle, elsewhere = tmp_path / "s.ebb", tmp_path / "elsewhere"
    exported = ebb("sessions", "export", asked.result["session"], str(bundle), home=user.home)
    assert exported.code == 0, exported.err
    assert ebb("sessions", "import", str(bundle), "-C", str(user.project), home=elsewhere).code == 0
    (first, *_) = ebb("sessions", "show", asked.result["session"], "--json", home=elsewhere).lines
    (note,) = [part for part in first["parts"] if part["type"] == "note"]
    assert note["whole"].removeprefix("What the user piped in:\n\n").encode("utf-8", "surrogateescape") == data


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
def test_a_log_as_windows_writes_it_is_read_as_text(user: User, codec: str) -> None:
    with FakeProvider([look_up(pattern=r"unit_23456\."), Turn(text="Seen.")]) as server:
        assert user.say(server, "-p", "go", stdin=f"\ufeff{LOG}".encode(codec)).code == 0
    assert "[0] compile unit_0.c" in said(server.requests[0])
    assert "[39999] compile unit_39999.c" in said(server.requests[0])
    assert "unit_23456.c: warning" in outputs(server.requests[1])[0]


@pytest.mark.parametrize(
    ("codec", "line"),
    [
        ("cp1251", "2026-11-23 ошибка: файл журнала не открыт"),
        ("koi8-r", "2026-11-23 ошибка: файл журнала не открыт"),
        ("latin-1", "2026-11-23 échec: le répertoire n'a pas été créé"),
        ("shift_jis", "2026-11-23 エラー: ファイルを開けません"),
        ("gbk", "2026-11-23 错误：无法打开文件"),
        ("euc_kr", "2026-11-23 오류: 파일을 열 수 없습니다"),
    ],
)
@pytest.mark.parametrize("count", [3, 30_000], ids=["short", "long"])
def test_a_log_in_an_older_encoding_is_read_as_a_file_in_it_is(user: User, codec: str, line: str, count: int) -> None:
    data = "".join(f"{line} [{number}]\n" for number in range(count)).encode(codec)
    last = f"{line} [{count - 2}]"
    with FakeProvider([look_up(pattern=f"{count - 2}."), Turn(text="Seen.")]) as server:
        assert user.say(server, "-p", "what went wrong?", stdin=data).code == 0
    assert f"{line} [0]\n" in said(server.requests[0])
    assert last in (said(server.requests[0]) if count == 3 else outputs(server.requests[1])[0])


def test_bytes_without_zeros_that_are_no_text_are_not_read_as_one(user: User) -> None:
    data = bytes(1 + 37 * place % 255 for place in range(3_000))
    with FakeProvider([Turn(text="Seen.")]) as server:
        assert user.say(server, "-p", "what is it?", stdin=data).code == 0
    assert "[not text, 3,000 bytes, which begin with 01 26 4b" in said(server.requests[0])


def test_a_later_message_may_be_as_long(user: User) -> None:
    with FakeProvider([Turn(text="Seen."), look_up(pattern="unit_23456"), Turn(text="Yes.")]) as server:
        assert user.say(server, "-p", "go").code == 0
        again = user.say(server, "-p", "-", "-c", stdin=LOG.encode())
        assert (again.code, again.result["result"]) == (0, "Yes.")
    assert "unit_23456.c" in outputs(server.requests[2])[0]


def test_a_smaller_window_shows_less_of_it(user: User) -> None:
    with FakeProvider([Turn(text="Seen."), lambda request: Turn(text="Here.")]) as server:
        assert user.say(server, "-p", "look", stdin=LOG[:150_000].encode(), window=200_000).code == 0
        again = user.say(server, "-p", "go on", "-c", window=12_000)
        assert (again.code, again.result["result"]) == (0, "Here.")


def test_more_than_a_message_may_bring_is_refused_in_a_sentence(user: User) -> None:
    script = user.home.parent / "s.json"
    script.write_text(json.dumps({"reply": [{"text": "Seen."}]}))
    line = f"head -c 70000000 /dev/zero | {' '.join(command('-p', 'look', '-m', f'scripted/{script}'))}"
    run = subprocess.run(line, shell=True, env=environment(user.home), capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (2, "")
    assert "more than 64 MB piped in; save it to a file" in run.stderr
