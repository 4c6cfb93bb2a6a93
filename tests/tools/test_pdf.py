"""PDF pages as text: read by a program of its own, and explained where there is none."""

import io
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from pypdf import PdfReader, PdfWriter

import ebbtide.tools.documents.converter
import ebbtide.tools.documents.pdf
from ebbtide.tools.base import ReadLimits, ToolError, Workspace
from ebbtide.tools.outputs.extent import Extent
from ebbtide.tools.read import Read


def pdf(pages: Sequence[str]) -> bytes:
    """A PDF with a page of text each; an empty text makes a page without any."""
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, text in enumerate(pages):
        lines = " T* ".join(f"({line}) Tj" for line in text.split("\n"))
        stream = f"BT /F1 12 Tf 14 TL 72 720 Td {lines} ET" if text else ""
        resources = "/Resources << /Font << /F1 3 0 R >> >>"
        objects.append(f"<< /Type /Page /Parent 2 0 R {resources} /Contents {5 + 2 * number} 0 R >>")
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    data, places = "%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(data))
        data += f"{number} 0 obj\n{body}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    trailer = f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(data)}\n%%EOF\n"
    return f"{data}xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{trailer}".encode()


async def test_pages_are_shown_as_text_and_gone_through(workspace: Workspace, tmp_path: Path) -> None:
    (workspace.root / "a.pdf").write_bytes(pdf(["Hello\nworld", "two", "three"]))
    result = await Read().run({"path": "a.pdf"}, workspace)
    assert result.text == "[page 1]\nHello\nworld\n[page 2]\ntwo\n[page 3]\nthree"
    assert result.extent == Extent("pages", 3, 3)
    part = await Read().run({"path": "a.pdf", "offset": 2, "limit": 1}, workspace)
    assert part.text == "[page 2]\ntwo\n(pages 2-2 of 3; go on with offset=3)"
    assert part.extent == Extent("pages", 1, 3, 2)
    small = Workspace(workspace.root, tmp_path, read_limits=ReadLimits(max_bytes=30))
    assert (await Read().run({"path": "a.pdf"}, small)).text.endswith("world\n(pages 1-1 of 3; go on with offset=2)")


def encrypted(password: str) -> bytes:
    writer, out = PdfWriter(PdfReader(io.BytesIO(pdf(["secret"])))), io.BytesIO()
    writer.encrypt(password, owner_password="owner", algorithm="AES-256")
    writer.write(out)
    return out.getvalue()


async def test_a_pdf_that_cannot_be_shown_is_explained(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    async def read_pdf(content: bytes, **arguments: object) -> str:
        (workspace.root / "a.pdf").write_bytes(content)
        try:
            return (await Read().run({"path": "a.pdf", **arguments}, workspace)).text
        except ToolError as error:
            return f"error: {error}"

    assert await read_pdf(encrypted("")) == "[page 1]\nsecret"
    assert await read_pdf(encrypted("x")) == (
        "error: `a.pdf` is encrypted: ask for its password, then decrypt it in bash with qpdf --decrypt"
    )
    assert await read_pdf(pdf(["", ""])) == (
        "pages 1-2 of 2 of `a.pdf` contain no text, so they are images, as in a scan: "
        "convert them to images in bash with `pdftoppm -r 100 -png` and read those"
    )
    assert await read_pdf(pdf(["one"]), offset=2) == "error: `a.pdf` has 1 page: offset=2 is beyond its end"
    broken = await read_pdf(b"%PDF-1.7\n" + os.urandom(64))
    assert broken.startswith("error: `a.pdf` cannot be read as a PDF (")
    assert broken.endswith("): try pdftotext in bash")
    monkeypatch.setattr(ebbtide.tools.documents.pdf, "READ_TIMEOUT_S", 0.01)
    assert await read_pdf(pdf(["one"])) == (
        "error: `a.pdf` cannot be read as a PDF (it takes too much time or memory): try pdftotext in bash"
    )
    monkeypatch.undo()
    monkeypatch.setattr(ebbtide.tools.documents.converter, "MAX_MEMORY_BYTES", 14 << 20)
    assert await read_pdf(pdf(["one"])) == (
        "error: `a.pdf` cannot be read as a PDF (it takes too much time or memory): try pdftotext in bash"
    )
