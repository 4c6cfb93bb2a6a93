"""Checks settings, keys, model, sandbox and servers, without contacting or starting any server."""

import os
from collections.abc import Iterator, Mapping

from ebbtide.agent.archive.embeddings import Embedder, EmbeddingFailed, folder_of
from ebbtide.agent.config.options import PROVIDERS
from ebbtide.agent.config.values import Config
from ebbtide.agent.doctor.check_result import CheckResult
from ebbtide.agent.errors import AgentError, ConfigError
from ebbtide.agent.lsp.find import found_servers
from ebbtide.agent.mcp.manage import rows
from ebbtide.agent.providers.keys import KeyStore, stored_key
from ebbtide.agent.providers.setup import find_endpoint, first_choice, key_variable
from ebbtide.tools.files.endings import endings_in
from ebbtide.tools.process.shell import child_environment
from ebbtide.tools.process.user_variables import withheld_direnv_variables
from ebbtide.tools.sandbox.network_namespace import why_no_namespace
from ebbtide.tools.sandbox.system import NoSandbox, SandboxProgram, found_sandbox


def examine_settings(config: Config, environment: Mapping[str, str]) -> Iterator[CheckResult]:
    """Check the configuration files, the model and the API keys."""
    files = [config.folders.config / "config.toml", config.project / ".ebb" / "config.toml"]
    read = [str(path) for path in files if path.exists()]
    yield CheckResult("configuration", "well", f"read from {' and '.join(read)}" if read else "no file; using defaults")
    for notice in config.notices:
        yield CheckResult("configuration", "note", notice)
    yield from _keys(config, environment)
    yield from _model(config, environment)
    yield _sandbox(config)
    yield from _environment(environment)
    if config.may_have_servers:
        yield from _servers(config, environment)
    if config.lsp_enabled:
        yield from _language_servers(config, environment)
    if config.recall_embedding_model is not None:
        yield _embedding_model(config.recall_embedding_model)


def _sandbox(config: Config) -> CheckResult:
    if config.sandbox == "off":
        return CheckResult("sandbox", "well", "commands run without one (`agent.sandbox` is `off`)")
    match found_sandbox():
        case SandboxProgram(kind=kind, note=note):
            closed = why_no_namespace()
            told = f"commands run in {kind}"
            network = (
                f"they have no network access; the rule `network` grants all of it: {closed}"
                if closed
                else "rules such as `network(example.org)` grant network access"
            )
            return CheckResult(
                "sandbox", "note" if note or closed else "well", "; ".join(filter(None, (told, note, network)))
            )
        case NoSandbox(why=why):
            if config.sandbox == "require":
                return CheckResult("sandbox", "broken", f"no sandbox is available, so commands are refused: {why}")
            return CheckResult(
                "sandbox",
                "note",
                f"no sandbox is available, so every mode asks before commands that are not read-only: {why}",
            )


def _environment(environment: Mapping[str, str]) -> Iterator[CheckResult]:
    """Report direnv variables that commands do not receive. Other variables are not listed, since a shell has many."""
    withheld = withheld_direnv_variables(environment, child_environment(environment))
    if withheld:
        names = " ".join(sorted(withheld))
        yield CheckResult(
            "environment",
            "note",
            f"direnv sets variables that may contain secrets; commands do not get them: {', '.join(sorted(withheld))}",
            f"set `EBB_PASS_ENV='{names}'` to pass them on",
        )


def _embedding_model(setting: str) -> CheckResult:
    try:
        embedder = Embedder(setting)
    except EmbeddingFailed as error:
        return CheckResult("meanings", "broken", str(error))
    return CheckResult("meanings", "well", f"`{folder_of(setting)}` returns vectors of {embedder.size:,} numbers")


def _keys(config: Config, environment: Mapping[str, str]) -> Iterator[CheckResult]:
    variables = dict.fromkeys(filter(None, (key_variable(name, config.provider(name)) for name in PROVIDERS)))
    found = [variable for variable in variables if environment.get(variable)]
    store = KeyStore(config.folders.config)
    try:
        kept = store.stored_keys()
    except ConfigError as error:
        kept = {}
        yield CheckResult("keys", "broken", str(error))
    for name, key in kept.items():
        place = "the keyring of this system" if key.place == "keyring" else f"`{store.path}`"
        if stored_key(environment, name) is None:
            yield CheckResult(
                "keys", "broken", f"{place} does not return the key for {name}; run `ebb key set {name}` again"
            )
        else:
            yield CheckResult("keys", "well", f"key for {name} from {place}, used only for {key.origin}")
    if found or kept:
        if not found:
            return
        yield CheckResult("keys", "well", f"found in {', '.join(found)}")
    else:
        yield CheckResult("keys", "note", f"none set in {', '.join(variables)}; local servers need none")


def _model(config: Config, environment: Mapping[str, str]) -> Iterator[CheckResult]:
    for model in (config.model, *config.fallback_models):
        try:
            chosen = model or first_choice(environment)
            name = chosen.partition("/")[0]
            if name in PROVIDERS and name != "scripted":
                find_endpoint(name, config.provider(name), environment)
        except AgentError as error:
            yield CheckResult("model", "broken", str(error))
            continue
        if name in PROVIDERS:
            yield CheckResult("model", "well", f"`{chosen}`; the server was not contacted")
        else:
            advice = f"write PROVIDER/NAME; providers are {', '.join(PROVIDERS)}"
            yield CheckResult("model", "broken", f"unknown provider in `{chosen}`", advice)


def _servers(config: Config, environment: Mapping[str, str]) -> Iterator[CheckResult]:
    found = rows(config, environment)
    for row in found:
        subject = f"`{row.name}` of `{row.source}`" if row.name else f"`{row.source}`"
        match row.standing:
            case "unusable":
                yield CheckResult("servers", "broken", f"{subject} cannot be used: {row.detail}")
            case "not approved" | "changed":
                yield CheckResult("servers", "note", f"{subject}: {row.detail}", f"`ebb mcp test {row.name}` shows it")
            case "on" | "off" | "refused":
                pass
    on = [row.name for row in found if row.standing == "on"]
    if on:
        yield CheckResult("servers", "well", f"{', '.join(on)}; not started for this check")


def _language_servers(config: Config, environment: Mapping[str, str]) -> Iterator[CheckResult]:
    """Report the language servers that would be started for files of their language; nothing if there are none."""
    subject = "language servers"
    found, endings = found_servers(config, config.project, environment), endings_in(config.project)
    missing = [one for one in found if not os.access(one.spec.command[0], os.X_OK)]
    on = [one for one in found if one.standing == "on" and one not in missing]
    if on:
        names = ", ".join(f"{one.spec.name} ({one.spec.command[0]})" for one in on)
        yield CheckResult(subject, "well", f"{names}; not started for this check")
    for one in found:
        if one.standing == "not approved" and any(ending in endings for ending in one.spec.extensions):
            yield CheckResult(
                subject, "note", f"{one.spec.name} ({one.source}) is not started: this folder is not trusted"
            )
        elif one in missing:
            yield CheckResult(subject, "broken", f"{one.spec.name}: program `{one.spec.command[0]}` not found")
