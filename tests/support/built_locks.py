"""Run folders of the lock service with fencing tokens, as a client that asks one thing after the other leaves them."""

import json
from dataclasses import replace
from pathlib import Path

from support.built_runs import BuiltRun, good_run
from support.services.fenced import Fenced
from upheaval.records import Function, Operation, Outcome, call_digest, source_digest
from upheaval_node.protocol.session_header import pack_session_header

SERVICES = Path(__file__).parent / "services"
CALLS = 120
STEP_NS = 1000


def asked(number: int) -> bytes:
    do = ("acquire", "holder", "release", "acquire", "release", "holder")[number % 6]
    fields = {"id": f"r{number}", "do": do, "lock": f"lock-{number // 6 % 3}", "who": f"c{number}"}
    return json.dumps(fields).encode()


def call(number: int, payload: bytes, answer: str | None, session: int | None = 1) -> Operation:
    """One after the other: each begins when the one before it is answered."""
    begin = 10**9 + number * STEP_NS
    end, outcome = (None, Outcome.UNKNOWN) if answer is None else (begin + STEP_NS // 2, Outcome.OK)
    return Operation(
        number, 0, Function.CALL, "request", call_digest(payload), begin, end, outcome, answer, session=session
    )


def message(payload: bytes, session: int = 1) -> bytes:
    return pack_session_header(0, session, 1000) + payload


def locks_run(model: str = "fenced_model:Locks") -> BuiltRun:
    """A good run of the lock service, with a client that asks nothing twice."""
    service, run = Fenced(), good_run(0)
    for number in range(CALLS):
        payload = asked(number)
        run.operations.append(call(number, payload, json.dumps(service.apply(json.loads(payload)))))
        for log in run.payloads:
            log.append(message(payload))
    source = str(SERVICES)
    run.manifest = replace(
        run.manifest,
        service="fenced:Fenced",
        source=source,
        source_digest=source_digest(source, "fenced:Fenced"),
        model=model,
        model_source=source,
    )
    return run


def wrong_answer(run: BuiltRun) -> None:
    run.operations[20] = replace(run.operations[20], result='{"ok": true, "token": 3}')
