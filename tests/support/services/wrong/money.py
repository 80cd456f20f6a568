"""A promise about `swallows`."""

from upheaval import promise


@promise("no money is made or lost")
def money_is_conserved(run):
    for request, service in run.states():
        assert sum(service.balances.values()) == 2000, f"{service.balances} after {request.text}"
