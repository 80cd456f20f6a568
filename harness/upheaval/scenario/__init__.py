"""The language of scenarios: their values, their text, and the schedules that are recorded in it.

Runs nothing.
"""

from upheaval.scenario.exact_script import (
    ExactScript,
    ExactStep,
    Expected,
    exact_names,
    find_exact,
    is_exact,
    parse_exact,
)
from upheaval.scenario.recorded import realised_scenario
from upheaval.scenario.text import ScenarioError, load_scenario, parse_scenario, scenario_names
from upheaval.scenario.values import (
    SIMULATED,
    AskFor,
    Begin,
    End,
    GiveOrder,
    Heal,
    Inject,
    KeepBackup,
    Scenario,
    Step,
    WaitBackup,
    WaitCaughtUp,
    WaitLeader,
    WaitMoment,
    WaitOperations,
    WaitSeconds,
    WaitTime,
)

__all__ = [
    "SIMULATED",
    "AskFor",
    "Begin",
    "End",
    "ExactScript",
    "ExactStep",
    "Expected",
    "GiveOrder",
    "Heal",
    "Inject",
    "KeepBackup",
    "Scenario",
    "ScenarioError",
    "Step",
    "WaitBackup",
    "WaitCaughtUp",
    "WaitLeader",
    "WaitMoment",
    "WaitOperations",
    "WaitSeconds",
    "WaitTime",
    "exact_names",
    "find_exact",
    "is_exact",
    "load_scenario",
    "parse_exact",
    "parse_scenario",
    "realised_scenario",
    "scenario_names",
]
