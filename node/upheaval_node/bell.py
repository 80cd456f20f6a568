"""How an agent learns that it has something to do. Knows neither who rings nor who looks."""


class Bell:
    """Rung when something came for an agent since its last turn: data, a connection, room to send.

    `turns.Turns` clears the bell before it turns the agent. It turns an agent only when the bell was rung, when the
    deadline of the agent has come, after an event that rings no bell (the disk is done), or when the last turn did
    something and the agent has not set `is_settled`, which means that another turn would do nothing. A bell that
    `covers_all` is rung for everything that the agent has to do: the agent rings it when there is more to do, and waits
    for no disk. An agent has a `bell` if another component rings it.
    """

    __slots__ = ("covers_all", "is_settled", "rung")

    def __init__(self, *, covers_all: bool = False) -> None:
        self.rung = True
        self.covers_all = covers_all
        self.is_settled = covers_all
