// The page of a cluster while it runs: draws what the server sends, and asks it to break, heal and command.

const live = document.getElementById("live");
const name = live.dataset.run.split("/").map(encodeURIComponent).join("/");
const members = Number(live.dataset.members);
const WINDOW_NS = 120e9;
const LANE = 26;
const CHART = 70;
const GAP = 14;
const FAULT_LANE = 18;
const LEFT = 80;
const NARROWEST = 240;
const LETTER = 8;
const seen = [];
let refusal = "";
let drawnAt = 0;

const $ = (id) => document.getElementById(id);

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

/** Text is replaced only where it differs, so that a page on which nothing happens draws nothing. */
function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function shape(tag, attributes, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

function number(value) {
  return value === null || value < 0 ? "-" : Math.round(value).toLocaleString("en");
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
        member.committed_bytes_per_s].map((value) => (member.alive ? number(value) : "-"))];
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
  if (isOn && $("doing") && fault.name) {
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

/** Lines of what was seen, from zero to their greatest value. */
function chart(top, across, series, written) {
  const values = seen.flatMap((look) => series.map((name) => look[name])).filter((value) => value !== null);
  const most = Math.max(...values, 0) || 1;
  const up = (value) => top + CHART * (1 - value / most);
  const lines = series.map((name) => {
    const points = seen.filter((look) => look[name] !== null).map((look) => `${across(look.ns).toFixed(1)},${up(look[name]).toFixed(1)}`);
    return shape("polyline", { class: `line ${name}`, points: points.join(" ") });
  });
  const axis = values.length ? [shape("text", { x: 0, y: top + 10 }, written(most)), shape("text", { x: 0, y: top + CHART }, written(0))] : [];
  return [...lines, ...axis];
}

/** A lane for each fault: the first one in which no other one is at the same time. */
function faultLanes(faults) {
  const ends = [];
  return new Map(faults.map((fault) => {
    const free = ends.findIndex((ns) => ns <= fault.begin_ns);
    const lane = free < 0 ? ends.length : free;
    ends[lane] = fault.end_ns ?? Infinity;
    return [fault, lane];
  }));
}

function milliseconds(ns) {
  return ns === null ? "-" : `${ns === 0 ? 0 : (ns / 1e6).toPrecision(3)} ms`;
}

function draw() {
  const svg = $("lines");
  drawnAt = svg.clientWidth;
  const width = Math.max(drawnAt, NARROWEST);
  const end = seen[seen.length - 1].ns;
  const begin = Math.max(end - WINDOW_NS, seen[0].ns);
  const across = (ns) => LEFT + ((ns - begin) / Math.max(end - begin, 1e9)) * (width - LEFT);
  const lanesEnd = members * LANE;
  const chartsEnd = lanesEnd + 2 * (CHART + GAP);
  const drawn = [];
  for (let member = 0; member < members; member += 1) {
    const top = member * LANE;
    drawn.push(shape("text", { x: 0, y: top + 16, class: "name" }, `member ${member}`));
    let since = 0;
    for (let at = 1; at <= seen.length; at += 1) {
      const state = seen[since].states[member];
      if (at < seen.length && seen[at].states[member] === state) continue;
      const [from, to] = [across(seen[since].ns), across(at < seen.length ? seen[at].ns : end)];
      drawn.push(shape("rect", { x: from, y: top + 2, width: Math.max(to - from, 1), height: LANE - 6, class: state }));
      since = at;
    }
  }
  const rateTop = lanesEnd + GAP;
  const delayTop = rateTop + CHART + GAP;
  drawn.push(...chart(rateTop, across, ["rate"], (value) => `${number(value)}/s`));
  drawn.push(...chart(delayTop, across, ["p99", "p50"], milliseconds));
  const visible = seen[seen.length - 1].faults.filter((fault) => (fault.end_ns ?? end) >= begin);
  const lanes = faultLanes(visible);
  for (const fault of visible) {
    const x = across(Math.max(fault.begin_ns, begin));
    const wide = Math.max(across(fault.end_ns ?? end) - x, 2);
    const top = chartsEnd + lanes.get(fault) * FAULT_LANE;
    drawn.push(shape("rect", { x, y: 0, width: wide, height: chartsEnd, class: "band" }));
    drawn.push(shape("rect", { x, y: top, width: wide, height: 3, class: "fault-lane" }));
    const isAtEnd = x + fault.statement.length * LETTER > width;
    drawn.push(shape("text", { x: isAtEnd ? width : x, y: top + 14, class: "fault-name", "text-anchor": isAtEnd ? "end" : "start" },
      fault.statement));
  }
  const height = chartsEnd + Math.max(new Set(lanes.values()).size, 1) * FAULT_LANE;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.replaceChildren(...drawn);
}

new ResizeObserver(() => {
  if (seen.length > 0 && $("lines").clientWidth !== drawnAt) draw();
}).observe($("lines"));

function show(state) {
  if (state.error) {
    write($("badge"), state.error);
    $("badge").className = "badge unknown";
    return;
  }
  const { total, per_s: rate, p50_ns: p50, p99_ns: p99 } = state.answers;
  seen.push({ ns: state.ns, states: state.members.map(stateOf), rate, p50, p99, faults: state.faults });
  while (seen[0].ns < state.ns - WINDOW_NS) seen.shift();
  const leads = state.members.find((member) => member.alive && member.role === "LEADER" && member.election_state === "CLOSED");
  write($("badge"), leads ? `member ${leads.member_id} leads` : "no leader");
  $("badge").className = `badge ${leads ? "valid" : "unknown"}`;
  showMembers(state);
  showFaults(state);
  showDone(state);
  showBroken(state);
  showLinks(state);
  showLoad(state);
  write($("figures"), `${number(total)} answers, ${number(rate)} a second, p50 ${milliseconds(p50)}, p99 ${milliseconds(p99)}`);
  draw();
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
  const counts = `${number(load.requests)} requests, ${number(load.failures)} failed`;
  const rate = load.rate === 0 ? "as fast as answers come" : `${load.rate} a second each`;
  const text = load.is_on ? `${load.users} users, ${rate}: ${number(load.per_second)} a second, ${counts}` :
    load.requests ? `stopped: ${counts}` : "no load";
  write($("load-state"), load.error || text);
  $("load-start").disabled = load.is_on;
  for (const word of ["load-rate", "load-stop"]) document.querySelector(`[data-do=${word}]`).disabled = !load.is_on;
}

/** What the server answers; an error is shown, and is no exception. */
async function ask(action, body = {}) {
  const answer = await fetch(`/api/live/${name}/${action}`, {
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
  if (!found.error) location.assign(`/runs/${name}`);
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
  const answer = await fetch(`/api/live/${name}/log`);
  write($("log-lines").querySelector("pre"), (await answer.json()).join("\n"));
  setTimeout(look, 5000);
});

const events = new EventSource(`/api/live/${name}/events`);
events.addEventListener("message", (event) => show(JSON.parse(event.data)));
events.addEventListener("error", () => {
  write($("badge"), "not connected");
  $("badge").className = "badge unknown";
});
