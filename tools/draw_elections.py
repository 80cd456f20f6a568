"""Draw the states of an election into docs/elections.md, from the node's own table of moves.

python tools/draw_elections.py writes the part between the two marks; a test tells whether it is current.
"""

from pathlib import Path

from upheaval_node.cluster.election_states import MOVES, ROLE_ON_ENTRY, ElectionState

PAGE = Path(__file__).resolve().parents[1] / "docs" / "elections.md"
BEGIN = "<!-- drawn by tools/draw_elections.py -->"
END = "<!-- end of the drawing -->"


def drawing() -> str:
    """A state diagram and a table; errors, which lead to INIT from everywhere, are said in words."""
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> INIT"]
    for old, targets in MOVES.items():
        lines += [f"    {old.name} --> {new.name}" for new in targets]
    lines += [f"    {ElectionState.CLOSED.name} --> [*]", "```", ""]
    lines += ["| code | state | role on entry | goes to | when |", "|---|---|---|---|---|"]
    for old, targets in MOVES.items():
        role = ROLE_ON_ENTRY[old].name if old in ROLE_ON_ENTRY else ""
        rows = [(new.name, cause) for new, cause in targets.items()] or [("", "the election is over")]
        for number, (new_name, cause) in enumerate(rows):
            head = (str(old.value), old.name, role) if number == 0 else ("", "", "")
            lines.append(f"| {' | '.join(head)} | {new_name} | {cause} |")
    return "\n".join(lines)


def page_with_drawing(text: str) -> str:
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{PAGE} has no marks for the drawing")
    return f"{before}{BEGIN}\n\n{drawing()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page_with_drawing(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
