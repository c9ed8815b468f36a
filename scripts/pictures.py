"""Draws the pictures of the documentation as SVG, with the product's own arithmetic of tensors and boards.

python scripts/pictures.py          # writes docs/pictures/*.svg
python scripts/pictures.py --check  # exits with 1 where a file differs from what would be written
"""

from __future__ import annotations

import ast
import html
import re
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ssinghal.core.boards import load_board
from ssinghal.core.tensors import TILE_EDGE, Board, BufferType, MemoryConfig, TensorSpec, ceil_div

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "ssinghal"
FOLDER = ROOT / "docs" / "pictures"
STYLE = """
text{font:13px system-ui,-apple-system,"Segoe UI",sans-serif;fill:#1f2933}
.small{font-size:11px}.title{font-weight:600}.middle{text-anchor:middle}.end{text-anchor:end}
.box{fill:#f5f7fa;stroke:#7b8794}.free{fill:none;stroke:#7b8794}.line{fill:none;stroke:#7b8794}
.value{fill:#8fb8de;stroke:#3e6d9c}.other{fill:#b9d7a8;stroke:#4f7f3a}.padding{fill:#e4e7eb;stroke:#9aa5b1}
.reserved{fill:#cbd2d9;stroke:#7b8794}.program{fill:#f7c77e;stroke:#b7791f}.bad{fill:#f29b9b;stroke:#b83232}
.wanted{fill:none;stroke:#b83232;stroke-width:2;stroke-dasharray:6 4}
.booked{fill:none;stroke:#52606d;stroke-width:2}.alarm{fill:#b83232}
@media(prefers-color-scheme:dark){text{fill:#e4e7eb}.box{fill:#2a323c}.alarm{fill:#ff8f8f}
.value{fill:#2f5d8a}.other{fill:#3c6530}.padding{fill:#3e4c59}.reserved{fill:#52606d}.program{fill:#8a5a12}.bad{fill:#8a2c2c}}
""".replace("\n", "")


@dataclass
class Drawing:
    """An SVG that grows by shapes; coordinates are pixels from the top left."""

    width: int
    height: int
    title: str
    parts: list[str] = field(default_factory=list)

    def box(self, x: float, y: float, width: float, height: float, kind: str = "box", radius: int = 0) -> None:
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius}" class="{kind}"/>')

    def text(self, x: float, y: float, text: str, kind: str = "") -> None:
        self.parts.append(f'<text x="{x:g}" y="{y:g}" class="{kind}">{html.escape(text, quote=False)}</text>')

    def lines(self, x: float, y: float, text: str, chars: int, kind: str = "small") -> None:
        """``text`` in lines of at most ``chars`` characters."""
        for number, line in enumerate(textwrap.wrap(text, chars)):
            self.text(x, y + 15 * number, line, kind)

    def arrow(self, x: float, y: float, to_x: float, to_y: float) -> None:
        self.parts.append(f'<path d="M{x:g} {y:g}L{to_x:g} {to_y:g}" class="line" marker-end="url(#tip)"/>')

    def __str__(self) -> str:
        tip = (
            '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0 0L8 4L0 8z" fill="#7b8794"/></marker>'
        )
        opening = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" role="img">'
        )
        title = f"<title>{html.escape(self.title, quote=False)}</title>"
        return "\n".join([opening, title, f"<style>{STYLE}</style>", f"<defs>{tip}</defs>", *self.parts, "</svg>"]) + "\n"


def in_l1(*shape: int) -> TensorSpec:
    return TensorSpec(shape, memory=MemoryConfig(BufferType.L1))


def tiles() -> Drawing:
    """Two matrices over their tiles: one that nearly fills them, one of three columns."""
    drawing = Drawing(760, 330, "Tile layout pads the last two dimensions to multiples of 32")
    for left, shape, note in ((20, (40, 50), "a matrix"), (330, (64, 3), "rows of a map with 3 channels, channels last")):
        _tiled(drawing, left, TensorSpec(shape), note)
    drawing.box(610, 70, 14, 14, "value")
    drawing.text(632, 82, "values", "small")
    drawing.box(610, 94, 14, 14, "padding")
    drawing.text(632, 106, "padding", "small")
    return drawing


