"""The programs that are compared: how each is configured and started, each in a home folder of its own."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

MODEL = "claude-sonnet-4-5"
"""A model that all programs that speak Anthropic's protocol know."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a program runs, and the server that it asks."""

    home: Path
    project: Path
    url: str


@dataclass(frozen=True, slots=True)
class Program:
    """An agent as an installed program. The commands are arguments, without the program's own path."""

    name: str
    executable: str
    terminal: Sequence[str]
    """Arguments that open the interface."""
    headless: Callable[[str], Sequence[str]]
    """Arguments that answer a prompt and exit."""
    resume: Callable[[Path], Sequence[str]]
    """Arguments that open the interface with the only session, from the home folder."""
    configure: Callable[[Place], Mapping[str, str]]
    """Writes the configuration into the home folder, and returns the environment variables that are needed."""
    first_questions: Mapping[str, str] = field(default_factory=dict)
    """What the interface asks once in each project, and the keys that answer it."""


@dataclass(frozen=True, slots=True)
class Installed:
    """A program that is installed here, and where."""

    program: Program
    path: Path

    @property
    def name(self) -> str:
        return self.program.name


def configure_ebb(place: Place) -> Mapping[str, str]:
    return {"ANTHROPIC_BASE_URL": place.url, "ANTHROPIC_API_KEY": "key"}


def configure_codex(place: Place) -> Mapping[str, str]:
    _write(
        place.home / ".codex" / "config.toml",
        f"""\
model = "gpt-5-codex"
model_provider = "local"
check_for_update_on_startup = false

[analytics]
enabled = false

[features]
apps = false
plugins = false
remote_plugin = false

[model_providers.local]
name = "local"
base_url = "{place.url}/v1"
wire_api = "responses"
env_key = "LOCAL_API_KEY"

[projects."{place.project}"]
trust_level = "trusted"
""",
    )
    return {"LOCAL_API_KEY": "key"}


def configure_claude(place: Place) -> Mapping[str, str]:
    project = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True, "allowedTools": []}
    state = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "numStartups": 5,
        "customApiKeyResponses": {"approved": ["key"], "rejected": []},
        "projects": {str(place.project): project},
    }
    file = place.home / ".claude.json"
    if not file.exists():
        _write(file, json.dumps(state))
    return {
        "ANTHROPIC_BASE_URL": place.url,
        "ANTHROPIC_API_KEY": "key",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
    }


def configure_pi(place: Place) -> Mapping[str, str]:
    folder = place.home / ".pi" / "agent"
    model = {"id": MODEL, "contextWindow": 200000, "maxTokens": 16000}
    local = {"baseUrl": place.url, "api": "anthropic-messages", "apiKey": "key", "models": [model]}
    _write(folder / "models.json", json.dumps({"providers": {"local": local}}))
    _write(folder / "settings.json", json.dumps({"defaultProvider": "local", "defaultModel": MODEL}))
    return {"PI_OFFLINE": "1", "PI_TELEMETRY": "0"}


def configure_opencode(place: Place) -> Mapping[str, str]:
    model = {"name": "local", "tool_call": True, "limit": {"context": 200000, "output": 16000}}
    local = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "local",
        "options": {"baseURL": f"{place.url}/v1", "apiKey": "key"},
        "models": {"model": model},
    }
    settings = {
        "autoupdate": False,
        "share": "disabled",
        "model": "local/model",
        "small_model": "local/model",
        "enabled_providers": ["local"],
        "permission": "allow",
        "provider": {"local": local},
    }
    folder = place.home / ".config" / "opencode"
    _write(folder / "opencode.json", json.dumps(settings))
    # What it installs from the registry at its first start, and waits for; nothing here uses it.
    needed = {"dependencies": {"@opencode-ai/plugin": "*"}}
    _write(folder / "package.json", json.dumps(needed))
    _write(folder / "package-lock.json", json.dumps({"lockfileVersion": 3, "packages": {"": needed}}))
    (folder / "node_modules").mkdir(exist_ok=True)
    names = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "SHARE")
    return {f"OPENCODE_DISABLE_{name}": "1" for name in names}


