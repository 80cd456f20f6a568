// What the scripts of all pages draw with: numbers for people, marks of an axis, elements.

"use strict";

const PRINT_WIDTH = 690;

function duration(ns) {
  const tenths = Math.round(Math.abs(ns) / 1e8);
  if (Math.abs(ns) >= 99.95e9) return `${ns < 0 ? "-" : ""}${Math.floor(tenths / 600)} min ${tenths % 600 / 10} s`;
  for (const [unit, length] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3]]) {
    if (Math.abs(ns) >= 0.9995 * length) return `${+(ns / length).toPrecision(3)} ${unit}`;
  }
  return ns === 0 ? "0" : `${Math.round(ns)} ns`;
}

/** 1, 2 and 5 of each power of ten between two latencies; of many powers the powers alone. */
function roundLatencies(least, most) {
  const found = [];
  const factors = most / least > 3000 ? [1] : [1, 2, 5];
  for (let power = 10 ** Math.floor(Math.log10(least)); power <= most; power *= 10) {
    found.push(...factors.map((factor) => factor * power).filter((value) => value >= least && value <= most));
  }
  return found;
}

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

/** As many digits as a step of an axis needs. */
function number(value) {
  return value.toLocaleString("en", { maximumSignificantDigits: 6 });
}

function bytes(value) {
  return Math.round(value).toLocaleString("en");
}

/** A moment of the run in seconds, as exactly as a step of that many nanoseconds asks for. */
function moment(ns, step = 1e6) {
  const digits = Math.max(0, Math.min(9, Math.ceil(9 - Math.log10(step))));
  return `${(ns / 1e9).toFixed(digits)} s`;
}

/** The wall clock at a moment of a run; empty where the run does not say it. */
function clock(run, ns) {
  return run.epoch_ms === null ? "" : `${new Date(run.epoch_ms + ns / 1e6).toISOString().slice(11, 23)} UTC`;
}

/** A moment of a run with the wall clock. */
function dated(run, ns) {
  return [moment(ns), clock(run, ns)].filter(Boolean).join(", ");
}

/** The first index of a sorted column at which it is not below the value. */
function lowerBound(column, value) {
  let low = 0;
  let high = column.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (column[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The colours of the page as it is now, by their names. */
function pageColours() {
  const style = getComputedStyle(document.documentElement);
  return (name) => style.getPropertyValue(`--${name}`).trim();
}

/** What keys do outside fields, and the buttons that are named after them. */
function bindKeys(actions) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const isTyping = event.target.matches("input, select");
    if (isTyping && event.key !== "Escape") return;
    if (isTyping) event.target.blur();
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
  for (const button of document.querySelectorAll("[data-key]")) button.addEventListener("click", () => actions[button.dataset.key]());
}

/** While it is printed a page is light and everything in it open. `draw` gets the width of the paper, and null after it. */
function onPaper(draw) {
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const each of opened) each.open = true;
    document.documentElement.dataset.paper = "";
    draw(PRINT_WIDTH);
  });
  addEventListener("afterprint", () => {
    for (const each of opened) each.open = false;
    delete document.documentElement.dataset.paper;
    draw(null);
  });
}