def _tiled(drawing: Drawing, left: int, spec: TensorSpec, note: str) -> None:
    scale, top = 3, 70
    (height, width), (padded_height, padded_width) = spec.shape, spec.padded_shape
    drawing.text(left, 28, f"{list(spec.shape)}: {note}", "title")
    drawing.text(left, 48, f"padded to {list(spec.padded_shape)}, {spec.num_pages} tiles", "small")
    drawing.box(left, top, scale * padded_width, scale * padded_height, "padding")
    drawing.box(left, top, scale * width, scale * height, "value")
    for down in range(0, padded_height, TILE_EDGE):
        for across in range(0, padded_width, TILE_EDGE):
            drawing.box(left + scale * across, top + scale * down, scale * TILE_EDGE, scale * TILE_EDGE, "free")
    below = top + scale * padded_height + 22
    factor = spec.num_pages * spec.page_bytes / spec.logical_bytes
    drawing.text(left, below, f"{spec.logical_bytes:,} B of values", "small")
    drawing.text(left, below + 17, f"{spec.num_pages * spec.page_bytes:,} B in tiles: {factor:.2f} times", "small")


def banks() -> Drawing:
    """The tiles of a tensor, dealt round over the DRAM banks of an n150."""
    board, spec = load_board("n150"), TensorSpec((128, 160))
    columns = spec.padded_shape[1] // TILE_EDGE
    per_bank = ceil_div(spec.num_pages, board.dram.num_banks)
    drawing = Drawing(760, 250, "Pages go round robin over the banks")
    drawing.text(20, 28, str(list(spec.shape)), "title")
    drawing.text(20, 46, f"{spec.num_pages} tiles of {spec.page_bytes:,} B", "small")
    for page in range(spec.num_pages):
        down, across = divmod(page, columns)
        drawing.box(20 + 36 * across, 56 + 36 * down, 36, 36, _shade(page, board))
        drawing.text(38 + 36 * across, 78 + 36 * down, str(page), "small middle")
    drawing.arrow(206, 120, 228, 120)
    drawing.text(236, 28, f"the {board.dram.num_banks} DRAM banks of an {board.name}", "title")
    for bank in range(board.dram.num_banks):
        drawing.text(254 + 43 * bank, 52, str(bank), "small middle")
        for place, page in enumerate(range(bank, spec.num_pages, board.dram.num_banks)):
            drawing.box(236 + 43 * bank, 60 + 36 * place, 36, 36, _shade(page, board))
            drawing.text(254 + 43 * bank, 82 + 36 * place, str(page), "small middle")
        drawing.box(236 + 43 * bank, 60, 36, 36 * per_bank, "booked")
    booked = spec.booked_bytes_per_bank(board)
    below = 90 + 36 * per_bank
    drawing.text(
        236, below, f"Every bank is booked {per_bank} pages = {booked:,} B, even where the last place stays empty.", "small"
    )
    total = booked * board.dram.num_banks
    drawing.text(236, below + 20, f"{spec.logical_bytes:,} B of values take {total:,} B of the board.", "small")
    return drawing


def _shade(page: int, board: Board) -> str:
    return "value" if page < board.dram.num_banks else "other"


# What TTNN's graph capture reports of two calls in ``l1`` that no arithmetic gives: docs/memory.md has the commands.
ADD_PROGRAM_BYTES = 12_288
SOFTMAX_PROGRAM_BYTES = 1_079_296


@dataclass
class Core:
    """The L1 of one core, address 0 at the bottom; tensors are allocated from the top down."""

    drawing: Drawing
    left: int
    board: Board
    title: str

    def __post_init__(self) -> None:
        self.lowest, self.base = self.board.l1_end_bytes, self.board.reserved_base_bytes
        self.drawing.text(self.left, 28, self.title, "title")
        self.span(0, self.lowest, "free")
        self.span(0, self.base, "reserved", "reserved by TTNN")

    def height(self, address: int) -> float:
        return 430 - round(385 * address / self.board.l1_end_bytes, 1)

    def span(self, start: int, end: int, kind: str, label: str = "") -> None:
        low, high = self.height(start), self.height(end)
        self.drawing.box(self.left, high, 200, round(low - high, 1), kind)
        self.drawing.text(self.left + 100, round((low + high) / 2 + 4, 1), label, "small middle")

    def place(self, label: str, spec: TensorSpec) -> None:
        size = spec.booked_bytes_per_bank(self.board)
        self.span(self.lowest - size, self.lowest, "value", f"{label}: {size:,} B")
        self.lowest -= size

    def caption(self, text: str, *verdict: str) -> None:
        self.drawing.text(self.left, 478, text, "small")
        for number, line in enumerate(verdict):
            self.drawing.text(self.left, 495 + 15 * number, line, "small alarm")


