"""How an agent is told that a turn of it would do something. Knows neither who rings nor who looks."""


class Bell:
    """Rung when something came for an agent since its last turn: data, a connection, room to send.

    Who turns the agent takes the note back before the turn (`turns.Turns`): an agent is turned only when its bell was
    rung, when its deadline has come, when something happened for which nobody rings, as the disk being done, or when
    its last turn did something and the agent has not said that it `is_settled`: that another turn would do nothing. An
    agent whose bell `tells_all` rings for itself when there is more to do, and waits for no disk. Agents have a `bell`
    where somebody rings for them.
    """

    __slots__ = ("is_settled", "rung", "tells_all")

    def __init__(self, *, tells_all: bool = False) -> None:
        self.rung = True
        self.tells_all = tells_all
        self.is_settled = tells_all
