"""The process that reads a PDF from standard input and prints one JSON object per page. Only this process loads
pypdf."""

import json
import sys
from collections.abc import Mapping

MAX_PAGE_CHARS = 200_000
"""Maximum number of characters per page."""


def main(request_json: str) -> None:
    """Print the number of pages, then the text of each page from the request's `first_page` to its `last_page`. Stops
    once `max_bytes` is exceeded. If the file cannot be read, prints why."""
    from pypdf import PdfReader  # noqa: PLC0415  # deferred: import errors are reported like read errors

    try:
        reader = PdfReader(sys.stdin.buffer)
        if reader.is_encrypted and not reader.decrypt(""):
            _emit({"problem": "encrypted"})
            return
        page_count = len(reader.pages)
    except Exception as error:  # noqa: BLE001  # a broken file can make the library raise anything
        _emit({"problem": f"{type(error).__name__}: {error}"[:300]})
        return
    _emit({"pages": page_count})
    request = json.loads(request_json)
    printed_bytes = 0
    for page_number in range(request["first_page"], min(request["last_page"], page_count) + 1):
        try:
            text = reader.pages[page_number - 1].extract_text()[:MAX_PAGE_CHARS]
            _emit({"page": page_number, "text": text.encode("utf-8", "replace").decode()})
        except Exception as error:  # noqa: BLE001  # as above, for one page
            text = ""
            _emit({"page": page_number, "problem": f"{type(error).__name__}: {error}"[:300]})
        printed_bytes += len(text.encode("utf-8", "replace"))
        if printed_bytes > request["max_bytes"]:
            return


def _emit(record: Mapping[str, object]) -> None:
    print(json.dumps(record), flush=True)
