"""Search without rg: a program of its own that prints what `rg --files --null` and `rg --json` would print.

It runs as a process because a regular expression can take for ever and nothing stops one inside Python; a process can
be killed. It knows folders and lines, not tools.
"""

import base64
import json
import os
import re
import stat
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tools.walk import files_below

_START = "import sys, json; sys.path[:] = json.loads(sys.argv[1]); from tools.searcher import main; main(sys.argv[2])"

_UTF16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}


def argv_for(
    pattern: str | None, only_file: str | None = None, ignore_case: bool = False, context: int = 0
) -> list[str]:
    """The command that lists the files of its working folder, or searches them (or the one file) for the pattern."""
    request = {"pattern": pattern, "only_file": only_file, "ignore_case": ignore_case, "context": context}
    places = [str(Path(__file__).parents[1]), *(place for place in sys.path if place)]
    return [sys.executable, "-I", "-S", "-c", _START, json.dumps(places), json.dumps(request)]


def main(request_json: str) -> None:
    request = json.loads(request_json)
    try:
        if request["pattern"] is None:
            for path in files_below(os.getcwd()):
                sys.stdout.buffer.write(os.fsencode(path) + b"\0")
        else:
            _search(request)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        os._exit(0)  # nobody reads any more


def _search(request: Mapping[str, object]) -> None:
    pattern = re.compile(str(request["pattern"]), re.IGNORECASE if request["ignore_case"] else 0)
    context = int(str(request["context"]))
    only_file = request["only_file"]
    paths = [only_file] if isinstance(only_file, str) else files_below(os.getcwd())
    for path in paths:
        begun = False
        for kind, number, line in _hits(path, pattern.search, context):
            if not begun:
                _print("begin", {"path": _text(path)})
                begun = True
            _print(kind, {"line_number": number, "lines": {"text": line}})
        if begun:
            _print("end", {"binary_offset": None})
            sys.stdout.buffer.flush()  # the next file may take for ever


def _hits(path: str, search: Callable[[str], object], context: int) -> Iterator[tuple[str, int, str]]:
    """The matching lines of a text file with the lines around them."""
    before: deque[tuple[str, int, str]] = deque(maxlen=context)
    after = 0
    for number, line in enumerate(_lines(path), start=1):
        if search(line):
            yield from before
            before.clear()
            yield "match", number, line
            after = context
        elif after:
            yield "context", number, line
            after -= 1
        else:
            before.append(("context", number, line))


def _lines(path: str) -> Iterator[str]:
    """The lines of a text file; none of a binary one, or one that cannot be read."""
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return
            start = file.read(3)
            codec = _UTF16.get(start[:2])
            if codec is not None:
                text = start[2:] + file.read()
                yield from (line.removesuffix("\r") for line in _split(text.decode(codec, "replace")))
                return
            if b"\0" in start or any(b"\0" in chunk for chunk in iter(lambda: file.read(1 << 20), b"")):
                return
            file.seek(3 if start == b"\xef\xbb\xbf" else 0)
            for raw in file:
                yield raw.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "replace")
    except OSError:
        return


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)


def _split(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def _print(kind: str, data: Mapping[str, object]) -> None:
    sys.stdout.buffer.write(json.dumps({"type": kind, "data": data}).encode() + b"\n")


def _text(path: str) -> Mapping[str, str]:
    try:
        path.encode()
    except UnicodeEncodeError:
        return {"bytes": base64.b64encode(os.fsencode(path)).decode()}
    return {"text": path}