def configure_kimi(place: Place) -> Mapping[str, str]:
    model = {"NAME": MODEL, "API_KEY": "key", "PROVIDER_TYPE": "anthropic", "BASE_URL": place.url}
    variables = {f"KIMI_MODEL_{name}": value for name, value in model.items()}
    return {**variables, "KIMI_CODE_NO_AUTO_UPDATE": "1", "KIMI_DISABLE_TELEMETRY": "1"}


def only_claude_session(home: Path) -> str:
    """Return the id of the session that Claude Code has stored; its `-c` ignores sessions without a terminal."""
    return next((home / ".claude" / "projects").glob("*/*.jsonl")).stem


PROGRAMS: Sequence[Program] = (
    Program(
        "ebb",
        "ebb",
        ("-m", f"anthropic/{MODEL}", "--permission-mode", "auto"),
        lambda prompt: ("-p", prompt, "-m", f"anthropic/{MODEL}", "--permission-mode", "auto"),
        lambda _: ("-c", "-m", f"anthropic/{MODEL}", "--permission-mode", "auto"),
        configure_ebb,
    ),
    Program(
        "codex",
        "codex",
        (),
        lambda prompt: ("exec", "--skip-git-repo-check", "--sandbox", "workspace-write", prompt),
        lambda _: ("resume", "--last", "--include-non-interactive"),
        configure_codex,
    ),
    Program(
        "claude",
        "claude",
        ("--model", MODEL),
        lambda prompt: ("-p", prompt, "--model", MODEL, "--allowedTools", "Bash"),
        lambda home: ("--resume", only_claude_session(home), "--model", MODEL),
        configure_claude,
    ),
    Program("pi", "pi", (), lambda prompt: ("-p", prompt), lambda _: ("-c",), configure_pi),
    Program("opencode", "opencode", (), lambda prompt: ("run", prompt), lambda _: ("-c",), configure_opencode),
    Program(
        "kimi",
        "kimi",
        ("--auto",),
        lambda prompt: ("-p", prompt),
        lambda _: ("-c", "--auto"),
        configure_kimi,
        {"Trust this folder?": "\r"},
    ),
)

VARIANTS: Sequence[Program] = (
    replace(
        PROGRAMS[0],
        name="ebb --no-sandbox",
        headless=lambda prompt: (*PROGRAMS[0].headless(prompt), "--no-sandbox"),
    ),
)
"""Our program with other flags, for rows in which they matter."""


def find_programs(folder: Path | None) -> tuple[list[Installed], list[str]]:
    """Return the programs that are installed, ours first, and the names of the others. Ours is the one beside the
    running Python; others are in `folder` or on PATH."""
    found, missing = [], []
    for program in PROGRAMS:
        path = _find(program.executable, Path(sys.executable).parent if program.name == "ebb" else folder)
        if path is None:
            missing.append(program.name)
        else:
            found.append(Installed(program, path))
    return found, missing


def variants_of(found: Sequence[Installed]) -> list[Installed]:
    """Return our program with other flags, if it is among the installed programs."""
    return [Installed(variant, found[0].path) for variant in VARIANTS if found and found[0].name == PROGRAMS[0].name]


def environment(installed: Installed, place: Place) -> dict[str, str]:
    """Configure a program and return all its environment variables: those of a new user whose requests to other hosts
    go to our server, which refuses them."""
    inherited = {name: os.environ[name] for name in ("LANG",) if name in os.environ}
    proxies = {name: place.url for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")}
    direct = {name: "127.0.0.1,localhost" for name in ("NO_PROXY", "no_proxy")}
    place.home.mkdir(parents=True, exist_ok=True)
    own = installed.program.configure(place)
    return {
        **inherited,
        **proxies,
        **direct,
        "PATH": search_path(installed),
        "HOME": str(place.home),
        "SHELL": "/bin/bash",
        **own,
    }


def search_path(installed: Installed) -> str:
    """Return PATH with the program's own folder first, because a Node that it needs may be installed there."""
    return os.pathsep.join([str(installed.path.parent), os.environ.get("PATH", "")])


def _find(name: str, folder: Path | None) -> Path | None:
    searched = [str(folder)] if folder is not None else []
    path = shutil.which(name, path=os.pathsep.join([*searched, os.environ.get("PATH", "")]))
    return None if path is None else Path(path).absolute()


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
