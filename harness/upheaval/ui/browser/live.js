// The page of a cluster while it runs: draws what the server sends, and asks it to break, heal and command.

"use strict";

const live = document.getElementById("live");
const path = live.dataset.run.split("/").map(encodeURIComponent).join("/");
/** What is shown without zoom, in nanoseconds. */
const WINDOW_NS = 120e9;
/** Looks, and changes of a member, that are kept: a quarter of an hour at two looks a second. */
const KEPT = 1800;
const lanes = Array.from({ length: Number(live.dataset.members) }, (_, id) => ({ id, spans: [], states: [], stalls: [], positions: [] }));
const looks = { at: [], total: [] };
const terms = [];
const buckets = [];
/** Operations are in the page of the run; this one has their counts and percentiles. */
const NO_OPERATIONS = Object.fromEntries(["id", "kind", "outcome", "begin", "end"].map((column) => [column, []]));
let timeLine = null;
let refusal = "";

const $ = (id) => document.getElementById(id);

/** Text is replaced only where it differs, so that a page on which nothing happens draws nothing. */
function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function count(value) {
  return value === null || value < 0 ? "-" : bytes(value);
}

function latency(ns) {
  return ns === null ? "-" : duration(ns);
}

function stateOf(member) {
  if (!member.alive) return "down";
  if (member.election_state !== null && member.election_state !== "CLOSED") return "election";
  return (member.role ?? "follower").toLowerCase() === "leader" ? "leader" : "follower";
}

function showMembers(state) {
  for (const member of state.members) {
    const row = document.querySelector(`tr[data-member="${member.member_id}"]`);
    const role = member.alive ? (member.role ?? "-").toLowerCase() : "down";
    const shown = [role, member.alive ? member.election_state ?? "-" : "-",
      ...[member.leadership_term_id, member.append_position, member.lag, member.commit_position,
        member.committed_bytes_per_s].map((value) => (member.alive ? count(value) : "-"))];
    shown.forEach((text, index) => write(row.cells[index + 1], text));
    row.dataset.state = stateOf(member);
    for (const button of row.querySelectorAll("button")) button.disabled = !member.alive;
  }
}

function faultItem(fault) {
  const isOn = fault.end_ns === null;
  const item = element("li", { className: isOn ? "on" : "" },
    element("b", { textContent: fault.statement }), isOn ? " on" : "", element("span", { className: "countdown" }),
    `: ${fault.evidence} `);
  item.dataset.name = fault.name;
  if (isOn && $("doing")) {
    const button = element("button", { type: "button", textContent: "heal" });
    button.addEventListener("click", () => ask("heal", { name: fault.name }));
    item.append(button);
  }
  return item;
}

/** The list is made again only where a fault changed: a button that is made again each second would lose the focus. */
function showFaults(state) {
  const list = $("fault-list");
  const faults = [...state.faults].reverse();
  const text = JSON.stringify(faults.map((fault) => [fault.name, fault.statement, fault.end_ns, fault.evidence]));
  if (list.dataset.shown !== text) {
    list.dataset.shown = text;
    list.replaceChildren(...faults.map(faultItem));
  }
  faults.forEach((fault, index) => {
    const left = fault.heals_in_s === null ? "" : `, heals in ${Math.ceil(fault.heals_in_s)} s`;
    write(list.children[index].querySelector(".countdown"), left);
  });
}

function showDone(state) {
  if (!$("doing")) return;
  write($("doing"), state.doing ? `${state.doing}: waiting for evidence` : refusal);
  const text = state.done.map((each) => `${each.what}: ${each.answer}`).join("\n");
  if ($("done").dataset.shown === text) return;
  $("done").dataset.shown = text;
  $("done").replaceChildren(...[...state.done].reverse().map((each) => element("li", {
    className: each.is_done ? "" : "failed",
    textContent: `${new Date(each.epoch_ms).toLocaleTimeString()} ${each.what}: ${each.answer}`,
  })));
}

function showBroken(state) {
  const broken = $("broken");
  broken.hidden = state.broken.length === 0;
  write(broken, state.broken.map((each) => `${each.sentence}: broken: ${each.detail}`).join(" "));
}

// --- the charts ---

function keep(list, value) {
  list.push(value);
  if (list.length > KEPT) list.shift();
}

/** What one look adds to the lane of a member. */
function grow(lane, member, at) {
  const state = stateOf(member);
  const term = state === "leader" ? member.leadership_term_id : null;
  const last = lane.spans.at(-1);
  if (last) last[1] = at;
  if (!last || last[2] !== state || last[3] !== term) keep(lane.spans, [last ? at : Math.max(at - 1, 0), at, state, term]);
  const election = member.alive ? member.election_state : null;
  if (election !== null && election !== lane.states.at(-1)?.[1]) keep(lane.states, [at, election, ""]);
  const [, position, lag] = lane.positions.at(-1) ?? [];
  const isKnown = member.alive && member.append_position >= 0;
  if (isKnown && (position !== member.append_position || lag !== member.lag)) keep(lane.positions, [at, member.append_position, member.lag ?? 0]);
}

