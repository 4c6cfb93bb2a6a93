"""The shell and environment for commands. No I/O, except that the shell is looked up once."""

import os
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from ebbtide.tools import process, secrets
from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tools.secrets.key_formats import SECRET_VARIABLE_NAME
from ebbtide.tools.secrets.redaction import SECRET_VALUE

_SHELLS = (
    "/bin/bash",
    "/usr/bin/bash",
    "/usr/local/bin/bash",
    "/opt/homebrew/bin/bash",
    "/run/current-system/sw/bin/bash",
)

PASS_ENV_VARIABLE = "EBB_PASS_ENV"
"""Environment variable with the user's list of further variables for commands, separated by commas or spaces. `AWS_*`
matches all that start with `AWS_`. Listed variables are always passed on."""

_ALLOWED_NAMES = frozenset(
    """
    PATH HOME USER LOGNAME USERNAME SHELL PWD TZ TMPDIR TMP TEMP HOSTNAME EDITOR VISUAL LANGUAGE LANG LS_COLORS
    COLUMNS LINES MANPATH INFOPATH TERMINFO TERMINFO_DIRS DISPLAY WAYLAND_DISPLAY XAUTHORITY SSH_AUTH_SOCK
    HTTP_PROXY HTTPS_PROXY FTP_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy ftp_proxy all_proxy no_proxy
    SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE AWS_CA_BUNDLE GIT_SSL_CAINFO
    GIT_SSH GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_CONFIG_GLOBAL GIT_CONFIG_NOSYSTEM GIT_CEILING_DIRECTORIES
    EBB_TASK_DEPTH CI DEBUG VERBOSE LOG_LEVEL PORT HOST ENVIRONMENT APP_ENV RACK_ENV
    VIRTUAL_ENV PERL5LIB CLASSPATH MAKEFLAGS MAKELEVEL
    CC CXX CPP LD AR AS NM FC CFLAGS CXXFLAGS CPPFLAGS FFLAGS LDFLAGS CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH
    LIBRARY_PATH LD_LIBRARY_PATH DYLD_LIBRARY_PATH DYLD_FALLBACK_LIBRARY_PATH LD_PRELOAD
    PKG_CONFIG_PATH PKG_CONFIG ACLOCAL_PATH DESTDIR PREFIX SOURCE_DATE_EPOCH SDKROOT DEVELOPER_DIR
    GOPATH GOROOT GOBIN GOFLAGS GOPROXY GOPRIVATE GONOPROXY GOSUMDB GONOSUMDB GOMODCACHE GOCACHE GOTOOLCHAIN GOOS
    GOARCH GOWORK GOMAXPROCS GOEXPERIMENT GO111MODULE GOENV
    BUNDLE_PATH BUNDLE_GEMFILE BUNDLE_WITHOUT BUNDLE_WITH BUNDLE_BIN BUNDLE_JOBS
    AWS_PROFILE AWS_REGION AWS_DEFAULT_REGION AWS_CONFIG_FILE KUBECONFIG
    DOCKER_HOST DOCKER_CONTEXT DOCKER_CONFIG DOCKER_BUILDKIT DOCKER_DEFAULT_PLATFORM BUILDKIT_PROGRESS
    WSL_DISTRO_NAME WSL_INTEROP IN_NIX_SHELL LOCALE_ARCHIVE NPM_CONFIG_PREFIX npm_config_prefix
    """.split()  # noqa: SIM905  # easier to read as one string
)
"""Variables that are passed on. SSH_AUTH_SOCK is among them: Git needs it to fetch over SSH, and it allows keys to be
used without revealing them."""

_ALLOWED_PREFIXES = tuple(
    """
    LC_ XDG_ PYTHON PYTEST_ COVERAGE_ TOX_ NOX_ PIP_ PIPX_ PIPENV_ POETRY_ PDM_ UV_ HATCH_ RUFF_ MYPY PRE_COMMIT_
    CONDA_ MAMBA_ PYENV_ WORKON_ DJANGO_ FLASK_ NODE_ NPM_CONFIG_ npm_config_ NVM_ FNM_ VOLTA_ PNPM_ YARN_ BUN_ DENO_
    COREPACK_ VITE_ NEXT_ RUST CARGO_ SCCACHE_ CCACHE_ CGO_ JAVA_ JDK_ GRADLE_ MAVEN_ M2_ SDKMAN_ ANDROID_ KOTLIN_ SBT_
    RUBY GEM_ RBENV_ RVM_ RAILS_ PHP_ COMPOSER_ DOTNET_ NUGET_ MIX_ ERL_ OPAM_ STACK_ GHCUP_ JULIA_ PERL_ R_LIBS
    CMAKE_ NINJA_ MESON_ BAZEL_ CUDA_ NVIDIA_ ROCM_ OMP_ MKL_ OPENBLAS_ NUMBA_ TF_CPP_ ASDF_ MISE_ NIX_ HOMEBREW_ GUIX_
    GIT_AUTHOR_ GIT_COMMITTER_ COMPOSE_ TESTCONTAINERS_ PLAYWRIGHT_ PUPPETEER_ GITHUB_ RUNNER_ GITLAB_ DEB_ DEBIAN_
    """.split()  # noqa: SIM905  # easier to read as one string
)

