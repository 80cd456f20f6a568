// The names of faults, orders and broken promises above the charts of a run.

"use strict";

const LABEL_ROWS = 8;
const TICK = 2;

/** What is marked above the members: faults, orders and broken promises, each with its `style`. */
function marksOf(run) {
  return [["faults", "fault"], ["orders", "order"], ["breaks", "broken"]].flatMap(([name, style]) =>
    run[name].map((each) => ({ ...each, style })));
}

class Labels {
  /** `onMark` is called with the mark whose name was clicked. */
  constructor(place, onMark) {
    this.onMark = onMark;
    this.box = element("div", { className: "labels" });
    place.append(this.box);
  }

  /** The buttons are made again only when a mark has changed: until then the one that has the focus keeps it. */
  set(run) {
    const marks = marksOf(run);
    const text = JSON.stringify(marks);
    if (this.text === text) return;
    const isNoted = ({ style, what, begin }) => this.noted && style === this.noted.style && what === this.noted.what && begin === this.noted.begin;
    this.text = text;
    this.marks = marks;
    this.widths = null;
    this.buttons = marks.map((mark) => {
      const button = element("button", { type: "button", className: `mark ${mark.style}`, textContent: mark.what });
      button.append(element("b"), element("i"));
      button.title = mark.evidence;
      button.addEventListener("click", () => this.onMark(mark));
      return button;
    });
    this.box.replaceChildren(...this.buttons);
    // A fault that has ended meanwhile is still the one that was marked out.
    this.note(marks.find(isNoted));
  }

  /** Mark out one of them among the others. */
  note(mark) {
    this.noted = mark;
    this.marks.forEach((each, i) => (this.buttons[i].ariaCurrent = each === mark ? "true" : null));
  }

  /** Names and spans of faults, orders and broken promises above the members, each in the lowest row that has room. */
  put({ width: whole, from, to, run }) {
    const width = whole - 24;
    const perNs = (width - LEFT) / (to - from);
    const free = [];
    // Of a part of a pixel too few, the last words would be cut off.
    this.widths ??= this.buttons.map((button) => Math.ceil(button.getBoundingClientRect().width) + 1);
    let left_out = 0;
    const order = this.marks.map((_, i) => i).sort((a, b) => this.marks[b].begin - this.marks[a].begin);
    for (const i of order) {
      const { begin, end } = this.marks[i];
      const button = this.buttons[i];
      button.hidden = begin > to || (end ?? run.length) < from;
      if (button.hidden) continue;
      const x = LEFT + Math.max(begin - from, 0) * perNs;
      const until = LEFT + (Math.min(end ?? run.length, to) - from) * perNs;
      // At the right edge the name is before its tick, which is where the moment is.
      const left = x + this.widths[i] <= width ? x : Math.max(Math.min(x, width) - this.widths[i], 0);
      const length = Math.max(Math.min(this.widths[i], width), until - left, x - left + TICK);
      let row = free.findIndex((taken) => left + length + 4 <= taken);
      if (row < 0) row = free.length;
      button.hidden = row >= LABEL_ROWS;
      left_out += button.hidden;
      if (button.hidden) continue;
      free[row] = Math.min(left, x);
      button.style.left = `${left}px`;
      button.style.width = `${length}px`;
      const [tick, span] = [...button.children].map((child) => child.style);
      tick.left = `${x - left}px`;
      span.left = `${x - left}px`;
      span.width = `${until - x}px`;
      button.style.bottom = `${row * 20}px`;
    }
    this.box.style.height = `${free.length * 20 + 4}px`;
    this.box.dataset.more = left_out ? `${left_out} more names: zoom in` : "";
  }
}
