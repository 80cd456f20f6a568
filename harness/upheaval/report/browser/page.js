// The page: reads the run that is embedded in it, and joins time line, details, search, keys and printing.

"use strict";

const run = JSON.parse(document.getElementById("data").textContent);
run.answered = (ns) => lowerBound(run.answers.at, ns) * run.answers.each;
const part = (name) => document.getElementById(name);
/** Nanoseconds that are shown before and after a moment. */
const BEFORE = 1e8;
const room = () => Math.min(BEFORE, run.length / 10);
let messagesDue = 0;

const timeLine = new TimeLine(part("time-line"), run, { onWindow: windowChanged, onPick: pickOperation, onMark: pickMark });

function windowChanged() {
  part("window").textContent = `${dated(run, timeLine.from)} to ${dated(run, timeLine.to)}`;
  clearTimeout(messagesDue);
  messagesDue = setTimeout(showMessages, 150);
}

function showMessages() {
  const choice = { member: part("of-member").value, name: part("of-name").value };
  const isWhole = timeLine.to - timeLine.from >= run.length;
  part("messages").replaceChildren(messageTable(run, isWhole ? firstOfNote() : timeLine.from, timeLine.to, choice));
}

/** Where the messages of the whole run begin: just before the first broken promise, else before the first fault. */
function firstOfNote() {
  const begins = (run.breaks.length ? run.breaks : run.faults).map(({ begin }) => begin);
  return begins.length ? Math.max(Math.min(...begins) - BEFORE, 0) : 0;
}

function pickOperation(index) {
  timeLine.select(index);
  history.replaceState(null, "", `#op-${run.operations.id[index]}`);
  part("details").replaceChildren(operationDetails(run, index));
}

function pickMark(mark) {
  if (mark.style === "broken") return showBroken(mark);
  timeLine.note(mark);
  history.replaceState(null, "", `#t=${(mark.begin / 1e9).toFixed(6)}`);
  part("details").replaceChildren(markDetails(run, mark, "never ended"));
  timeLine.showAround(mark.begin, mark.end ?? run.length);
}

function showBroken(mark) {
  const { what, begin, end, evidence, operation } = mark;
  const index = operation === null ? -1 : run.operations.id.indexOf(operation);
  if (index >= 0) pickOperation(index);
  else part("details").replaceChildren();
  part("details").prepend(element("h3", { textContent: `broken ${begin < end ? `${moment(begin)} to` : "at"} ${moment(end)}: ${what}` }), element("p", { textContent: evidence }));
  timeLine.note(mark);
  timeLine.showAround(begin - room(), end + room());
}

/** What the address asks for: an operation (`#op-150`), a moment in seconds (`#t=12.3`), messages of a member (`#member-1`). */
function follow() {
  const [, id, seconds, member] = /^#(?:op-(\d+)|t=([\d.]+)|member-(\d+))$/.exec(location.hash) ?? [];
  if (run.members.some(({ id }) => String(id) === member)) {
    part("of-member").value = member;
    showMessages();
    part("messages").scrollIntoView({ block: "center" });
    return;
  }
  const at = seconds === undefined ? NaN : seconds * 1e9;
  const index = id === undefined ? -1 : run.operations.id.indexOf(+id);
  if (index < 0 && Number.isNaN(at)) return;
  if (index >= 0) {
    pickOperation(index);
    timeLine.showAround(run.operations.begin[index], run.operations.end[index] ?? run.operations.begin[index]);
  } else {
    const mark = timeLine.marks.find(({ style, end }) => style === "broken" && Math.abs(end - at) < 1e3);
    if (mark) showBroken(mark);
    else timeLine.showAround(at - room(), at + room());
  }
  part("time-line").scrollIntoView({ block: "center" });
}

