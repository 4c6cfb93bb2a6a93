"""A server for tests of sessions, in plain Python so that it starts at once: `python mcp_program.py FOLDER`.

It offers what `tools.json` in the folder lists, or `echo`; and the resources of `library.json`. Where the folder has a
FIFO `gate`, it is ready only once somebody has opened that for writing. It speaks the protocol of 2025 over its
pipes."""

import json
import os
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])
LIBRARY = FOLDER / "library.json"
"""Texts by their addresses: where this is there, the server has resources, and a prompt."""
INSTRUCTIONS = FOLDER / "instructions"
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
capabilities: dict[str, Any] = {}


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def tools() -> list[dict[str, Any]]:
    listed = FOLDER / "tools.json"
    names = json.loads(listed.read_text()) if listed.exists() else {"echo": "Says it again."}
    schema = {"type": "object", "properties": {"text": {"type": "string"}, "form": {"type": "object"}}}
    return [{"name": name, "description": description, "inputSchema": schema} for name, description in names.items()]


def asked(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """What the client answers to a request of ours."""
    send({"id": "ours", "method": method, "params": params})
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") == "ours":
            return dict(message.get("result") or message["error"])
    raise SystemExit


def call(name: str, arguments: dict[str, Any]) -> str:
    match name:
        case "die":
            os._exit(3)
        case "elicit":
            if "url" in arguments:
                opens = {"mode": "url", "message": "Who are you?", "url": arguments["url"], "elicitationId": "1"}
                return json.dumps(asked("elicitation/create", opens))
            form = arguments.get("form", FORM)
            return json.dumps(asked("elicitation/create", {"message": "Who are you?", "requestedSchema": form}))
        case "sample":
            said = {"role": "user", "content": {"type": "text", "text": arguments.get("text", "hi")}}
            return json.dumps(asked("sampling/createMessage", {"messages": [said], "maxTokens": 50}))
        case "grow":
            (FOLDER / "tools.json").write_text(json.dumps(json.loads(arguments["text"])))
            send({"method": "notifications/tools/list_changed"})
            return "grown"
        case "told":
            return json.dumps(capabilities, sort_keys=True)
        case _:
            return str(arguments.get("text", ""))


def answer(message: dict[str, Any]) -> None:
    id, params = message.get("id"), message.get("params", {})
    match message.get("method"):
        case "initialize":
            capabilities.update(params["capabilities"])
            offers = {"tools": {"listChanged": True}} | ({"resources": {}, "prompts": {}} if LIBRARY.exists() else {})
            info = {"name": "program", "version": "1"}
            version = "2025-11-25"
            greeting: dict[str, Any] = {"protocolVersion": version, "capabilities": offers, "serverInfo": info}
            if INSTRUCTIONS.exists():
                greeting["instructions"] = INSTRUCTIONS.read_text()
            send({"id": id, "result": greeting})
        case "tools/list":
            send({"id": id, "result": {"tools": tools()}})
        case "tools/call":
            text = call(params["name"], params.get("arguments", {}))
            send({"id": id, "result": {"content": [{"type": "text", "text": text}]}})
        case "resources/list":
            uris = json.loads(LIBRARY.read_text())
            send({"id": id, "result": {"resources": [{"uri": uri, "name": uri.rpartition("/")[2]} for uri in uris]}})
        case "resources/templates/list":
            send({"id": id, "result": {"resourceTemplates": []}})
        case "resources/read" if params["uri"] in (texts := json.loads(LIBRARY.read_text())):
            contents = [{"uri": params["uri"], "mimeType": "text/plain", "text": texts[params["uri"]]}]
            send({"id": id, "result": {"contents": contents}})
        case "resources/read":
            send({"id": id, "error": {"code": -32002, "message": "Resource not found"}})
        case "prompts/list":
            wanted = [{"name": "file", "required": True}, {"name": "style"}]
            send(
                {"id": id, "result": {"prompts": [{"name": "review", "description": "Reviews.", "arguments": wanted}]}}
            )
        case "prompts/get":
            text = f"Review {params['arguments']['file']}, {params['arguments'].get('style', 'kindly')}."
            said = {"role": "user", "content": {"type": "text", "text": text}}
            send({"id": id, "result": {"messages": [said]}})
        case str() if id is not None:
            send({"id": id, "error": {"code": -32601, "message": "Method not found"}})


def main() -> None:
    (FOLDER / "started").touch()
    (FOLDER / "pid").write_text(str(os.getpid()))
    if (FOLDER / "gate").exists():
        (FOLDER / "gate").open().close()
    for line in sys.stdin:
        answer(json.loads(line))


if __name__ == "__main__":
    main()
