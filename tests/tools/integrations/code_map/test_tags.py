"""What a file defines and uses, in each language."""

from pathlib import Path

import pytest

from ebbtide.tools.integrations.code_map.tags import MAX_FILE_BYTES, NO_TAGS, Definition, Tags, extract_tags, file_tags

PYTHON = '''
from shapes import Circle
LIMIT = 3
class Square(Base):
    """area(), in words."""
    def area(self,
             unit: Unit = None) -> float:
        def inner(): ...
        return scaled(self.side.double(), len("x"))
'''
SCRIPT = """
import { Circle } from "./shapes";
export const limit = 3;
class Square extends Base { area(unit) { return scaled(this.side.double()) } }
const grow = (by) => new Circle(by);
function draw() {}
"""
TYPED = """
interface Shape { area(): number }
type Side = number;
enum Kind { A }
export function draw(shape: Shape): Side { return scaled(shape); }
"""
GO = """
package shapes
type Square struct { side Side }
func (s *Square) Area(unit Unit) float64 { return scaled(s.side.double()) }
func Draw() {}
"""
RUST = """
use shapes::{Circle, Base};
pub struct Square { side: Side }
impl Square { pub fn area(&self) -> f64 { scaled(self.side.double()) } }
trait Shape { fn draw(&self); }
const LIMIT: u8 = 3;
"""
JAVA = """
class Square extends Base { double area(Unit unit) { return side.twice(); } }
interface Shape {}
"""


def shown(tags: Tags) -> tuple[list[Definition], set[str]]:
    return list(tags.definitions), set(tags.uses)


@pytest.mark.parametrize(
    ("extension", "source", "definitions", "uses"),
    [
        (
            ".py",
            PYTHON,
            [
                ("LIMIT", 3, 0, "LIMIT = 3"),
                ("Square", 4, 0, "class Square(Base)"),
                ("area", 6, 1, "def area(self, unit: Unit = None) -> float"),
            ],
            {"Circle", "Base", "Unit", "scaled", "double"},
        ),
        (
            ".js",
            SCRIPT,
            [
                ("limit", 3, 0, "limit"),
                ("Square", 4, 0, "class Square extends Base"),
                ("area", 4, 1, "area(unit)"),
                ("grow", 5, 0, "grow"),
                ("draw", 6, 0, "function draw()"),
            ],
            {"Circle", "scaled", "double"},
        ),
        (
            ".ts",
            TYPED,
            [
                ("Shape", 2, 0, "interface Shape"),
                ("Side", 3, 0, "type Side"),
                ("Kind", 4, 0, "enum Kind"),
                ("draw", 5, 0, "function draw(shape: Shape): Side"),
            ],
            {"Shape", "Side", "scaled"},
        ),
        (
            ".go",
            GO,
            [
                ("Square", 3, 0, "Square struct { side Side }"),
                ("Area", 4, 0, "func (s *Square) Area(unit Unit) float64"),
                ("Draw", 5, 0, "func Draw()"),
            ],
            {"Square", "Side", "Unit", "float64", "scaled", "double"},
        ),
        (
            ".rs",
            RUST,
            [
                ("Square", 3, 0, "pub struct Square"),
                ("area", 4, 0, "pub fn area(&self) -> f64"),
                ("Shape", 5, 0, "trait Shape"),
                ("LIMIT", 6, 0, "const LIMIT: u8"),
            ],
            {"Circle", "Base", "Square", "Side", "Shape", "scaled", "double"},
        ),
        (
            ".java",
            JAVA,
            [
                ("Square", 2, 0, "class Square extends Base"),
                ("area", 2, 1, "double area(Unit unit)"),
                ("Shape", 3, 0, "interface Shape"),
            ],
            {"Base", "Unit", "twice"},
        ),
    ],
)
def test_definitions_stand_with_their_lines_and_uses_are_those_of_code(
    extension: str, source: str, definitions: list[Definition], uses: set[str]
) -> None:
    assert shown(extract_tags(source.encode(), extension)) == (definitions, uses)


@pytest.mark.parametrize("extension", [".py", ".js", ".jsx", ".ts", ".tsx", ".go", ".rs", ".java"])
@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"class (((", b"(" * 2000], ids=range(4))
def test_what_is_no_code_does_no_harm(extension: str, content: bytes) -> None:
    assert isinstance(extract_tags(content, extension), Tags)


def test_what_nobody_has_written_is_left_out(tmp_path: Path) -> None:
    contents = {
        "binary.py": b"def f(): ...\n\0",
        "huge.py": b"def f(): ...\n" * (MAX_FILE_BYTES // 10),
        "packed.js": b"function f(){}" * 2000,
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    assert [file_tags(str(tmp_path / name)) for name in (*contents, "gone.py")] == [NO_TAGS] * 4
