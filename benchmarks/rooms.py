"""Draw docs/figures/rooms.svg from the table of docs/architecture.md: the rooms of the house, and who may import whom.

python benchmarks/rooms.py
"""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE, PICTURE = ROOT / "docs" / "architecture.md", ROOT / "docs" / "figures" / "rooms.svg"
SIDES = {
    "private": "#f4d6cf",
    "gate": "#f2c14e",
    "public": "#cfe3d4",
    "local": "#cfdcf0",
    "around": "#e7e3ee",
    "ground": "#eeeeee",
}
WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN = 122, 34, 20, 44, 24


def table() -> list[tuple[str, str, list[str]]]:
    """(room, side, whom it may import)."""
    lines = re.findall(r"^\| `(\w+)` \| (\w+):[^|]*\| ([^|]*) \|$", PAGE.read_text(encoding="utf-8"), re.M)
    return [(room, side, re.findall(r"`(\w+)`", others)) for room, side, others in lines]


def floors(rooms: list[tuple[str, str, list[str]]]) -> dict[str, int]:
    """The floor of each room: one above the highest that it imports."""
    others, floor = {room: needs for room, _, needs in rooms}, dict[str, int]()

    def of(room: str) -> int:
        if room not in floor:
            floor[room] = 1 + max((of(other) for other in others[room]), default=-1)
        return floor[room]

    for room in others:
        of(room)
    return floor


def drawn() -> str:
    rooms = table()
    floor = floors(rooms)
    highest = max(floor.values())
    on_floor = {level: [room for room, _, _ in rooms if floor[room] == level] for level in range(highest + 1)}
    widest = max(len(names) for names in on_floor.values())
    full = 2 * MARGIN + widest * (WIDTH + GAP_X) - GAP_X
    place = {}
    for level, names in on_floor.items():
        start = (full - len(names) * (WIDTH + GAP_X) + GAP_X) / 2
        for at, room in enumerate(names):
            place[room] = start + at * (WIDTH + GAP_X), MARGIN + (highest - level) * (HEIGHT + GAP_Y)
    tall = 2 * MARGIN + highest * (HEIGHT + GAP_Y) + HEIGHT + 30
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {full:g} {tall:g}" font-family="sans-serif" font-size="13">',
        "<title>The rooms of commonground: each imports only rooms below it</title>",
        f'<rect width="{full:g}" height="{tall:g}" fill="white"/>',
    ]
    nearest = {room: [o for o in needs if floor[room] - floor[o] == 1] for room, _, needs in rooms}
    for room, others in nearest.items():
        for other in others:
            (x, y), (to_x, to_y) = place[room], place[other]
            lines.append(
                f'<line x1="{x + WIDTH / 2:g}" y1="{y + HEIGHT:g}" x2="{to_x + WIDTH / 2:g}" y2="{to_y:g}" stroke="#999"/>'
            )
    for room, side, _ in rooms:
        x, y = place[room]
        lines.append(
            f'<rect x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="5" fill="{SIDES[side]}" stroke="#555"/>'
        )
        lines.append(f'<text x="{x + WIDTH / 2:g}" y="{y + 22:g}" text-anchor="middle">{room}</text>')
    for at, (side, colour) in enumerate(SIDES.items()):
        x, y = MARGIN + at * 110, tall - 26
        lines.append(f'<rect x="{x}" y="{y:g}" width="14" height="14" fill="{colour}" stroke="#555"/>')
        lines.append(f'<text x="{x + 20}" y="{y + 12:g}">{side}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(drawn(), encoding="utf-8")
