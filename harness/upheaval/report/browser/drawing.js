// What the scripts of all pages draw with: numbers for people, marks of an axis, elements.

"use strict";

const PRINT_WIDTH = 690;

function duration(ns) {
  for (const [unit, length] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3]]) {
    if (Math.abs(ns) >= length) return `${+(ns / length).toPrecision(3)} ${unit}`;
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

/** The colours of the page as it is now, by their names. */
function pageColours() {
  const style = getComputedStyle(document.documentElement);
  return (name) => style.getPropertyValue(`--${name}`).trim();
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
