"""The section about context styles on the context screen: what each would have cost, and changing to the next one."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ebbtide.agent.config.options import ContextStyle
from ebbtide.agent.errors import AgentError
from ebbtide.agent.messages import Recalls
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.text.spans import Line
from ebbtide.tui.view.style_costs import COUNTING_LINE, next_style, short_style_line, style_lines

if TYPE_CHECKING:  # types only: the estimates are made in a session
    from ebbtide.agent.compaction.style_costs import StyleCosts
    from ebbtide.agent.session import Session
    from ebbtide.agent.window.overview import Overview
    from ebbtide.tui.session.controller import SessionController

MIN_TABLE_ROWS = 28
"""Minimum screen height for a row per context style."""


class StyleSection:
    """What the styles would have cost, once that is estimated."""

    def __init__(self, set_style: Callable[[ContextStyle], str] | None) -> None:
        """`set_style`: changes the context style and returns a message; may raise `AgentError`. None if it cannot be
        changed."""
        self._set_style = set_style
        self._costs: StyleCosts | None = None
        self._problem = ""
        """Why they cannot be estimated."""

    @property
    def is_loaded(self) -> bool:
        return self._costs is not None or bool(self._problem)

    async def load(self, controller: "SessionController", overview: "Overview") -> None:
        """Estimate the costs."""
        try:
            self._costs = await controller.sessions.style_costs(overview)
        except AgentError as error:
            self._problem = str(error)

    def lines(self, height: int, recalls: Recalls, blank_lines: Sequence[Line]) -> list[Line]:
        """Return the lines of the section: one if the screen is low. `height`: rows of the screen."""
        if self._problem:
            return [((f"Style  {sanitise_line(self._problem)}", "warn"),)]
        if self._costs is None:
            return [COUNTING_LINE]
        if height < MIN_TABLE_ROWS:
            return [short_style_line(self._costs)]
        return [*style_lines(self._costs, recalls, "`c` changes the style"), *blank_lines]

    def choose_next(self, session: "Session | None") -> tuple[str, bool]:
        """Change to the next style. Return a message, and whether it is a warning."""
        if self._costs is None:
            return "the styles are still being counted", False
        if self._set_style is None:
            return "settings cannot be changed here", False
        try:
            message = self._set_style(next_style(self._costs.active))
        except AgentError as error:
            return str(error), True
        self._costs = replace(self._costs, active=session.style if session is not None else self._costs.active)
        return message, False
