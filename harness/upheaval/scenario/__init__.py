"""The language of scenarios: their values, their text, and the schedules recorded in it. Runs nothing."""

from upheaval.scenario.exact_script import (
    ExactScript as ExactScript,
    ExactStep as ExactStep,
    exact_names as exact_names,
    find_exact as find_exact,
    is_exact as is_exact,
    parse_exact as parse_exact,
)
from upheaval.scenario.recorded import recorded_scenario as recorded_scenario
from upheaval.scenario.statements import ScenarioError as ScenarioError
from upheaval.scenario.text import (
    load_scenario as load_scenario,
    parse_scenario as parse_scenario,
    scenario_names as scenario_names,
    with_rules as with_rules,
)
from upheaval.scenario.values import (
    SNAPSHOT_STATE as SNAPSHOT_STATE,
    STATES as STATES,
    AskFor as AskFor,
    Begin as Begin,
    End as End,
    GiveCommand as GiveCommand,
    Heal as Heal,
    Inject as Inject,
    KeepCompanion as KeepCompanion,
    OwnCode as OwnCode,
    Scenario as Scenario,
    Step as Step,
    WaitCaughtUp as WaitCaughtUp,
    WaitCompanion as WaitCompanion,
    WaitLeader as WaitLeader,
    WaitMoment as WaitMoment,
    WaitOperations as WaitOperations,
    WaitSeconds as WaitSeconds,
    WaitSent as WaitSent,
    WaitState as WaitState,
    WaitTime as WaitTime,
)
