"""The file for what a server prints on its error output."""

from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.tools.integrations import server_log
from ebbtide.tools.integrations.server_log import ServerLog, read_last_lines


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(server_log, "MAX_LOG_BYTES", 10)
    return tmp_path / "logs" / "forge.log"


def test_it_begins_anew_when_it_has_grown_large_and_keeps_what_came_before(path: Path) -> None:
    log = ServerLog(path, secrets=["s3cret"])
    for text in (b"one s3cret", b"two\n", b"three\n", b"a longer line\n"):
        log.write(text)
    log.close()
    assert (path.read_bytes(), path.with_name("forge.log.1").read_bytes()) == (b"nger line\n", b"two\nthree\n")
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert (log.last_line, read_last_lines(path, 5)) == ("a longer line", ["nger line"])


@pytest.mark.parametrize("in_the_way", ["forge.log", "forge.log.1/full"])
def test_what_cannot_be_written_harms_nobody_and_its_end_is_known(path: Path, in_the_way: str) -> None:
    (path.parent / in_the_way).mkdir(parents=True)
    log = ServerLog(path)
    for text in (b"one\n", b"it will not\n", b"start\n"):
        log.write(text)
    log.close()
    assert log.last_line == "start"


SECRETS = ("abcabd", "abc", "bcabdd", "aabb")


@given(st.lists(st.sampled_from([*SECRETS, "a", "b", "c", "d", "ab", "x", "\n"]), max_size=12).map("".join), st.data())
def test_a_secret_is_hidden_however_it_is_cut_into_pieces(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "forge.log"
        log = ServerLog(path, secrets=SECRETS)
        for start, end in pairwise([0, *cuts, len(text)]):
            log.write(text[start:end].encode())
        log.close()
        written = path.read_text()
    assert not [secret for secret in SECRETS if secret in written]
    if not any(secret in text for secret in SECRETS):
        whole = written.removesuffix("***")
        assert text.startswith(whole)
        assert written == text or len(text) - len(whole) >= server_log._MIN_REDACTED_PREFIX_BYTES


def test_what_begins_no_secret_is_written_at_once(path: Path) -> None:
    log = ServerLog(path, secrets=["s3cret-of-mine"])
    log.write(b"a s3c")
    assert path.read_bytes() == b"a "
    log.write(b"at\n")
    assert path.read_bytes() == b"a s3cat\n"
    log.write(b"s3c")
    log.close()
    assert log.last_line == "s3c"


def test_a_secret_is_hidden_in_whatever_form_it_is_printed(tmp_path: Path) -> None:
    log = ServerLog(tmp_path / "forge.log", secrets=['s3cr"et/key'])
    for form in ("s3cr%22et%2Fkey", '{"key": "s3cr\\"et/key"}', b's3cr"et/key'.hex(), "czNjciJldC9rZXk="):
        log.write(f"{form}\n".encode())
    log.close()
    assert (tmp_path / "forge.log").read_text() == '***\n{"key": "***"}\n***\n***k=\n'
