// The page of a cluster while it runs: draws what the server sends, and asks it to break, heal and command.

const live = document.getElementById("live");
const name = live.dataset.run.split("/").map(encodeURIComponent).join("/");
const members = Number(live.dataset.members);
const WINDOW_NS = 120e9;
const LANE = 26;
const RATES = 70;
const LEFT = 80;
const seen = [];

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

function showFaults(state) {
  const list = $("fault-list");
  const items = [...state.faults].reverse().map((fault) => {
    const isOn = fault.end_ns === null;
    const countdown = fault.heals_in_s === null ? "" : `, heals in ${Math.ceil(fault.heals_in_s)} s`;
    const item = element("li", { className: isOn ? "on" : "" },
      element("b", { textContent: fault.statement }), ` ${isOn ? "on" : "healed"}${countdown}: ${fault.evidence} `);
    item.dataset.name = fault.name;
    if (isOn && $("doing") && fault.name) {
      const button = element("button", { type: "button", textContent: "heal" });
      button.addEventListener("click", () => ask("heal", { name: fault.name }));
      item.append(button);
    }
    return item;
  });
  const text = items.map((item) => item.textContent).join("\n");
  if (list.dataset.shown === text) return;
  list.dataset.shown = text;
  list.replaceChildren(...items);
}

function showDone(state) {
  if (!$("doing")) return;
  write($("doing"), state.doing ? `${state.doing}: waiting for evidence` : "");
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

function draw() {
  const svg = $("lines");
  const end = seen[seen.length - 1].ns;
  const begin = Math.max(end - WINDOW_NS, seen[0].ns);
  const across = (ns) => LEFT + ((ns - begin) / Math.max(end - begin, 1e9)) * (1000 - LEFT);
  const lanesEnd = members * LANE;
  const height = lanesEnd + RATES + 24;
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
  const rates = seen.filter((each) => each.rate !== null);
  const most = Math.max(1, ...rates.map((each) => each.rate));
  const up = (rate) => lanesEnd + 10 + RATES * (1 - rate / most);
  drawn.push(shape("polyline", { class: "rate", points: rates.map((each) => `${across(each.ns)},${up(each.rate)}`).join(" ") }));
  drawn.push(shape("text", { x: 0, y: lanesEnd + 20 }, `${number(most)}/s`), shape("text", { x: 0, y: lanesEnd + 10 + RATES }, "0/s"));
  for (const fault of seen[seen.length - 1].faults) {
    const to = fault.end_ns ?? end;
    if (to < begin) continue;
    const x = across(Math.max(fault.begin_ns, begin));
    drawn.push(shape("rect", { x, y: 0, width: Math.max(across(to) - x, 2), height: lanesEnd + RATES + 10, class: "band" }));
    const isAtEnd = x > 700;
    drawn.push(shape("text", { x: isAtEnd ? 1000 : x, y: height - 2, class: "fault-name", "text-anchor": isAtEnd ? "end" : "start" },
      fault.statement));
  }
  svg.setAttribute("viewBox", `0 0 1000 ${height}`);
  svg.replaceChildren(...drawn);
}

function show(state) {
  seen.push({ ns: state.ns, states: state.members.map(stateOf), rate: state.answers.per_s, faults: state.faults });
  while (seen[0].ns < state.ns - WINDOW_NS) seen.shift();
  const leads = state.members.find((member) => member.alive && member.role === "LEADER" && member.election_state === "CLOSED");
  write($("badge"), leads ? `member ${leads.member_id} leads` : "no leader");
  $("badge").className = `badge ${leads ? "valid" : "unknown"}`;
  showMembers(state);
  showFaults(state);
  showDone(state);
  showBroken(state);
  const { total, per_s: rate, p50_ns: p50, p99_ns: p99 } = state.answers;
  const milliseconds = (ns) => (ns === null ? "-" : `${(ns / 1e6).toPrecision(3)} ms`);
  write($("figures"), `${number(total)} answers, ${number(rate)} a second, p50 ${milliseconds(p50)}, p99 ${milliseconds(p99)}`);
  draw();
}

/** What the server answers; an error is shown, and is no exception. */
async function ask(action, body = {}) {
  const answer = await fetch(`/api/live/${name}/${action}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  const found = await answer.json();
  if (found.error) write($("doing"), found.error);
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
    $("saved").append(": ", element("a", { href: `/runs/${found.run}`, id: "rerun", target: "_blank", textContent: `the simulated run, ${found.verdict}` }),
      ", beside ", element("a", { href: `/runs/${name}`, target: "_blank", textContent: "this one" }));
  }
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

if ($("kind")) {
  const fill = () => { $("options").value = $("kind").selectedOptions[0].dataset.options; };
  $("kind").addEventListener("change", fill);
  fill();
  for (const button of document.querySelectorAll("[data-link]")) {
    const [source, target] = button.dataset.link.split(" ");
    button.addEventListener("click", () => inject(
      `${$("kind").value} member-${source} ${$("both").checked ? "<->" : "->"} member-${target} ${$("options").value}`.trim()));
  }
}

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
