"""Histories without a log: of a register as Jepsen drives etcd, with a known verdict; brute force for small ones."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from upheaval.checkers.history.model import Model, same
from upheaval.records import Function, Json, Operation, Outcome

NEVER_WRITTEN = 9


def register_history(seed: int, steps: int, *, is_valid: bool, lost: float = 0.15) -> list[Operation]:
    """Five clients of a register that is linearizable; of some requests no answer comes, and the client goes on as a
    new process. When not `is_valid`, the last read returns what was never written, after everything else."""
    random = Random(seed)
    held: Json = None
    waiting: dict[int, tuple[Operation, Json]] = {}
    processes = [0, 1, 2, 3, 4]
    done: list[Operation] = []
    late: list[Operation] = []
    for moment in range(steps):
        slot = random.randrange(5)
        process = processes[slot]
        if process not in waiting:
            f = random.choice([Function.READ, Function.WRITE, Function.CAS])
            value: Json = None if f is Function.READ else random.randrange(5)
            value = [random.randrange(5), value] if f is Function.CAS else value
            operation = Operation(moment, process, f, "", value, moment, None, Outcome.UNKNOWN, None, None)
            result: Json = None
            if random.random() < lost:
                done.append(operation)
                late.append(operation)
                processes[slot] += 5
                continue
            held, result = _applied(held, operation)
            waiting[process] = operation, result
        else:
            operation, result = waiting.pop(process)
            done.append(_answered(operation, moment, result))
        if late and random.random() < 0.05:
            held, _ = _applied(held, late.pop(random.randrange(len(late))))
    done.extend(operation for operation, _ in waiting.values())
    last = Operation(steps, 99, Function.READ, "", None, steps, None, Outcome.UNKNOWN, None, None)
    return [*done, _answered(last, steps + 1, held if is_valid else NEVER_WRITTEN)]


def _applied(held: Json, operation: Operation) -> tuple[Json, Json]:
    model = Model()
    model.registers[""] = held
    result = model.apply(operation.f, "", operation.value)
    return model.registers[""], result


def _answered(operation: Operation, moment: int, result: Json) -> Operation:
    return replace(operation, complete_ns=moment, outcome=Outcome.OK, result=result)


def is_linearizable(operations: Sequence[Operation]) -> bool:
    """Every order of every choice of unanswered operations, tried one after the other. Texts are appended to."""
    happened = [each for each in operations if each.outcome is not Outcome.FAIL]

    def extend(order: list[Operation], rest: list[Operation]) -> bool:
        if not _explains(order):
            return False
        if all(each.outcome is not Outcome.OK for each in rest):
            return True
        for each in rest:
            others = [other for other in rest if other is not each]
            if not any(_end(other) < each.invoke_ns for other in others) and extend([*order, each], others):
                return True
        return False

    return extend([], happened)


def _end(operation: Operation) -> float:
    return operation.complete_ns if operation.outcome is Outcome.OK and operation.complete_ns is not None else 1e30


def _explains(order: Sequence[Operation]) -> bool:
    model = Model()
    texts: dict[str, str] = {}
    for each in order:
        if isinstance(each.value, str) or isinstance(each.result, str):
            result = _on_text(texts, each)
        else:
            result = model.apply(each.f, each.key, each.value)
        if each.outcome is Outcome.OK and not same(result, each.result):
            return False
    return True


def _on_text(texts: dict[str, str], operation: Operation) -> Json:
    held = texts.setdefault(operation.key, "")
    if operation.f is Function.READ:
        return held
    assert isinstance(operation.value, str)
    texts[operation.key] = held + operation.value if operation.f is Function.APPEND else operation.value
    return None