def l1() -> Drawing:
    """The L1 of one core: what fits, a tensor that finds no room, and program buffers that run into a tensor."""
    board = load_board("n150")
    drawing = Drawing(760, 520, "The L1 of one core of an n150")
    _fits(Core(drawing, 80, board, "Fits"))
    _no_room(Core(drawing, 312, board, "A tensor finds no room"))
    _clash(Core(drawing, 544, board, "Program buffers clash"))
    return drawing


def _fits(core: Core) -> None:
    for address, label in ((0, "address 0"), (core.base, f"{core.base:,}"), (core.lowest, f"{core.lowest:,}")):
        core.drawing.text(core.left - 8, core.height(address) + 4, label, "small end")
    spec = in_l1(1, 320, 200, 64)
    for label in ("input 1", "input 2", "output"):
        core.place(label, spec)
    top = core.base + ADD_PROGRAM_BYTES
    core.span(core.base, top, "program")
    core.drawing.text(core.left + 100, core.height(top) - 6, f"program buffers: {ADD_PROGRAM_BYTES:,} B", "small middle")
    core.caption(f"add of two {list(spec.shape)}")


def _no_room(core: Core) -> None:
    spec = in_l1(1, 640, 400, 64)
    for label in ("input 1", "input 2"):
        core.place(label, spec)
    needed = spec.bytes_per_bank(core.board)
    core.span(core.lowest - needed, core.lowest, "wanted")
    core.drawing.text(core.left + 100, core.height(core.lowest) + 40, f"output: {needed:,} B", "small middle")
    core.caption(f"add of two {list(spec.shape)}:", f"bank needs {needed:,} B, {core.lowest - core.base:,} B free")


def _clash(core: Core) -> None:
    spec = in_l1(1, 1, 1024, 8192)
    for label in ("input", "output"):
        core.place(label, spec)
    end = core.base + SOFTMAX_PROGRAM_BYTES
    core.span(core.base, core.lowest, "program", "program buffers")
    core.span(core.lowest, end, "bad", "both")
    core.caption(f"softmax of {list(spec.shape)}:", f"buffers end at {end:,} B,", f"a tensor begins at {core.lowest:,} B")


def fragmentation() -> Drawing:
    """An L1 bank as five tensors fill it, and after the second and fourth were freed."""
    board, spec = load_board("n150"), in_l1(1, 320, 400, 64)
    size, bank = spec.booked_bytes_per_bank(board), board.l1.bank_bytes
    rest, wanted = bank - 5 * size, in_l1(1, 640, 400, 64).bytes_per_bank(board)
    drawing = Drawing(760, 250, "Free bytes in pieces")
    drawing.text(20, 28, f"An L1 bank of an {board.name}, {bank:,} B, with five tensors of {size:,} B", "title")
    for top, live in ((44, "12345"), (114, "135")):
        left = 20.0
        for number in "12345":
            width = round(720 * size / bank, 1)
            drawing.box(left, top, width, 40, "value" if number in live else "free")
            label = f"tensor {number}" if number in live else f"free: {size:,} B"
            drawing.text(left + width / 2, top + 25, label, "small middle")
            left += width
        drawing.box(left, top, round(740 - left, 1), 40, "free")
    drawing.text(20, 104, "tensors 2 and 4 are freed:", "small")
    drawing.box(20, 176, round(720 * wanted / bank, 1), 40, "wanted")
    drawing.text(32, 201, f"wanted: {wanted:,} B in one piece", "small")
    free = 2 * size + rest
    drawing.text(20, 238, f"{free:,} B are free, the largest block has {size:,} B: fragmentation", "small alarm")
    return drawing