function save(name, type, text) {
  const link = element("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  URL.revokeObjectURL(link.href);
}

const OPERATION_COLUMNS = ["id", "slot", "session", "kind", "key", "value", "result", "outcome", "begin", "end"];
const quoted = (value) => `"${String(value ?? "").replaceAll('"', '""')}"`;

function operationsAsCsv() {
  const rows = run.operations.id.map((_, i) => OPERATION_COLUMNS.map((name) => quoted(run.operations[name][i])).join(","));
  return [OPERATION_COLUMNS.join(","), ...rows, ""].join("\r\n");
}

function step(by) {
  const count = run.operations.id.length;
  const first = lowerBound(run.operations.begin, timeLine.from) - (by > 0 ? 1 : 0);
  const next = Math.max(0, Math.min(count - 1, (timeLine.selected < 0 ? first : timeLine.selected) + by));
  if (count === 0) return;
  pickOperation(next);
  const at = run.operations.begin[next];
  const half = (timeLine.to - timeLine.from) / 2;
  if (at < timeLine.from || at > timeLine.to) timeLine.show(at - half, at + half);
}

function clear() {
  timeLine.note(undefined);
  timeLine.select(-1);
  part("details").replaceChildren();
  part("found").replaceChildren();
}

function showFound() {
  const found = search(run, part("search").value);
  const items = found.map((each) => {
    const button = element("button", { type: "button", textContent: `${moment(each.begin)}  ${each.text}` });
    button.addEventListener("click", () => {
      if (each.operation !== undefined) pickOperation(each.operation);
      timeLine.showAround(each.begin, each.end ?? each.begin);
    });
    return element("li", {}, button);
  });
  const none = part("search").value.trim() && !found.length;
  part("found").replaceChildren(...(none ? [element("li", { textContent: "nothing has that" })] : items));
}

bindKeys({
  ...windowKeys(timeLine),
  n: () => step(1),
  p: () => step(-1),
  "/": () => part("search").focus(),
  Escape: clear,
});
part("search").addEventListener("input", showFound);

part("save-csv").addEventListener("click", () => save("operations.csv", "text/csv", operationsAsCsv()));
part("save-json").addEventListener("click", () => save("run.json", "application/json", JSON.stringify(run)));
for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "copied";
  });
}
addEventListener("hashchange", follow);

// --- what may be hidden of the operations ---

const counted = (column) => Object.entries(run.counts[column]).sort();
function toggles(names, colourOf) {
  for (const [name, count] of names) {
    const button = element("button", { type: "button", ariaPressed: "true" });
    button.append(element("i", { className: colourOf(name) }), count === null ? name : `${name} ${count.toLocaleString("en")}`);
    button.addEventListener("click", () => {
      timeLine.toggle(name);
      button.ariaPressed = String(!timeLine.hidden.has(name));
    });
    part("toggles").append(button);
  }
}
toggles(counted("kind"), (name) => `kind${timeLine.kinds.indexOf(name) % 6}`);
toggles(counted("outcome"), (name) => `outcome-${name}`);
toggles([["p50", null], ["p99", null]], (name) => name);

timeLine.charts[1].root.parentElement.before(part("toggles"));
timeLine.charts[3].root.parentElement.before(part("member-key"));

// --- messages ---

for (const { id } of run.members) {
  part("of-member").append(element("option", { value: id, textContent: `member ${id}` }));
  part("member-key").append(element("span", {}, element("i", { className: MEMBER_COLOURS[id % MEMBER_COLOURS.length] }), `member ${id}`));
}
for (const name of [...new Set(run.messages.name)].sort()) part("of-name").append(element("option", { value: name, textContent: name }));
part("of-member").addEventListener("change", showMessages);
part("of-name").addEventListener("change", showMessages);
if (run.left_out) part("left-out").textContent = `${run.left_out.toLocaleString("en")} messages are not in this page: upheaval trace RUN.`;

// --- elections: to their place on the time line ---

for (const button of document.querySelectorAll("[data-election]")) {
  const election = run.elections[+button.dataset.election - 1];
  button.addEventListener("click", () => {
    timeLine.showAround(election.begin, election.end ?? run.length);
    part("time-line").scrollIntoView({ block: "center" });
  });
}

// --- colours and paper ---

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => timeLine.redraw());
onPaper((width) => {
  timeLine.resize(width ?? part("time-line").clientWidth);
  timeLine.redraw();
});

windowChanged();
showMessages();
follow();
