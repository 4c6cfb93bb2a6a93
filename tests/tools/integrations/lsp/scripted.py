"""A language server that does what its arguments say: for words in files it finds problems, and it has one fault.

`python scripted.py [FAULT]`. A line of a file that holds `wrong` is an error, `doubtful` a warning; `wrong in NAME` is
an error of the file NAME beside it. Faults: see `main`."""

import json
import os
import sys
import time
from typing import Any

FAULT = sys.argv[1] if len(sys.argv) > 1 else ""
PULLS = FAULT == "pull"
ENCODING = FAULT.removeprefix("counts ") if FAULT.startswith("counts ") else "utf-16"
CODEC, UNIT = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}[ENCODING]
ABLE = dict.fromkeys(("definition", "references", "documentSymbol", "workspaceSymbol"), True)
texts: dict[str, str] = {}


def read() -> dict[str, Any] | None:
    length = 0
    while (line := sys.stdin.buffer.readline()) not in (b"\r\n", b""):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    body = sys.stdin.buffer.read(length)
    return json.loads(body) if body else None


def send(message: dict[str, Any]) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Type: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
    sys.stdout.buffer.flush()


def ask(id: Any, method: str, params: Any) -> Any:
    """Asks the client, and waits for nothing else than its answer."""
    send({"id": id, "method": method, "params": params})
    answer = read()
    assert answer is not None
    assert answer["id"] == id, answer
    return answer.get("result", answer.get("error"))


def place(line: int, word: str, text: str) -> dict[str, Any]:
    start = text.index(word)
    return {"start": {"line": line, "character": start}, "end": {"line": line, "character": start + len(word)}}


def found_in(text: str) -> list[dict[str, Any]]:
    problems = []
    for number, line in enumerate(text.split("\n")):
        for word, severity in (("wrong", 1), ("doubtful", 2)):
            if word in line and "wrong in" not in line:
                problems.append(
                    {"range": place(number, word, line), "severity": severity, "message": f"{word}\nhere", "code": "W1"}
                )
    return problems


def publish(uri: str, version: int | None, found: list[dict[str, Any]]) -> None:
    params: dict[str, Any] = {"uri": uri, "diagnostics": found}
    send({"method": "textDocument/publishDiagnostics", "params": params | ({"version": version} if version else {})})


def show(uri: str, version: int, text: str) -> None:
    texts[uri] = text
    if "die here" in text:
        print("a word that it cannot stand", file=sys.stderr)
        os._exit(3)
    if PULLS or FAULT == "silent":
        return
    if FAULT == "late":
        time.sleep(0.15)
    if FAULT == "flood":
        for _ in range(1000):
            send({"method": "window/logMessage", "params": {"type": 4, "message": "x" * 200_000}})
    if FAULT == "many":
        publish(uri, version, found_in("wrong\n" * 3_000))
        return
    if FAULT == "other versions":
        publish(uri, version - 1, found_in("wrong of an old version"))
        publish(uri, version + 7, found_in("wrong of a version to come"))
        publish("file:///elsewhere/x.txt", None, found_in("wrong elsewhere"))
        publish("untitled:x", None, found_in("wrong nowhere"))
    publish(uri, None if FAULT == "no versions" else version, found_in(text))
    for line in text.split("\n"):
        if "wrong in " in line:
            publish(uri.rpartition("/")[0] + "/" + line.partition("wrong in ")[2], None, found_in("wrong"))


def symbols(method: str, params: dict[str, Any]) -> Any:
    uri = params.get("textDocument", {}).get("uri", "")
    if method == "textDocument/documentSymbol":
        lines = enumerate(texts[uri].split("\n"))
        return [
            {
                "name": line.split()[1],
                "kind": 12,
                "range": place(at, line, line),
                "selectionRange": place(at, line, line),
            }
            for at, line in lines
            if line.startswith("def ")
        ]
    if method == "workspace/symbol":
        every = ((uri, at, line) for uri, text in texts.items() for at, line in enumerate(text.split("\n")))
        return [
            {"name": line.split()[1], "kind": 12, "location": {"uri": uri, "range": place(at, line, line)}}
            for uri, at, line in every
            if line.startswith("def ") and params["query"] in line
        ]
    at = params["position"]
    line = texts[uri].split("\n")[at["line"]]
    start = line.encode(CODEC)[: at["character"] * UNIT].decode(CODEC)
    rest = line[len(start) :]
    name = "".join(sign if sign.isidentifier() else " " for sign in rest).split()[0]
    places = [
        {"uri": other, "range": place(number, name, line)}
        for other, text in texts.items()
        for number, line in enumerate(text.split("\n"))
        if name in line and (method == "textDocument/references" or line.startswith(f"def {name}"))
    ]
    return places if method == "textDocument/references" else places[0] if places else None


def main() -> None:
    if FAULT == "dies at start":
        sys.exit("no such licence")
    if FAULT == "no messages":
        print("Welcome to the server!\n" * 400, flush=True)
        time.sleep(60)
    while (message := read()) is not None:
        method, params, id = str(message.get("method")), message.get("params") or {}, message.get("id")
        match method:
            case "initialize":
                if FAULT == "never answers":
                    continue
                if FAULT == "too long":
                    sys.stdout.buffer.write(b"Content-Length: 99999999999\r\n\r\n{")
                    sys.stdout.buffer.flush()
                    time.sleep(60)
                if FAULT == "no length":
                    sys.stdout.buffer.write(b"Content-Type: x\r\n\r\n{}")
                    sys.stdout.buffer.flush()
                    time.sleep(60)
                if FAULT == "no json":
                    sys.stdout.buffer.write(b"Content-Length: 5\r\n\r\n{]{]{")
                    sys.stdout.buffer.flush()
                    time.sleep(60)
                provider = {"diagnosticProvider": {"interFileDependencies": False}} if PULLS else {}
                if FAULT == "asks":
                    asked = [
                        ask("a", "window/workDoneProgress/create", {"token": "t"}),
                        ask(7, "workspace/configuration", {"items": [{"section": "its.own"}, {"section": "no.such"}]}),
                        ask(8, "client/registerCapability", {"registrations": []}),
                        ask(9, "workspace/applyEdit", {"edit": {}})["applied"],
                        ask(10, "made/up", {})["code"],
                    ]
                    print(json.dumps(asked), file=sys.stderr, flush=True)
                able = {f"{name}Provider": value for name, value in ABLE.items()} | {"positionEncoding": ENCODING}
                send({"id": id, "result": {"capabilities": {"textDocumentSync": 1, **provider, **able}}})
            case "shutdown":
                send({"id": id, "result": None})
            case "exit":
                return
            case "textDocument/didOpen":
                show(params["textDocument"]["uri"], params["textDocument"]["version"], params["textDocument"]["text"])
            case "textDocument/didChange":
                changed = params["textDocument"]
                show(changed["uri"], changed["version"], params["contentChanges"][0]["text"])
            case "textDocument/diagnostic":
                send({"id": id, "result": {"kind": "full", "items": found_in(texts[params["textDocument"]["uri"]])}})
            case _ if id is not None:
                send({"id": id, "result": symbols(method, params)})
            case _:
                pass


if __name__ == "__main__":
    main()
