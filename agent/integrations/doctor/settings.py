"""Checks settings, keys, models, the sandbox and servers, without contacting or starting any server."""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias, cast

from ebbtide.agent.config.options import PROVIDER_NAMES
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import AgentError, ConfigError
from ebbtide.agent.integration_registry import DOCTOR_CHECKS, load_integration
from ebbtide.agent.integrations.doctor.check_result import CheckResult
from ebbtide.agent.providers.keys import KeyStore, StoredKey, read_stored_key, sign_in_store
from ebbtide.agent.providers.setup import find_default_model, find_endpoint, key_variable, uses_key_command
from ebbtide.tools.outputs.extent import join_limited
from ebbtide.tools.process.shell import child_environment
from ebbtide.tools.process.user_variables import withheld_direnv_variables
from ebbtide.tools.sandbox.network_namespace import namespace_problem
from ebbtide.tools.sandbox.system import NoSandbox, SandboxProgram, detect_sandbox

DoctorCheck: TypeAlias = Callable[[Config, Mapping[str, str]], Iterator[CheckResult]]


def check_settings(config: Config, environment: Mapping[str, str]) -> Iterator[CheckResult]:
    """Check the configuration files, the model and the API keys."""
    files = [config.folders.config / "config.toml", config.project_folder / ".ebb" / "config.toml"]
    existing_files = [str(path) for path in files if path.exists()]
    yield CheckResult(
        "configuration",
        "well",
        f"read from {' and '.join(existing_files)}" if existing_files else "no file; using defaults",
    )
    for notice in config.notices:
        yield CheckResult("configuration", "note", notice)
    yield from _check_keys(config, environment)
    yield from _check_models(config, environment)
    yield _check_sandbox(config)
    yield from _check_environment(environment)
    for integration in DOCTOR_CHECKS.values():
        yield from cast(DoctorCheck, load_integration(integration))(config, environment)


def _check_sandbox(config: Config) -> CheckResult:
    if config.sandbox == "off":
        return CheckResult("sandbox", "well", "commands run without one (`agent.sandbox` is `off`)")
    match detect_sandbox():
        case SandboxProgram(kind=kind, note=note):
            no_network_reason = namespace_problem()
            description = f"commands run in {kind}"
            network_text = (
                f"they have no network access; the rule `network` grants all of it: {no_network_reason}"
                if no_network_reason
                else "rules such as `network(example.org)` grant network access"
            )
            return CheckResult(
                "sandbox",
                "note" if note or no_network_reason else "well",
                "; ".join(filter(None, (description, note, network_text))),
            )
        case NoSandbox(problem=reason):
            if config.sandbox == "require":
                return CheckResult("sandbox", "broken", f"no sandbox is available, so commands are refused: {reason}")
            return CheckResult(
                "sandbox",
                "note",
                f"no sandbox is available, so every mode asks before commands that are not read-only: {reason}",
            )


def _check_environment(environment: Mapping[str, str]) -> Iterator[CheckResult]:
    """Report variables set by direnv that commands do not receive. Other withheld variables are not reported, because a
    shell has many."""
    withheld_variables = withheld_direnv_variables(environment, child_environment(environment))
    if withheld_variables:
        names = " ".join(sorted(withheld_variables))
        yield CheckResult(
            "environment",
            "note",
            "direnv sets variables that may contain secrets; commands do not get them: "
            f"{', '.join(sorted(withheld_variables))}",
            f"set `EBB_PASS_ENV='{names}'` to pass them on",
        )


def _check_keys(config: Config, environment: Mapping[str, str]) -> Iterator[CheckResult]:
    variables = dict.fromkeys(
        filter(None, (key_variable(name, config.provider_config(name)) for name in PROVIDER_NAMES))
    )
    set_variables = [variable for variable in variables if environment.get(variable)]
    key_store = KeyStore(config.folders.config)
    try:
        stored_keys = key_store.stored_keys()
    except ConfigError as error:
        stored_keys = {}
        yield CheckResult("keys", "broken", str(error))
    sign_ins: Mapping[str, StoredKey] = {}
    try:
        sign_ins = sign_in_store(config.folders.config).stored_keys()
    except ConfigError as error:
        yield CheckResult("keys", "broken", str(error))
    for name, sign_in in sign_ins.items():
        yield CheckResult("keys", "well", f"signed in to {name} as {sign_in.account}, used only for {sign_in.origin}")
    for name, key in stored_keys.items():
        location = "the keyring of this system" if key.storage == "keyring" else f"`{key_store.path}`"
        if read_stored_key(environment, name) is None:
            yield CheckResult(
                "keys", "broken", f"{location} does not return the key for {name}; run `ebb key set {name}` again"
            )
        else:
            yield CheckResult("keys", "well", f"key for {name} from {location}, used only for {key.origin}")
    providers_with_command = [
        name for name in PROVIDER_NAMES if uses_key_command(name, config.provider_config(name), environment)
    ]
    for name in providers_with_command:
        yield CheckResult("keys", "well", f"key for {name} from `providers.{name}.key_command`, which was not run")
    if set_variables or stored_keys or sign_ins or providers_with_command:
        if not set_variables:
            return
        yield CheckResult("keys", "well", f"found in {', '.join(set_variables)}")
    else:
        yield CheckResult("keys", "note", f"none set in {join_limited(list(variables), 3)}; local servers need none")


def _check_models(config: Config, environment: Mapping[str, str]) -> Iterator[CheckResult]:
    for model in (config.model, *config.fallback_models):
        try:
            chosen_model = model or find_default_model(config.providers, environment)
            provider = chosen_model.partition("/")[0]
            if provider in PROVIDER_NAMES and provider != "scripted":
                find_endpoint(provider, config.provider_config(provider), environment)
        except AgentError as error:
            yield CheckResult("model", "broken", str(error))
            continue
        if provider in PROVIDER_NAMES:
            yield CheckResult("model", "well", f"`{chosen_model}`; the server was not contacted")
        else:
            advice = f"write PROVIDER/NAME; providers are {', '.join(PROVIDER_NAMES)}"
            yield CheckResult("model", "broken", f"unknown provider in `{chosen_model}`", advice)