/** Answers before a moment: between two looks as if they came evenly, before the first look as many as it saw. */
function answered(ns) {
  const { at, total } = looks;
  const next = lowerBound(at, ns);
  if (next === 0 || next === at.length) return total[Math.max(next - 1, 0)] ?? 0;
  const share = (ns - at[next - 1]) / (at[next] - at[next - 1]);
  return total[next - 1] + share * (total[next] - total[next - 1]);
}

/** The cluster as the page of a run has it, in nanoseconds of the run. */
function runSoFar(state) {
  const at = (ns) => (ns === null ? null : ns - state.start_ns);
  const span = ({ what, begin_ns, end_ns, evidence }) => ({ what, begin: at(begin_ns), end: at(end_ns), evidence });
  const now = Math.max(at(state.ns), 1);
  state.members.forEach((member, i) => {
    grow(lanes[i], member, now);
    lanes[i].stalls = state.stalls[i].map((stall) => stall.map(at));
    const term = member.leadership_term_id;
    if (stateOf(member) === "leader" && !terms.some(([, known]) => known >= term)) keep(terms, [now, term, member.member_id]);
  });
  const { total, p50_ns: p50, p99_ns: p99 } = state.answers;
  keep(looks.at, now);
  keep(looks.total, total);
  keep(buckets, [now, p50, p99]);
  return {
    length: now,
    epoch_ms: state.epoch_ms - now / 1e6,
    members: lanes,
    terms,
    buckets,
    answered,
    operations: NO_OPERATIONS,
    counts: { kind: {} },
    faults: state.faults.map((fault) => span({ ...fault, what: fault.statement })),
    orders: state.commands.map((command) => span({ ...command, evidence: command.proof.evidence })),
    breaks: state.broken.filter(({ when_ns }) => when_ns).map((each) => span({ what: each.sentence, begin_ns: each.when_ns[0], end_ns: each.when_ns[1], evidence: each.detail })),
  };
}

function showMark(mark) {
  timeLine.note(mark);
  $("details").replaceChildren(markDetails(timeLine.run, mark, "goes on"));
}

/** The window stays at the end of the run, as wide as it is, until the user moves it away from there. */
function drawRun(run) {
  if (timeLine === null) {
    timeLine = new TimeLine($("time-line"), run, { onMark: showMark });
    bindKeys(windowKeys(timeLine));
    onPaper((width) => {
      timeLine.resize(width ?? $("time-line").clientWidth);
      timeLine.redraw();
    });
  }
  const { from, to, shown = { from, to, width: WINDOW_NS } } = timeLine;
  if (to < shown.to) return timeLine.renew(run, from, to);
  const isMoved = from !== shown.from || to !== shown.to;
  const width = !isMoved ? shown.width : from === 0 ? Infinity : to - from;
  timeLine.renew(run, run.length - Math.min(width, run.length), run.length);
  timeLine.shown = { from: timeLine.from, to: timeLine.to, width };
  return undefined;
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => timeLine?.redraw());

function show(state) {
  if (state.error) {
    write($("badge"), state.error);
    $("badge").className = "badge unknown";
    return;
  }
  const { total, per_s: rate, p50_ns: p50, p99_ns: p99 } = state.answers;
  const leads = state.members.find((member) => member.alive && member.role === "LEADER" && member.election_state === "CLOSED");
  write($("badge"), leads ? `member ${leads.member_id} leads` : "no leader");
  $("badge").className = `badge ${leads ? "valid" : "unknown"}`;
  showMembers(state);
  showFaults(state);
  showDone(state);
  showBroken(state);
  showLinks(state);
  showLoad(state);
  write($("figures"), `${count(total)} answers, ${count(rate)} a second, p50 ${latency(p50)}, p99 ${latency(p99)}`);
  drawRun(runSoFar(state));
}

/** A link shows the last fault that is on it; faults of one channel only are faults of the link, too. */
function showLinks(state) {
  for (const button of document.querySelectorAll("[data-link]")) {
    const [source, target] = button.dataset.link.split(" ");
    const isOnIt = (link) => link.split(/[/ ]/)[0] === `${source}->${target}`;
    const fault = state.faults.findLast((fault) => fault.end_ns === null && fault.links.some(isOnIt));
    write(button, fault ? `${fault.what}: heal` : "open");
    button.title = fault ? `${fault.statement}: ${fault.evidence}` : "";
    button.dataset.fault = fault?.name ?? "";
  }
}

