"""Which files of an output are read as text, and what stands for the others."""

from pathlib import Path

import pytest

from ebbtide.agent.view.output_media import attachment_lines, classify_attachments, document_text
from ebbtide.tools.base import Attachment, ImageData, LoggedOutput, Result

PNG = b"\x89PNG\r\n\x1a\n and the rest"


@pytest.mark.parametrize(
    ("media_type", "data", "is_read"),
    [
        ("text/markdown", b"# Title", True),
        ("text/plain; charset=utf-8", "käse".encode(), True),
        ("application/json", b"{}", True),
        ("application/vnd.api+json", b"{}", True),
        ("image/svg+xml", b"<svg/>", True),
        ("", b"no type, but text", True),
        ("text/plain", b"caf\xe9", False),
        ("text/plain", b"a\0b", False),
        ("", b"\x01\x02\x03", False),
        ("application/pdf", b"%PDF-1.4", False),
        ("application/octet-stream", b"text?", False),
        ("audio/wav", b"RIFF", False),
        ("image/bmp", b"BM", False),
    ],
)
def test_text_documents_that_decode_are_read(media_type: str, data: bytes, is_read: bool) -> None:
    assert (document_text(Attachment("a", media_type, data)) is not None) == is_read


def test_documents_stand_behind_the_text_and_pictures_are_what_they_really_are() -> None:
    notes, song = (
        Attachment("notes.md", "text/markdown", b"# Notes\n- one"),
        Attachment("a.wav", "audio/wav", b"RIFF...."),
    )
    raw = Result("found", images=(ImageData("image/jpeg", PNG), ImageData("image/png", b"broken")), files=(song, notes))
    assert classify_attachments(raw) == Result(
        'found\n[Attached "notes.md" — text/markdown, 13 bytes:]\n# Notes\n- one',
        images=(ImageData("image/png", PNG),),
        files=(Attachment("picture", "image/png", b"broken"), song),
    )


def test_a_picture_that_is_too_large_to_be_shown_is_a_file() -> None:
    large = PNG + bytes(5 * 1024 * 1024)
    assert classify_attachments(Result("", images=(ImageData("image/png", large),))) == Result(
        "", files=(Attachment("picture", "image/png", large),)
    )


def test_beside_what_a_program_printed_documents_stay_files() -> None:
    notes = Attachment("notes.md", "text/markdown", b"# Notes")
    for raw in (
        Result("exit code 0", log=LoggedOutput(Path("a"), 0, 1, True), files=(notes,)),
        Result("a", full_text="ab"),
    ):
        assert classify_attachments(raw) == raw


def test_names_of_files_are_cut_to_one_plain_line() -> None:
    named = Attachment("a\x1b[31m\nb" + "c" * 200, "", b"12345")
    assert attachment_lines((named, named), ("r3:tool-1", None)) == (
        f'[Attached "a b{"c" * 116}…" — unknown type, 5 bytes; kept as ref_id="r3:tool-1"]\n'
        f'[Attached "a b{"c" * 116}…" — unknown type, 5 bytes; it could not be kept]'
    )
