"""The deferred tools of one session, and when each tool was last used. What to defer is decided in
`ebbtide.agent.context.tool_selection`."""

import time
from collections.abc import Callable, Mapping, Sequence

from ebbtide.agent.calls.policy import server_of
from ebbtide.agent.context.small_window import JOB_TOOLS, RECALL_TOOLS, SMALL, for_window, is_omitted
from ebbtide.agent.context.tool_selection import (
    CALL,
    SEARCH,
    HostedSearch,
    ToolSpec,
    definitions_size,
    select_tools,
    tools_to_hold_back,
)
from ebbtide.agent.events.session import Event, Noticed, ToolFinished
from ebbtide.tools.base import Deferrable, Tool


class Deferral:
    """Tracks the deferred tools. They are chosen again only on request: at the start of a session and at a rewrite."""

    def __init__(
        self,
        share: float = 0.10,
        used: Mapping[str, float] | None = None,
        now: Callable[[], float] = time.time,
        *,
        finders: bool = False,
        spares: bool = False,
    ) -> None:
        """`share`: share of the effective window that all definitions may take. `used`: when each tool was last used,
        in Unix seconds. `finders`: more tools may be added later, so the search tools are offered from the start.
        `spares`: a small window gets fewer built-in tools, with shorter descriptions."""
        self.held_back: frozenset[str] = frozenset()
        """Names of the tools whose definitions the model does not see."""
        self.held_tokens = 0
        """Tokens that these definitions would take."""
        self.wished: frozenset[str] = frozenset()
        """Names of the tools that the user wants deferred."""
        self.search: HostedSearch = "none"
        """The provider's search that finds them; `none` if the program's own tools do."""
        self._share = self._usual = share
        self._finders = finders
        self._spares = spares
        self._effective = SMALL
        self._has_jobs = self._has_kept = self._is_led = False
        self._most_tools: int | None = None
        self._has_told = False
        self._is_findable = True
        self._used = dict(used or {})
        self._now = now
        self._unkept: dict[str, float] = {}
        self._deferrable: frozenset[str] = frozenset()
        self._offered: tuple[tuple[ToolSpec, ...], tuple[ToolSpec, ...]] | None = None

    @property
    def deferred_state(self) -> tuple[int, bool]:
        """Number of deferred tools that can be found, and whether the provider's own search finds them."""
        return len(self.held_back) if self._is_findable else 0, self.search != "none"

    def offered_tools(self, specs: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
        """Return the offered tools; the same objects until the next choice, so cached values stay valid."""
        if self._offered is None or self._offered[0] != tuple(specs):
            self._offered = tuple(specs), self._select(specs, self.held_back, self.search)
        return self._offered[1]

    def choose(
        self,
        specs: Sequence[ToolSpec],
        effective: int,
        size: Callable[[ToolSpec], int],
        emit: Callable[[Event], None],
        search: HostedSearch = "none",
        most_tools: int | None = None,
        *,
        is_led: bool = False,
    ) -> None:
        """Choose the tools to defer in a window with room for `effective` tokens, and who searches for them: the
        provider, or the program if the provider's groups take too much. If that fails, every tool is offered and the
        user gets a notice. `most_tools`: maximum number of definitions that the provider accepts; `is_led`: the model
        is a small one."""
        self._deferrable = frozenset(spec.name for spec in specs if spec.kind != "builtin")
        self._offered, self._effective, self._most_tools, self._is_led = None, effective, most_tools, is_led
        try:
            self.held_back, self.search = self._choose_deferred(specs, int(self._share * effective), size, search)
            self._is_findable = self.search != "none" or {SEARCH, CALL} <= {spec.name for spec in specs}
            self._warn_of_limit(specs, emit)
            self.held_tokens = sum(size(spec) for spec in specs if spec.name in self.held_back)
        except (TypeError, ValueError, RecursionError) as error:
            self.held_back, self.held_tokens, self.search = frozenset(), 0, "none"
            emit(Noticed(f"choosing the tools to defer failed, so all of them are offered: {error}"))

    def _warn_of_limit(self, specs: Sequence[ToolSpec], emit: Callable[[Event], None]) -> None:
        """Notify the user once that there are more tools than the provider accepts, and what becomes of the others."""
        names = {spec.name for spec in specs}
        if self._most_tools is None or len(names) <= self._most_tools or not self.held_back or self._has_told:
            return
        self._has_told = True
        found = "a search finds them" if self._is_findable else "add `tool_search` and `call_tool` to `tools.allowed`"
        what = f"{len(names)} tools exceed the {self._most_tools} that the provider accepts in a request"
        emit(Noticed(f"{what}: {len(self.held_back)} are deferred; {found}"))

    def spare(self, specs: Sequence[ToolSpec], effective: int, size: Callable[[ToolSpec], int]) -> float:
        """Return the share of the definitions now shown that could still be deferred in a window with room for
        `effective` tokens."""
        try:
            least = self._choose_deferred(specs, 0, size, self.search)
            now = definitions_size(self.offered_tools(specs), size)
            then = definitions_size(self._select(specs, *least, effective), size)
        except (TypeError, ValueError, RecursionError):
            return 0.0  # reported when the choice was made
        return max(now - then, 0) / max(now, 1)

    def _choose_deferred(
        self, specs: Sequence[ToolSpec], most: int, size: Callable[[ToolSpec], int], search: HostedSearch
    ) -> tuple[frozenset[str], HostedSearch]:
        """Return the tools to defer, and whose search finds them: the provider's if it fits or takes no more than the
        program's."""
        held = self._tools_to_defer(self.wished, specs, most, size, search)
        shown = definitions_size(self._select(specs, held, search), size)
        if not held or search == "none" or shown <= most:
            return held, search if held else "none"
        ours = self._tools_to_defer(self.wished, specs, most, size, "none")
        return (ours, "none") if definitions_size(self._select(specs, ours, "none"), size) < shown else (held, search)

    def _tools_to_defer(
        self,
        wished: frozenset[str],
        specs: Sequence[ToolSpec],
        most: int,
        size: Callable[[ToolSpec], int],
        search: HostedSearch,
    ) -> frozenset[str]:
        finders, limit = self._finders, self._most_tools
        if self._is_led:  # tools that it is never offered must not be found either
            specs = self._fitting(specs, self._effective)
        return tools_to_hold_back(
            specs, most, size, self._used, search, finders=finders, wished=wished, most_tools=limit
        )

    def size_with_deferred(
        self, wished: frozenset[str], specs: Sequence[ToolSpec], effective: int, size: Callable[[ToolSpec], int]
    ) -> int:
        """Return the size of the definitions shown if the user wanted `wished` deferred."""
        held = self._tools_to_defer(wished, specs, int(self._share * effective), size, self.search)
        return definitions_size(self._select(specs, held, self.search if held else "none"), size)

    def _select(
        self, specs: Sequence[ToolSpec], held: frozenset[str], search: HostedSearch, effective: int | None = None
    ) -> tuple[ToolSpec, ...]:
        effective = self._effective if effective is None else effective
        return select_tools(self._fitting(specs, effective), held, search, finders=self._finders)

    def _fitting(self, specs: Sequence[ToolSpec], effective: int) -> Sequence[ToolSpec]:
        has = {"has_jobs": self._has_jobs, "has_kept": self._has_kept, "is_led": self._is_led}
        return for_window(specs, effective, **has) if self._spares else specs

    def offers(self, name: str) -> bool:
        """Whether a built-in tool is offered in the window of the last choice."""
        has = {"has_jobs": self._has_jobs, "has_kept": self._has_kept, "is_led": self._is_led}
        return not (self._spares and is_omitted(name, self._effective, **has))

    def take_occasions(self, *, has_jobs: bool, has_kept: bool) -> bool:
        """Record that a background job exists, or that an output is stored that is not shown in full. Returns whether
        the next choice will offer more tools because of that."""
        names = (*JOB_TOOLS, *RECALL_TOOLS)
        lacking = [name for name in names if not self.offers(name)]
        self._has_jobs, self._has_kept = self._has_jobs or has_jobs, self._has_kept or has_kept
        return lacking != [name for name in names if not self.offers(name)]

    def defer_all(self) -> None:
        """Defer every tool that may be deferred from now on, as long as that saves anything."""
        self._share = 0.0

    def defer_as_usual(self) -> None:
        """Return to the usual share with the next choice."""
        self._share = self._usual

    def note(self, event: Event) -> None:
        """Record the use of a tool that may be deferred, including tools of servers added since the last choice."""
        if not isinstance(event, ToolFinished) or event.status != "done":
            return
        if event.name in self._deferrable or server_of(event.name):
            self._used[event.name] = self._unkept[event.name] = self._now()

    def take_uses(self) -> Mapping[str, float]:
        """Return the uses since the last call."""
        uses, self._unkept = self._unkept, {}
        return uses


def specs_of(tools: Sequence[Tool]) -> tuple[ToolSpec, ...]:
    """Return the tools as the model sees them."""
    return tuple(
        ToolSpec(tool.name, tool.description, tool.schema, tool.kind if isinstance(tool, Deferrable) else "builtin")
        for tool in tools
    )