function showLoad({ load }) {
  if (!$("load-state")) return;
  const counts = `${count(load.requests)} requests, ${count(load.failures)} failed`;
  const rate = load.rate === 0 ? "as fast as answers come" : `${load.rate} a second each`;
  const text = load.is_on ? `${load.users} users, ${rate}: ${count(load.per_second)} a second, ${counts}` :
    load.requests ? `stopped: ${counts}` : "no load";
  write($("load-state"), load.error || text);
  $("load-start").disabled = load.is_on;
  for (const word of ["load-rate", "load-stop"]) document.querySelector(`[data-do=${word}]`).disabled = !load.is_on;
}

/** What the server answers; an error is shown, and is no exception. */
async function ask(action, body = {}) {
  const answer = await fetch(`/api/live/${path}/${action}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  const found = await answer.json();
  refusal = found.error ?? "";
  write($("doing"), refusal);
  return found;
}

function seconds() {
  return $("for").value === "" ? null : Number($("for").value);
}

function inject(statement) {
  return ask("inject", { statement, for_s: seconds() });
}

async function save(runs) {
  write($("saved"), runs ? "runs in virtual time" : "");
  const found = await ask("scenario", { runs });
  $("text").hidden = !found.text;
  write($("text"), found.text ?? "");
  $("saved").replaceChildren(found.error ?? `saved as ${found.path}`);
  if (found.run) {
    const beside = `/compare?${new URLSearchParams({ a: live.dataset.run, b: found.run })}`;
    $("saved").append(": ", element("a", { href: `/runs/${found.run}`, id: "rerun", target: "_blank", textContent: `the simulated run, ${found.verdict}` }),
      ", ", element("a", { href: beside, id: "beside", target: "_blank", textContent: "beside this one" }));
  }
}

async function end() {
  refusal = "the members come to one position and end";
  const found = await ask("end");
  if (!found.error) location.assign(`/runs/${path}`);
}

/** Asks once: the second click on the same button does it, unless the focus was elsewhere in between. */
function isMeant(button) {
  if (!("asks" in button.dataset) || "meant" in button.dataset) {
    button.dispatchEvent(new Event("blur"));
    return true;
  }
  const word = button.textContent;
  button.dataset.meant = "";
  button.textContent = `really ${word}?`;
  button.addEventListener("blur", () => {
    delete button.dataset.meant;
    button.textContent = word;
  }, { once: true });
  return false;
}

const DOERS = {
  "inject": (button) => inject(button.dataset.statement),
  "heal-all": () => ask("heal-all"),
  "command": (button) => ask("command", { word: button.dataset.word }),
  "load-rate": () => ask("load-rate", { rate: Number($("rate").value) }),
  "load-stop": () => ask("load-stop"),
  "end": end,
  "save": () => save(false),
  "rerun": () => save(true),
};

for (const button of document.querySelectorAll("[data-do]")) {
  button.addEventListener("click", () => {
    if (isMeant(button)) DOERS[button.dataset.do](button);
  });
}

$("by-statement")?.addEventListener("submit", (event) => {
  event.preventDefault();
  inject($("statement").value);
});

const kinds = [...document.querySelectorAll("[data-kind]")];

function chosenKind() {
  return kinds.find((kind) => kind.getAttribute("aria-pressed") === "true");
}

for (const kind of kinds) {
  kind.addEventListener("click", () => {
    for (const other of kinds) other.setAttribute("aria-pressed", String(other === kind));
    $("options").value = kind.dataset.options;
  });
}
chosenKind()?.click();

for (const button of document.querySelectorAll("[data-link]")) {
  const [source, target] = button.dataset.link.split(" ");
  button.addEventListener("click", () => {
    if (button.dataset.fault) return ask("heal", { name: button.dataset.fault });
    const { kind, arrow } = chosenKind().dataset;
    return inject(`${kind} member-${source} ${arrow} member-${target} ${$("options").value}`.trim());
  });
}

$("load-form")?.addEventListener("submit", (event) => {
  event.preventDefault();
  ask("load-start", { users: Number($("users").value), rate: Number($("rate").value), user: $("user").value });
});

$("log-lines").addEventListener("toggle", async function look() {
  if (!$("log-lines").open) return;
  const answer = await fetch(`/api/live/${path}/log`);
  write($("log-lines").querySelector("pre"), (await answer.json()).join("\n"));
  setTimeout(look, 5000);
});

const events = new EventSource(`/api/live/${path}/events`);
events.addEventListener("message", (event) => show(JSON.parse(event.data)));
events.addEventListener("error", () => {
  write($("badge"), "not connected");
  $("badge").className = "badge unknown";
});
