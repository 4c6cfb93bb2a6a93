"""The process that reads a PDF from standard input and prints one JSON object per page. Only this process loads
pypdf."""

import json
import sys
from collections.abc import Mapping

MAX_PAGE_CHARS = 200_000
"""Maximum number of characters per page."""


def main(request_json: str) -> None:
    """Print the number of pages, then the text of each page from `first` to `last` until `most` bytes are reached. If
    the file cannot be read, print why."""
    from pypdf import PdfReader  # noqa: PLC0415  # deferred: import errors are reported like read errors

    try:
        reader = PdfReader(sys.stdin.buffer)
        if reader.is_encrypted and not reader.decrypt(""):
            _emit({"problem": "encrypted"})
            return
        count = len(reader.pages)
    except Exception as error:  # noqa: BLE001  # a broken file can make the library raise anything
        _emit({"problem": f"{type(error).__name__}: {error}"[:300]})
        return
    _emit({"pages": count})
    request, size = json.loads(request_json), 0
    for number in range(request["first"], min(request["last"], count) + 1):
        try:
            text = reader.pages[number - 1].extract_text()[:MAX_PAGE_CHARS]
            _emit({"page": number, "text": text.encode("utf-8", "replace").decode()})
        except Exception as error:  # noqa: BLE001  # as above, for one page
            text = ""
            _emit({"page": number, "problem": f"{type(error).__name__}: {error}"[:300]})
        size += len(text.encode("utf-8", "replace"))
        if size > request["most"]:
            return


def _emit(record: Mapping[str, object]) -> None:
    print(json.dumps(record), flush=True)
