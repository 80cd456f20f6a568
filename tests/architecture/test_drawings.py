"""What is drawn from the code into the documentation is current."""

import draw_elections


def test_the_states_of_an_election_are_drawn_as_they_are() -> None:
    text = draw_elections.PAGE.read_text(encoding="utf-8")
    assert draw_elections.page_with_drawing(text) == text
