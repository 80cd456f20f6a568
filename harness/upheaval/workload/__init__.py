"""Loads: which operations clients ask for, and the driver that asks and writes the history."""

from upheaval.workload.draws import AMOUNT_MAX, DELAYS_MS, LedgerDraw, TimersDraw
from upheaval.workload.load import (
    APPENDS_A_LIST,
    IDS_A_LOAD,
    LEDGER_SERVICE,
    SERVICES,
    TIMERS_SERVICE,
    WORKBENCH_SERVICE,
    Load,
    LoadCounts,
    OperationDraw,
    Session,
    WorkloadSettings,
    make_draw,
)

__all__ = [
    "AMOUNT_MAX",
    "APPENDS_A_LIST",
    "DELAYS_MS",
    "IDS_A_LOAD",
    "LEDGER_SERVICE",
    "SERVICES",
    "TIMERS_SERVICE",
    "WORKBENCH_SERVICE",
    "LedgerDraw",
    "Load",
    "LoadCounts",
    "OperationDraw",
    "Session",
    "TimersDraw",
    "WorkloadSettings",
    "make_draw",
]