_ADDRESS_VARIABLE = regex(r"(?i)registry|index|proxy|mirror|links|repos")
"""Matches names of variables that contain the address of a package registry or proxy."""
_QUIET_VARIABLES = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "GIT_PAGER": "cat",
    "PAGER": "cat",
    "SSH_ASKPASS_REQUIRE": "never",
    "TERM": "dumb",
    "NO_COLOR": "1",
    "NO_UPDATE_NOTIFIER": "1",
    "npm_config_update_notifier": "false",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "GIT_CONFIG_COUNT": "3",
    "GIT_CONFIG_KEY_0": "core.fsmonitor",
    "GIT_CONFIG_VALUE_0": "false",
    "GIT_CONFIG_KEY_1": "log.showSignature",
    "GIT_CONFIG_VALUE_1": "false",
    "GIT_CONFIG_KEY_2": "protocol.ext.allow",
    "GIT_CONFIG_VALUE_2": "never",
}
"""Variables for all commands. They keep programs from waiting for user input, using colours and checking for updates.

They also keep git from running monitors, from verifying signatures by default and from running commands to fetch, even
if the repository's settings ask for it. Settings for commits are not changed. A repository's diff program is replaced
(`ebbtide.tools.sandbox.diff_program`).
"""


@cache
def shell_path() -> str:
    """Return the shell for commands. Its path can be changed only by an administrator."""
    return next((path for path in _SHELLS if Path(path).is_file()), "/bin/sh")


def shell_argv(command: str) -> tuple[str, ...]:
    return (shell_path(), "-c", command)


@dataclass(frozen=True, slots=True)
class Launch:
    """The process that runs a command."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    descriptors: tuple[int, ...] = ()
    """Descriptors that the program inherits. This process closes its own copies after the start."""
    is_wrapped: bool = False
    """Whether the first process is a wrapper that only waits for the command, its child."""
    is_sandboxed: bool = False
    """Whether it runs in a sandbox."""


def shell_launch(command: str, variables: Mapping[str, str] | None = None) -> Launch:
    return Launch(shell_argv(command), child_environment() | dict(variables or {}))


def child_environment(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment for commands, including settings that keep programs quiet.

    It is built from an allow-list, because secrets can have any name. An allowed variable is still dropped if its value
    looks like a secret. If its name is allowed only by a prefix, the name must not look like that of a secret either.
    Passwords are removed from addresses of registries and proxies. Variables set by direnv are passed on unless they
    look like secrets.
    """
    passed_variables = dict[str, str]()
    patterns = _split_patterns(environment.get(PASS_ENV_VARIABLE, ""))
    for name, value in environment.items():
        if _matches_any(name, patterns):
            passed_variables[name] = value
        elif _is_harmless(name, value_without_login := _without_login(name, value)):
            passed_variables[name] = value_without_login
    return _load_direnv_variables(environment) | passed_variables | _QUIET_VARIABLES


def _load_direnv_variables(environment: Mapping[str, str]) -> dict[str, str]:
    if "DIRENV_DIFF" not in environment:
        return {}
    return process.user_variables.direnv_variables(environment)


def _without_login(name: str, value: str) -> str:
    """Return the value of a variable. If it is the address of a registry or proxy, the password is removed. Programs
    then fail to log in, rather than using a different registry or proxy."""
    if "@" not in value or not _ADDRESS_VARIABLE.search(name):
        return value
    return secrets.registry_settings.strip_url_credentials(value)


def is_passed_on(name: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the user has listed the variable to be passed on."""
    return _matches_any(name, _split_patterns(environment.get(PASS_ENV_VARIABLE, "")))


def _matches_any(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


@cache
def _split_patterns(setting: str) -> list[str]:
    return setting.replace(",", " ").split()


def _is_harmless(name: str, value: str) -> bool:
    is_allowed = name in _ALLOWED_NAMES or (
        name.startswith(_ALLOWED_PREFIXES) and not SECRET_VARIABLE_NAME.search(name)
    )
    return is_allowed and not SECRET_VALUE.search(value)
