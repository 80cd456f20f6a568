// The page of a campaign: what its seeds came to so far, looked at again until it is over.

const LOOK_EVERY_MS = 2000;
const $ = (id) => document.getElementById(id);
const name = $("campaign").dataset.name.split("/").map(encodeURIComponent).join("/");

function row(...cells) {
  const made = document.createElement("tr");
  for (const content of cells) {
    const cell = document.createElement("td");
    cell.append(content);
    made.append(cell);
  }
  return made;
}

function seed({ seed: number, run }) {
  if (!run) return String(number);
  const link = document.createElement("a");
  link.href = `/runs/${run.split("/").map(encodeURIComponent).join("/")}`;
  link.textContent = number;
  return link;
}

function show(found) {
  const bad = found.failed.length > 0;
  $("badge").textContent = found.is_over ? "over" : "running";
  $("badge").className = `badge ${bad ? "invalid" : found.is_over && found.seeds ? "valid" : "unknown"}`;
  const verdicts = Object.entries(found.verdicts).map(([verdict, count]) => `${count} ${verdict}`).join(", ");
  const share = `excludes failures in more than ${(found.excluded_rate * 100).toPrecision(2)} % of seeds`;
  $("sums").textContent = `${found.seeds} seeds: ${verdicts || "none yet"}; ${found.inconclusive} inconclusive; ` +
    `${found.operations.toLocaleString("en")} operations; ${share}`;
  $("failed").replaceChildren(...found.failed.map((each) => row(seed(each), each.verdict, each.findings.join("; "))));
  $("faults").replaceChildren(...Object.entries(found.faults).map(([kind, fates]) =>
    row(kind, ...["planned", "proved", "unseen", "left_out"].map((fate) => String(fates[fate] ?? 0)))));
  const variations = Object.entries(found.variations).map(([kind, count]) => `${kind} in ${count}`).join(", ");
  $("variations").textContent = `variations seen: ${variations || "none"}`;
  $("moves").textContent = `${found.moves} election transitions, ${found.untaken_moves.length} did not occur`;
  $("untaken").textContent = found.untaken_moves.join("\n");
  $("goals").textContent = `${found.goals} goals reached, ${found.unreached_goals.length} not yet`;
  $("unreached").textContent = found.unreached_goals.join("\n");
}

async function look() {
  const answer = await fetch(`/api/campaigns/${name}`);
  const found = await answer.json();
  if (answer.ok) show(found);
  else $("badge").textContent = found.error;
  if (!answer.ok || !found.is_over) setTimeout(look, LOOK_EVERY_MS);
}

look();
