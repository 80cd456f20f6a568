// What the page says in words about one operation, about messages between two moments, and of what is searched for.

"use strict";

const ROWS_SHOWN = 200;
const FOUND_SHOWN = 30;

function table(heads, rows) {
  const cells = (tag, values) => element("tr", {}, ...values.map((value) => element(tag, {}, value instanceof Node ? value : String(value))));
  return element("table", {}, element("thead", {}, cells("th", heads)), element("tbody", {}, ...rows.map((row) => cells("td", row))));
}

/** One operation: what was asked and answered, its frame on each member, the messages while it was open. */
function operationDetails(run, index) {
  const { operations, frames } = run;
  const of = (name) => operations[name][index];
  const end = of("end");
  const took = end === null ? "no answer" : duration(end - of("begin"));
  const facts = [
    ["slot", of("slot")],
    ["key", of("key")],
    ["sent", of("value")],
    ["answer", of("result")],
    ["session", of("session") ?? ""],
    ["began", dated(run, of("begin"))],
    ["took", took],
  ];
  const heading = `operation ${of("id")}: ${of("kind")}, ${of("outcome")}`;
  const shown = element("div", {}, element("h3", { textContent: heading }));
  shown.append(element("dl", {}, ...facts.filter(([, value]) => value !== "").flatMap(([name, value]) => [element("dt", { textContent: name }), element("dd", { textContent: value })])));
  shown.append(table(["member", "frame from", "to position", "CRC-32"], run.members.map(({ id }) => frameRow(frames, id, index))));
  const until = end ?? of("begin") + 1e9;
  shown.append(element("h3", { textContent: "messages between members meanwhile" }), messageTable(run, of("begin"), until, {}, 40));
  return shown;
}

/** A fault, an order or a broken promise: when, and the evidence; `open` for one without an end. */
function markDetails(run, { what, begin, end, evidence }, open) {
  const ended = end === null ? open : `ended ${dated(run, end)}`;
  return element("div", {},
    element("h3", { textContent: what }),
    element("p", { textContent: `began ${dated(run, begin)}; ${ended}` }),
    element("p", { textContent: evidence }),
  );
}

function frameRow(frames, memberId, index) {
  const name = `member ${memberId}`;
  if (frames.unreadable[memberId]) return [name, frames.unreadable[memberId], "", ""];
  if (frames.end[index] === null) return [name, notInLog(frames, memberId, index), "", ""];
  const others = frames.others[memberId];
  const frame = index in others ? others[index] : frames.usual[index];
  if (frame === null) return [name, "no frame ends there", bytes(frames.end[index]), ""];
  const isOther = index in others ? " (another frame)" : "";
  return [name, bytes(frame[0]), bytes(frames.end[index]), frame[1].toString(16).padStart(8, "0") + isOther];
}

/** Of an operation that was acknowledged at a position: what the member has there instead. */
function notInLog(frames, memberId, index) {
  const position = frames.answered[index];
  if (position === undefined) return "not in the log";
  const instead = frames.instead[memberId]?.[index];
  return `not in the log; at ${bytes(position)} ${instead === undefined ? "no frame ends" : `is ${instead}`}`;
}

/** Messages between two moments, at most so many; `choice` may name a member and a message. */
function messageTable(run, from, to, { member = "", name = "" }, most = ROWS_SHOWN) {
  const { messages } = run;
  const rows = [];
  const step = Math.max((to - from) / 1000, 1);
  let count = 0;
  for (let i = lowerBound(messages.at, from); i < messages.at.length && messages.at[i] <= to; i++) {
    if ((member !== "" && messages.member[i] !== +member) || (name && messages.name[i] !== name)) continue;
    count++;
    if (count > most) continue;
    const to_ = messages.to[i] === null ? "" : ` to ${messages.to[i]}`;
    rows.push([moment(messages.at[i], step), `member ${messages.member[i]}`, messages.event[i] + to_, messages.name[i], messages.fields[i]]);
  }
  const hidden = count > most ? `; the first ${most} are here, zoom in for the others` : "";
  const text = `${count.toLocaleString("en")} between ${moment(from, step)} and ${moment(to, step)}${hidden}`;
  return element("div", { className: "messages" }, element("p", { className: "note", textContent: text }), table(["at", "member", "event", "message", "fields"], rows));
}

/**
 * What has the words in its name or evidence: operations by id, position, key, value and answer; faults, orders,
 * elections; messages by their fields too. Numbers may have the commas that the page writes them with.
 */
function search(run, words) {
  const wanted = words.trim().toLowerCase().replace(/(?<=\d),(?=\d{3})/g, "");
  const found = [];
  if (!wanted) return found;
  const has = (text) => String(text).toLowerCase().includes(wanted);
  for (const kind of ["breaks", "faults", "orders", "elections"]) {
    for (const each of run[kind]) if (has(each.what) || has(each.evidence ?? "")) found.push({ text: each.what, begin: each.begin, end: each.end });
  }
  const { id, kind, outcome, key, value, result, begin, end } = run.operations;
  for (let i = 0; i < id.length && found.length < FOUND_SHOWN; i++) {
    const position = run.frames.end[i] ?? run.frames.answered[i];
    if ([id[i], position].some((value) => String(value) === wanted) || [kind[i], outcome[i], key[i], value[i], result[i]].some(has)) {
      found.push({ text: `operation ${id[i]}: ${kind[i]} ${key[i]}, ${outcome[i]}`, begin: begin[i], end: end[i], operation: i });
    }
  }
  const { messages } = run;
  for (let i = 0; i < messages.at.length && found.length < FOUND_SHOWN; i++) {
    const hasField = has(messages.fields[i]);
    if (!hasField && !has(messages.name[i])) continue;
    const text = `${messages.name[i]}, member ${messages.member[i]} (${messages.event[i]})${hasField ? ` ${messages.fields[i]}` : ""}`;
    found.push({ text, begin: messages.at[i], end: messages.at[i] });
  }
  return found;
}
