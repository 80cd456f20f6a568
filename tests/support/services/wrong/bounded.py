"""A promise about `unbounded`."""

from upheaval import promise

KEPT_MAX = 50


@promise("no more than fifty answers are kept")
def few_answers_are_kept(run):
    for request, service in run.states():
        assert len(service.answers) <= KEPT_MAX, f"answers holds {len(service.answers)} after {request.text}"