def layers() -> list[list[str]]:
    """The packages by layer, the lowest first, as ``[tool.importlinter]`` declares them; the entry point left out."""
    (text,) = re.findall(r"^layers = \[\n(.+?)^\]", (ROOT / "pyproject.toml").read_text(), re.DOTALL | re.MULTILINE)
    declared = [names.split(" | ") for names in re.findall(r'"(.+)"', text)]
    return [names for names in declared[::-1] if names != ["__main__"]]


def purpose(package: str) -> str:
    """The first paragraph of a package's docstring."""
    path = PACKAGE / package / "__init__.py"
    text = ast.get_docstring(ast.parse((path if path.exists() else PACKAGE / f"{package}.py").read_text())) or ""
    return " ".join(text.partition("\n\n")[0].replace("``", "").split())


def architecture() -> Drawing:
    """The packages on their layers."""
    drawing = Drawing(760, 0, "Packages by layer")
    drawing.text(10, 26, "Packages by layer: each imports only from layers below it", "title")
    top = 42
    for level in layers()[::-1]:
        width = (740 - 12 * (len(level) - 1)) / len(level)
        chars = int(width / 6.4)
        height = 46 + 15 * max(len(textwrap.wrap(purpose(room), chars)) for room in level)
        for place, room in enumerate(level):
            left = round(10 + place * (width + 12), 1)
            drawing.box(left, top, round(width, 1), height, "box", 6)
            drawing.text(left + 12, top + 20, room, "title")
            drawing.lines(left + 12, top + 38, purpose(room), chars)
        top += height + 10
    drawing.height = top
    return drawing


STATIONS = (  # what, by which packages or files, column, top
    ("a model", "", 0, 90),
    ("capture", "capture", 1, 90),
    ("catalogs", "shapes/*.yaml", 2, 90),
    ("cases", "catalog", 3, 90),
    ("estimate", "estimation", 4, 40),
    ("probe", "runner, device", 4, 140),
    ("records", "runs", 5, 90),
    ("reports", "report, runs", 6, 90),
)


def flow() -> Drawing:
    """The way of a case from a model to the report."""
    drawing = Drawing(760, 230, "From a model to a report")
    drawing.text(10, 26, "From a model to a report", "title")
    width, pitch = 92, 108
    for name, source, column, top in STATIONS:
        left = 10 + pitch * column
        drawing.box(left, top, width, 52, "box", 6)
        drawing.text(left + width / 2, top + (22 if source else 31), name, "title middle")
        drawing.text(left + width / 2, top + 40, source, "small middle")
    for column in (0, 1, 2, 5):
        drawing.arrow(10 + pitch * column + width, 116, 10 + pitch * (column + 1), 116)
    for top, middle in ((66, 108), (166, 124)):
        drawing.arrow(10 + 3 * pitch + width, middle, 10 + 4 * pitch, top)
        drawing.arrow(10 + 4 * pitch + width, top, 10 + 5 * pitch, middle)
    centre = 10 + 4 * pitch + width / 2
    drawing.text(centre, 110, "arithmetic", "small middle")
    drawing.text(centre, 210, "TTNN on a card or a virtual board", "small middle")
    return drawing


PICTURES: dict[str, Callable[[], Drawing]] = {
    "tiles": tiles,
    "banks": banks,
    "l1": l1,
    "fragmentation": fragmentation,
    "architecture": architecture,
    "flow": flow,
}


def stale() -> list[Path]:
    """The files that are not what would be drawn."""
    files = {FOLDER / f"{name}.svg": draw for name, draw in PICTURES.items()}
    return [path for path, draw in files.items() if not path.exists() or path.read_text() != str(draw())]


def main(arguments: list[str]) -> int:
    changed = stale()
    if "--check" not in arguments:
        FOLDER.mkdir(parents=True, exist_ok=True)
        for path in changed:
            path.write_text(str(PICTURES[path.stem]()))
    sys.stdout.writelines(f"{path.relative_to(ROOT)}\n" for path in changed)
    return int("--check" in arguments and bool(changed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
