#!/usr/bin/env bash
# The step of action.yml: runs the scenario into ./upheaval-run, adds the page of the run to it and the verdict to the job
# summary, and ends with the verdict's exit status. Settings are SCENARIO, RUNTIME, SYSTEM, SERVICE and SEED.
set -uo pipefail

folder=upheaval-run
options=(--runtime "$RUNTIME" --seed "$SEED" --dir "$folder")
# Virtual time has one system.
[[ $RUNTIME == simulated ]] || options+=(--system "$SYSTEM")
[[ -z $SERVICE ]] || options+=(--service "$SERVICE")

upheaval run "$SCENARIO" "${options[@]}"
status=$?

verdict="no verdict: see the log"
if [[ -d $folder ]]; then
    upheaval report "$folder" || true
    verdict=$(upheaval verify "$folder" || true)
fi
printf 'verdict=%s\n' "$(head -n 1 <<<"$verdict" | sed -n 's/^verdict: \([a-z]*\).*/\1/p')" >>"$GITHUB_OUTPUT"
{
    printf '### %s on %s, seed %s\n\n' "$SCENARIO" "$RUNTIME" "$SEED"
    printf '```text\n%s\n```\n' "$verdict"
} >>"$GITHUB_STEP_SUMMARY"
exit "$status"
