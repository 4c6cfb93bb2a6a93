"""The tools of one session that are held back, and when each tool was used last. What to hold back is decided in
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
    """Chooses anew when it is told to, which is at the start of a session and when its view is rewritten."""

    def __init__(
        self,
        share: float = 0.10,
        used: Mapping[str, float] | None = None,
        now: Callable[[], float] = time.time,
        *,
        finders: bool = False,
        spares: bool = False,
    ) -> None:
        """`share`: of the usable window, what all definitions together may take. `used`: when each tool was used last,
        in Unix seconds. `finders`: more tools may come later, so those that find tools are offered from the start.
        `spares`: a small window is offered fewer of the tools that came with the program, in fewer words."""
        self.held_back: frozenset[str] = frozenset()
        """The names of the tools whose definitions the model is not shown."""
        self.held_tokens = 0
        """What these definitions would take."""
        self.wished: frozenset[str] = frozenset()
        """The names of those that the user wants held back."""
        self.search: HostedSearch = "none"
        """By which search of the provider they are found; none where our own tools find them."""
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
        """How many are held back and can be found, and whether the provider's own search finds them."""
        return len(self.held_back) if self._is_findable else 0, self.search != "none"

    def offered_tools(self, specs: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
        """The tools as they are offered: until the next choice the same values each time, so that what is known of them
        stays known."""
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
        """Chooses what is held back in a window with room for `effective` tokens, and whether the model's provider, or
        our own tools, search for it: where the provider's groups take too much, ours do. When that fails, every tool is
        offered, and the user is told. `most_tools`: how many definitions the provider takes in a request; `is_led`: the
        model is a small one."""
        self._deferrable = frozenset(spec.name for spec in specs if spec.kind != "builtin")
        self._offered, self._effective, self._most_tools, self._is_led = None, effective, most_tools, is_led
        try:
            self.held_back, self.search = self._choose_deferred(specs, int(self._share * effective), size, search)
            self._is_findable = self.search != "none" or {SEARCH, CALL} <= {spec.name for spec in specs}
            self._warn_of_limit(specs, emit)
            self.held_tokens = sum(size(spec) for spec in specs if spec.name in self.held_back)
        except (TypeError, ValueError, RecursionError) as error:
            self.held_back, self.held_tokens, self.search = frozenset(), 0, "none"
            emit(Noticed(f"which tools to hold back could not be decided, so all of them are offered: {error}"))

    def _warn_of_limit(self, specs: Sequence[ToolSpec], emit: Callable[[Event], None]) -> None:
        """Says once that there are more tools than the provider takes, and what becomes of the others."""
        names = {spec.name for spec in specs}
        if self._most_tools is None or len(names) <= self._most_tools or not self.held_back or self._has_told:
            return
        self._has_told = True
        found = (
            "they are found by a search"
            if self._is_findable
            else "add `tool_search` and `call_tool` to `tools.allowed`"
        )
        what = f"{len(names)} tools are more than the {self._most_tools} that the provider takes in a request"
        emit(Noticed(f"{what}: {len(self.held_back)} are held back; {found}"))

    def spare(self, specs: Sequence[ToolSpec], effective: int, size: Callable[[ToolSpec], int]) -> float:
        """The share of the definitions shown now that could be held back yet in a window with room for `effective`
        tokens."""
        try:
            least = self._choose_deferred(specs, 0, size, self.search)
            now = definitions_size(self.offered_tools(specs), size)
            then = definitions_size(self._select(specs, *least, effective), size)
        except (TypeError, ValueError, RecursionError):
            return 0.0  # told when the choice was made
        return max(now - then, 0) / max(now, 1)

    def _choose_deferred(
        self, specs: Sequence[ToolSpec], most: int, size: Callable[[ToolSpec], int], search: HostedSearch
    ) -> tuple[frozenset[str], HostedSearch]:
        """What is held back, and whose search finds it: the provider's while that fits or takes no more than ours."""
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
        if self._is_led:  # what it is not offered at all is not to be found either
            specs = self._fitting(specs, self._effective)
        return tools_to_hold_back(
            specs, most, size, self._used, search, finders=finders, wished=wished, most_tools=limit
        )

    def size_with_deferred(
        self, wished: frozenset[str], specs: Sequence[ToolSpec], effective: int, size: Callable[[ToolSpec], int]
    ) -> int:
        """What the definitions that the model is shown would take if the user wanted others held back."""
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
        """Whether a tool that came with the program is offered in the window of the last choice."""
        has = {"has_jobs": self._has_jobs, "has_kept": self._has_kept, "is_led": self._is_led}
        return not (self._spares and is_omitted(name, self._effective, **has))

    def take_occasions(self, *, has_jobs: bool, has_kept: bool) -> bool:
        """Notes that a command runs in the background, or that something is kept that is not shown whole; whether the
        next choice offers more for that."""
        names = (*JOB_TOOLS, *RECALL_TOOLS)
        lacking = [name for name in names if not self.offers(name)]
        self._has_jobs, self._has_kept = self._has_jobs or has_jobs, self._has_kept or has_kept
        return lacking != [name for name in names if not self.offers(name)]

    def defer_all(self) -> None:
        """From now on every tool that may be held back is, as far as that saves anything."""
        self._share = 0.0

    def defer_as_usual(self) -> None:
        """From the next choice on as many are held back as at the start of the session."""
        self._share = self._usual

    def note(self, event: Event) -> None:
        """Keeps in mind when a tool was used that may be held back, those of servers that came since the last choice
        among them."""
        if not isinstance(event, ToolFinished) or event.status != "done":
            return
        if event.name in self._deferrable or server_of(event.name):
            self._used[event.name] = self._unkept[event.name] = self._now()

    def take_uses(self) -> Mapping[str, float]:
        """The uses since this was last asked."""
        uses, self._unkept = self._unkept, {}
        return uses


def specs_of(tools: Sequence[Tool]) -> tuple[ToolSpec, ...]:
    """The tools as the model sees them."""
    return tuple(
        ToolSpec(tool.name, tool.description, tool.schema, tool.kind if isinstance(tool, Deferrable) else "builtin")
        for tool in tools
    )
