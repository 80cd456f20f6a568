#!/usr/bin/env bash
# The step of action.yml: runs the scenario into a folder of its own, adds the page of the run to it and the verdict to the
# job summary, and ends with the verdict's exit status. Settings are SCENARIO, RUNTIME, SYSTEM, SERVICE and SEED.
set -uo pipefail

# The artefact has this name too, with the job's.
name=$(basename "$SCENARIO" .scenario)
name="upheaval-run-$name-$RUNTIME-$SEED"
[[ $SYSTEM == upheaval ]] || name+="-$SYSTEM"
[[ -z $SERVICE ]] || name+="-$SERVICE"
name=${name//[^A-Za-z0-9._-]/-}
folder=$name
for ((number = 2; ; number++)); do
    [[ -e $folder ]] || break
    folder=$name-$number
done
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
{
    printf 'verdict=%s\n' "$(head -n 1 <<<"$verdict" | sed -n 's/^verdict: \([a-z]*\).*/\1/p')"
    printf 'folder=%s\n' "$folder"
} >>"$GITHUB_OUTPUT"
{
    printf '### %s on %s, seed %s\n\n' "$SCENARIO" "$RUNTIME" "$SEED"
    printf '```text\n%s\n```\n' "$verdict"
} >>"$GITHUB_STEP_SUMMARY"
exit "$status"
