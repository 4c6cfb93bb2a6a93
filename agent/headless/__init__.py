"""Headless runs take messages and return an answer or JSON lines, and an exit code. `run` is the entry point and
`result` the outcome of a run. `text_output` and `json_output` are the output formats. `driven_run` reads input lines
from a client program during the run. docs/scripts.md documents what programs can rely on. Only `status_line` draws, on
stderr."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.agent.headless import driven_run as driven_run
    from ebbtide.agent.headless import input_messages as input_messages
    from ebbtide.agent.headless import line_reader as line_reader
    from ebbtide.agent.headless import printing as printing
    from ebbtide.agent.headless import status_line as status_line
else:
    __getattr__ = lazy_submodules(__name__)
