"""Draws pictures as SVG, and those of docs/concepts.md: the pieces, a task's life, the tree.

Written by a program so that the tree is the one of the import contracts, and so that a browser
needs no script and no network to show it.
"""

from collections.abc import Iterable
from xml.sax.saxutils import escape

from tests.tidy.source import ROLES, class_name

_STYLE = (
    "text{font:14px system-ui,sans-serif;fill:#1b2733}"
    ".small{font-size:12px;fill:#4a5a6a}"
    "rect{fill:#f3f7fb;stroke:#4a6785;stroke-width:1.2}"
    ".end{fill:#eaf5ec;stroke:#3f7d4e}"
    ".wait{fill:#fdf4e3;stroke:#a8772a}"
    "path{fill:none;stroke:#4a6785;stroke-width:1.4}"
)
_HEIGHT = 34
_ROW = 46
_INDENT = 46
LETTER = 7
"""No letter of small words is wider, on average."""


class Picture:
    """Boxes, arrows and words, collected until the size is known."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._parts: list[str] = []
        self._width = 0
        self._height = 0

    def box(
        self,
        x: int,
        y: int,
        text: str,
        *,
        width: int = 150,
        height: int = _HEIGHT,
        kind: str = "",
    ) -> None:
        """Draw a box with its name in the middle of its first line."""
        marked = f' class="{kind}"' if kind else ""
        self._parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6"{marked}/>'
        )
        self.words(x + width // 2, y + 22, text, anchor="middle")
        self._cover(x + width, y + height)

    def words(
        self, x: int, y: int, text: str, *, anchor: str = "start", small: bool = False
    ) -> None:
        """Write words; ``x`` and ``y`` are those of their first letter's foot."""
        marked = ' class="small"' if small else ""
        self._parts.append(
            f'<text x="{x}" y="{y}" text-anchor="{anchor}"{marked}>{escape(text)}</text>'
        )
        self._cover(x + (LETTER * len(text) if anchor == "start" else 0), y)

    def line(self, *points: tuple[int, int], arrow: bool = True) -> None:
        """Draw a line through points, with a head at its end."""
        path = " L".join(f"{x} {y}" for x, y in points)
        head = ' marker-end="url(#head)"' if arrow else ""
        self._parts.append(f'<path d="M{path}"{head}/>')
        self._cover(*points[-1])

    def svg(self, *, margin: int = 12) -> str:
        """Return the picture on a white ground, which dark pages need."""
        width, height = self._width + margin, self._height + margin
        head = (
            '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7"'
            ' markerHeight="7" orient="auto-start-reverse"><path d="M0 0 L8 4 L0 8 z"'
            ' style="fill:#4a6785;stroke:none"/></marker>'
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
            f' width="{width}" height="{height}" role="img">\n'
            f"<title>{escape(self._title)}</title>\n"
            f"<style>{_STYLE}</style>\n<defs>{head}</defs>\n"
            f'<rect width="{width}" height="{height}" style="fill:#fff;stroke:none"/>\n'
            + "\n".join(self._parts)
            + "\n</svg>\n"
        )

    def _cover(self, x: int, y: int) -> None:
        self._width, self._height = max(self._width, x), max(self._height, y)


_DECIDES = {
    "topic_supervisor": "root of a node",
    "partition_supervisor": "one for each partition it owns",
    "task_persistence": "the schedule's only reader and writer",
    "throughput_controller": "when to load more",
    "partition_scheduler": "holds what is loaded until it is due",
    "completion_tracker": "what is done",
    "partition_executor": "which ordering ids are busy",
    "ordering_executor": "one for each busy ordering id: one task at a time",
    "task_executor": "one attempt after another: your code",
}


def tree_drawing() -> str:
    """Return the supervision tree, as the import contracts have it."""
    picture = Picture("The nine roles of a node's actor tree")
    rows: list[tuple[str, int, int | None]] = []

    def place(role: str, depth: int, parent: int | None) -> None:
        own = len(rows)
        rows.append((role, depth, parent))
        for child in ROLES[role]:
            place(child, depth + 1, own)

    place("topic_supervisor", 0, None)
    for row, (role, depth, parent) in enumerate(rows):
        x, y = 12 + depth * _INDENT, 12 + row * _ROW
        picture.box(x, y, class_name(role), width=184)
        picture.words(x + 196, y + 22, _DECIDES[role], small=True)
        if parent is not None:
            trunk = 12 + rows[parent][1] * _INDENT + 22
            top = 12 + parent * _ROW + _HEIGHT
            picture.line((trunk, top), (trunk, y + 17), (x, y + 17), arrow=False)
    return picture.svg()


def life_drawing() -> str:
    """Return the states a task passes through."""
    picture = Picture("The life of a task")
    for x, text in ((12, "accepted"), (252, "pending"), (492, "running")):
        picture.box(x, 110, text)
    picture.box(732, 30, "done", kind="end")
    picture.box(732, 110, "retrying", kind="wait")
    picture.box(732, 190, "blocked", kind="wait")
    picture.box(252, 30, "cancelled, moved", kind="end")
    for begin, words in ((162, "stored"), (402, "due")):
        picture.line((begin, 127), (begin + 90, 127))
        picture.words(begin + 45, 119, words, anchor="middle", small=True)
    picture.line((327, 110), (327, 64))
    picture.words(337, 92, "a command", small=True)
    picture.line((642, 118), (690, 118), (690, 47), (732, 47))
    picture.words(698, 88, "well, or dropped", small=True)
    picture.line((642, 127), (732, 127))
    picture.words(694, 122, "failed", small=True)
    picture.line((642, 136), (690, 136), (690, 207), (732, 207))
    picture.words(682, 199, "attempts used up", anchor="end", small=True)
    picture.line((807, 144), (807, 168), (567, 168), (567, 144))
    picture.words(820, 165, "its time", small=True)
    picture.line((807, 224), (807, 250), (327, 250), (327, 144))
    picture.words(470, 245, "an operator's retry", small=True)
    return picture.svg()


def pieces_drawing() -> str:
    """Return how a record travels between client, log, node and store."""
    picture = Picture("Client, log, node and store")
    boxes: Iterable[tuple[int, int, str]] = (
        (12, 60, "client"),
        (262, 60, "log"),
        (512, 60, "node"),
        (512, 190, "store"),
        (762, 60, "your code"),
    )
    for x, y, text in boxes:
        picture.box(x, y, text)
    picture.line((162, 70), (262, 70))
    picture.words(212, 62, "1 record", anchor="middle", small=True)
    picture.line((262, 86), (162, 86))
    picture.words(212, 106, "2 receipt: durable", anchor="middle", small=True)
    picture.line((412, 77), (512, 77))
    picture.words(462, 69, "3 batch", anchor="middle", small=True)
    picture.line((560, 94), (560, 190))
    picture.words(552, 146, "4 rows", anchor="end", small=True)
    picture.line((614, 190), (614, 94))
    picture.words(622, 132, "6 what is due soon,", small=True)
    picture.words(622, 148, "hour by hour", small=True)
    picture.line((512, 86), (412, 86))
    picture.words(462, 106, "5 offset", anchor="middle", small=True)
    picture.line((662, 70), (762, 70))
    picture.words(712, 62, "7 on time", anchor="middle", small=True)
    picture.line((837, 94), (837, 207), (662, 207))
    picture.words(750, 199, "8 done", anchor="middle", small=True)
    return picture.svg()
