#!/usr/bin/env bash
# The step of action.yml: runs the scenario into a folder of its own, adds the page of the run to it and the verdict to the
# job summary, and ends with the verdict's exit status. Settings are SCENARIO, RUNTIME and SEED, and SYSTEM, SERVICE,
# LOAD_USER, MODEL and SCHEMA, of which an empty one leaves the choice to the project ([tool.upheaval]).
set -uo pipefail

# The artefact has this name too, with the job's.
name=$(basename "$SCENARIO" .scenario)
name="upheaval-run-$name-$RUNTIME-$SEED"
[[ -z $SYSTEM ]] || name+="-$SYSTEM"
[[ -z $SERVICE ]] || name+="-$SERVICE"
name=${name//[^A-Za-z0-9._-]/-}
folder=$name
for ((number = 2; ; number++)); do
    [[ -e $folder ]] || break
    folder=$name-$number
done
options=(--runtime "$RUNTIME" --seed "$SEED" --dir "$folder")
[[ -z $SYSTEM ]] || options+=(--system "$SYSTEM")
[[ -z $SERVICE ]] || options+=(--service "$SERVICE")
[[ -z $LOAD_USER ]] || options+=(--user "$LOAD_USER")
[[ -z $MODEL ]] || options+=(--model "$MODEL")
[[ -z $SCHEMA ]] || options+=(--schema "$SCHEMA")

upheaval run "$SCENARIO" "${options[@]}"
status=$?

verdict="no verdict: see the log"
if [[ -d $folder ]]; then
    upheaval report "$folder" || true
    verdict=$(upheaval --color never verify "$folder" || true)
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
