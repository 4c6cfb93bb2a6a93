"""What measures the context engine shares no code with it, so that a fault of the engine's patterns is no fault of the
measure."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MEASURES = ("bench.context.recordings", "bench.context.regrets")
MEASURED = ("ebbtide.agent.view", "ebbtide.agent.eviction", "ebbtide.agent.compaction")


def imported_modules(source: str) -> Iterator[str]:
    """The modules that a module imports, anywhere in it, and the names that may be modules."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield module
                yield from (f"{module}.{name.name}" for name in names)
            case _:
                pass


def is_within(module: str, parents: tuple[str, ...]) -> bool:
    return any(module == parent or module.startswith(f"{parent}.") for parent in parents)


def reachable_modules(module: str) -> set[str]:
    """The modules that a module of the benchmarks imports, directly or through others of them."""
    found: set[str] = set()
    pending = [module]
    while pending:
        path = ROOT.joinpath(*pending.pop().split(".")).with_suffix(".py")
        if path.is_file():
            new = set(imported_modules(path.read_text("utf-8"))) - found
            found |= new
            pending += [name for name in new if is_within(name, ("bench",))]
    return found


@pytest.mark.parametrize("module", MEASURES)
def test_what_measures_the_engine_imports_nothing_of_it(module: str) -> None:
    assert sorted(name for name in reachable_modules(module) if is_within(name, MEASURED)) == []


def test_imports_are_found_wherever_they_are() -> None:
    source = "import a.b\nfrom c import d\ndef f():\n    from e.g import h as i\nif a:\n    import j as k, l"
    assert set(imported_modules(source)) == {"a.b", "c", "c.d", "e.g", "e.g.h", "j", "l"}
    assert is_within("ebbtide.agent.view.stubs", MEASURED)
    assert not is_within("ebbtide.agent.viewer", MEASURED)
    assert "ebbtide.agent.eviction.carrying_costs" in reachable_modules("bench.context.replay")
