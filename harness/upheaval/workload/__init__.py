"""Loads: the operations that clients ask for, and the driver that sends them and writes the history."""

# Before any module that may be compiled: this puts the finder of compiled modules in place.
import upheaval_node as upheaval_node
from upheaval.workload.draws import (
    AMOUNT_MAX as AMOUNT_MAX,
    DELAYS_MS as DELAYS_MS,
    LedgerDraw as LedgerDraw,
    TimersDraw as TimersDraw,
)
from upheaval.workload.load import (
    APPENDS_A_LIST as APPENDS_A_LIST,
    IDS_A_LOAD as IDS_A_LOAD,
    LEDGER_SERVICE as LEDGER_SERVICE,
    SERVICES as SERVICES,
    SILENT_SERVICES as SILENT_SERVICES,
    TIMERS_SERVICE as TIMERS_SERVICE,
    WORKBENCH_SERVICE as WORKBENCH_SERVICE,
    ClientLoad as ClientLoad,
    Load as Load,
    LoadCounts as LoadCounts,
    LoadMaker as LoadMaker,
    OperationDraw as OperationDraw,
    WorkloadSettings as WorkloadSettings,
    make_draw as make_draw,
    session_end as session_end,
)
from upheaval.workload.sessions import (
    Session as Session,
    SessionThatGivesBack as SessionThatGivesBack,
)
