"""Functions of a program as tools of its agent."""

import asyncio
import inspect
import logging
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar, overload

from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ArgsKwargs, PydanticSerializationError, ValidationError, from_json, to_json

from ebbtide.agent.errors import UsageError
from ebbtide.tools.base import Arguments, Effect, Result, ToolError, Workspace

T = TypeVar("T")

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_ONE_LINE = 1_000
"""Characters of JSON that are still read well in one line."""
_log = logging.getLogger("ebbtide")


class FunctionTool:
    """A function that the model may call. It can still be called as the function that it is."""

    def __init__(self, function: Callable[..., object], name: str, *, asks: bool) -> None:
        """As `tool` makes one."""
        self.name = name
        self.description = inspect.getdoc(function) or ""
        self.effect: Effect = "serve" if asks else "none"
        self._function = function
        if not _NAME.fullmatch(name):
            raise UsageError(f"`{name}` is no name for a tool: letters, digits, `_` and `-`, 64 at most")
        if not self.description:
            raise UsageError(f"the tool `{name}` has no docstring: it is all that the model knows of it")
        try:
            self._arguments = TypeAdapter[object](function)  # type: ignore[arg-type]  # it takes functions, too
            self.schema: Mapping[str, object] = self._arguments.json_schema(schema_generator=_WithoutTitles)
        except PydanticUserError as error:
            raise UsageError(
                f"the arguments of `{name}` cannot be told to a model: {str(error).splitlines()[0]}"
            ) from error

    def __call__(self, *arguments: object, **named: object) -> object:
        return self._function(*arguments, **named)

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return ()

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        call = partial(self._arguments.validate_python, ArgsKwargs((), dict(arguments)))
        try:
            given = await call_function(call, is_async=inspect.iscoroutinefunction(self._function))
            return Result(given if isinstance(given, str) else _in_lines(to_json(given).decode()))
        except ToolError:
            raise
        except ValidationError as error:
            raise ToolError(f"`{self.name}` was not given what it takes: {_validation_text(error)}") from error
        except PydanticSerializationError as error:
            _log.exception("what the tool `%s` gave back is no JSON", self.name)
            raise ToolError(f"`{self.name}` ran, but what it gave back cannot be shown: {error}") from error
        except Exception as error:  # the function's own fault: the model hears of it, and whoever wrote it
            _log.exception("the tool `%s` failed", self.name)
            raise ToolError(f"`{self.name}` failed: {type(error).__name__}: {error}") from error


@overload
def tool(function: Callable[..., object], /) -> FunctionTool: ...


@overload
def tool(*, name: str = "", asks: bool = False) -> Callable[[Callable[..., object]], FunctionTool]: ...


def tool(
    function: Callable[..., object] | None = None, /, *, name: str = "", asks: bool = False
) -> FunctionTool | Callable[[Callable[..., object]], FunctionTool]:
    """Makes a function, async or not, a tool of an `Agent`: `@tool`, or `@tool(asks=True)`.

    The model reads the docstring and the types of the arguments, as JSON Schema by pydantic: `Annotated[int,
    Field(description="…", ge=1)]` says more. The arguments are checked before the function is called. What it returns
    is shown to the model, a text as it is and anything else as JSON. A `ToolError` is for the model; any other
    exception is told to the model, too, and logged with its traceback under `ebbtide`. A function that is not async
    runs in a thread.

    `name`: in place of the function's own. `asks`: a call is asked about where the mode is `ask` or `accept-edits`, and
    refused in `plan`; otherwise it runs unasked in every mode. Permission rules name the tool in both cases. Raises
    `UsageError` for a function that cannot be told to a model."""

    def made(function: Callable[..., object]) -> FunctionTool:
        own = getattr(function, "__name__", type(function).__name__)
        return FunctionTool(function, name or own, asks=asks)

    return made if function is None else made(function)


async def call_function(function: Callable[[], T], *, is_async: bool) -> object:
    """What a function of the program gives, awaited where that is meant. One that is not async may take its time: it
    runs in a thread."""
    given = function() if is_async else await asyncio.to_thread(function)
    return await given if inspect.isawaitable(given) else given


def _in_lines(text: str) -> str:
    """JSON as short as it can be; a longer one with a line for each of its parts, so that a piece of it can be read."""
    if len(text) <= _ONE_LINE:
        return text
    match from_json(text):
        case list(parts):
            return "\n".join(("[", ",\n".join(to_json(part).decode() for part in parts), "]"))
        case dict(parts):
            rows = (f"{to_json(key).decode()}:{to_json(part).decode()}" for key, part in parts.items())
            return "\n".join(("{", ",\n".join(rows), "}"))
        case _:
            return text


class _WithoutTitles(GenerateJsonSchema):
    """They say what the names say already."""

    def field_title_should_be_set(self, schema: object) -> bool:
        return False


def _validation_text(error: ValidationError) -> str:
    return "; ".join(f"`{'.'.join(map(str, one['loc']))}`: {one['msg']}" for one in error.errors(include_url=False))
