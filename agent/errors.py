"""Errors that the user can fix, as one tree. `ToolError`, for errors that the model can fix, is defined in tools.

AgentError                 a message for the user; `code` names it for scripts, `exit_code` is the exit code
├── UsageError        2    wrong flag, prompt or folder; ConfigError: wrong file, key or value
├── StoreFailed       1    locked, newer, corrupt, disk full
├── ReferenceFailed   1    nothing is stored under a reference
├── RestoreFailed     1    files cannot be restored
├── HookRefused       5    a hook rejects the user's message or action
├── EmptyAnswer       1    the model answered with nothing, twice
├── ContextExhausted  7    the conversation cannot be made to fit the window
├── ServerFailed      3    an MCP server cannot be used
│   └── LoginNeeded   4    it requires a login
├── SchemaNotMet      8    the answer does not match --output-schema
└── ProviderError     3    the server, or the connection to it
    ├── AuthFailed    4    no key, 401, 403
    ├── RateLimited  75    429 after all retries
    ├── QuotaExceeded      no credit left; waiting does not help
    ├── Overloaded         5xx, 529
    ├── ContextOverflow  7 the request is larger than the model's window
    ├── TimedOut, Unreachable, StreamCut
    │   └── RouteFailed    a proxy, a certificate, a login page; waiting does not help
    └── BadRequest         4xx; UnknownModel: 404
"""

import errno
from collections.abc import Mapping
from typing import ClassVar, TypeGuard

EXIT_CODES: Mapping[int, tuple[str, str]] = {
    0: ("answered", "answered"),
    1: (
        "failed",
        "the session store cannot be used, the answer cannot be written, the model answered with nothing, or a bug",
    ),
    2: ("usage", "a flag, prompt, folder, URL or configuration is wrong"),
    3: (
        "provider",
        "the provider cannot be reached, failed, does not know the model, or the account has no credit; or an MCP "
        "server that is `required` cannot be used",
    ),
    4: ("key", "there is no key, or the provider rejects it"),
    5: ("denied", "answered, but calls were denied (listed under `denied`); or a hook refused the prompt"),
    6: (
        "limit reached",
        "`--max-turns`, `--max-cost` or `--max-time` was reached, the model made the same call five times, or said "
        "the same again and again",
    ),
    7: ("context", "the conversation does not fit into the window"),
    8: ("schema", "the answer does not match the schema"),
    9: ("findings", "`ebb review` found something at or above the `--fail-on` severity"),
    75: ("rate limit", "still rate-limited after all retries"),
    130: ("interrupted", "interrupted, also by SIGTERM, or by SIGHUP when the terminal was closed"),
    141: ("output pipe closed", "output pipe closed (`ebb … | head -1`)"),
}
"""Exit codes of the process: a label of a few words, and a description."""


_UNWRITABLE_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})


def is_unwritable(error: BaseException) -> TypeGuard[OSError]:
    """Whether the error means that standard output cannot be written to, because the disk is full or the stream is
    closed. Such an error cannot be printed either."""
    return isinstance(error, OSError) and error.errno in _UNWRITABLE_ERRNOS and error.filename is None


class AgentError(Exception):
    """A failure that the user can fix. The text is one or two sentences: what happened, then what to do."""

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1
    cause: str = ""
    """A more specific cause than `code`, if known; the advice depends on it."""
    todo: str = ""
    """The last sentence of the text, if it says what to do and can be separated. The interface omits it when it shows
    its own advice."""


class UsageError(AgentError):
    """The command line requests something impossible."""

    code = "usage"
    exit_code = 2


class RestoreFailed(AgentError):
    """Files cannot be restored. The text says whether anything was changed."""

    code = "undo"


class ConfigError(UsageError):
    """A configuration file, key or value is wrong. The text names the file, the key and the allowed values."""

    code = "config"


class StoreFailed(AgentError):
    """The session database cannot be used. `reason` is locked, newer, corrupt, full or unreadable."""

    code = "store"

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class ReferenceFailed(AgentError):
    """A reference is invalid, dangling or ambiguous. The text says what is available."""

    code = "reference"


class HookRefused(AgentError):
    """A hook rejects the user's message or action. The text is the hook's reason."""

    code = "hook"
    exit_code = 5


class EmptyAnswer(AgentError):
    """The model answered with neither text nor calls, usually twice."""

    code = "empty_answer"
    is_silence: bool = False
    """Whether the reply was empty without an apparent reason, so that the model can be asked again."""


class ContextExhausted(AgentError):
    """The request does not fit into the model's window, even after compacting everything."""

    code = "context"
    exit_code = 7


class SchemaNotMet(AgentError):
    """The answer does not match the schema that the caller asked for."""

    code = "schema"
    exit_code = 8


class ServerFailed(AgentError):
    """An MCP server cannot be used."""

    code = "server"
    exit_code = 3


class LoginNeeded(ServerFailed):
    """The server requires a login."""

    code = "login"
    exit_code = 4


class ProviderError(AgentError):
    """The provider did not answer as expected."""

    code = "provider"
    exit_code = 3
    is_retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        cause: str = "",
        todo: str = "",
    ) -> None:
        super().__init__(f"{message} {todo}" if todo else message)
        self.cause, self.todo = cause, todo
        self.status = status
        """The HTTP status, if there was one."""
        self.retry_after = retry_after
        """Seconds that the server asked the client to wait, if it did."""


class AuthFailed(ProviderError):
    """No key, or a key that the provider rejects."""

    code = "auth"
    exit_code = 4


class RateLimited(ProviderError):
    """Too many requests for now."""

    code = "rate_limit"
    exit_code = 75
    is_retryable = True


class QuotaExceeded(ProviderError):
    """The account has no credit left, so retrying is useless."""

    code = "quota"


class Overloaded(ProviderError):
    """The server failed or is overloaded (5xx, 529, 408, 409)."""

    code = "overloaded"
    is_retryable = True


class ContextOverflow(ProviderError):
    """The request is larger than the model's window."""

    code = "overflow"
    exit_code = 7

    def __init__(
        self, message: str, *, status: int | None = None, size: int | None = None, limit: int | None = None
    ) -> None:
        super().__init__(message, status=status)
        self.size = size
        """Tokens that the provider counted, if it reported them."""
        self.limit = limit
        """Tokens that the provider allows, if it reported them."""


class TimedOut(ProviderError):
    """The server accepted the request and then sent nothing for too long."""

    code = "timeout"
    is_retryable = True


class Unreachable(ProviderError):
    """No connection to the server."""

    code = "network"
    is_retryable = True


class RouteFailed(Unreachable):
    """Something blocks the connection to the server, so waiting is useless."""

    is_retryable = False


class StreamCut(ProviderError):
    """The answer stopped before its end frame, or a frame could not be parsed."""

    code = "stream_cut"
    is_retryable = True


class BadRequest(ProviderError):
    """The server rejects the request."""

    code = "bad_request"


class ImageRejected(BadRequest):
    """The server rejects an image in the request."""


class UnknownModel(BadRequest):
    """The server does not know the model."""

    code = "unknown_model"
