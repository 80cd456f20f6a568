// The charts of a run on one axis of time: members, positions, latency, answers a second.
// uPlot has the axes, the scales and the cursor; what is on them is drawn here.

"use strict";

const LEFT = 84;
/** The share of the window by which an arrow moves it. */
const SPAN = 0.2;
const LANE = 40;
const MEMBER_COLOURS = ["member0", "member1", "member2", "member3", "member4"];
/** Lines of members that lie on one another: each is dashed otherwise, so that those below show. */
const MEMBER_DASHES = [[], [7, 4], [2, 3], [10, 3, 2, 3], [4, 8]];
const POINT = 3;
/** Pixels of a moment that is marked out. */
const NOTED = 7;
/** Steps of an axis of whole numbers: 1, 2 and 5 of each power of ten. */
const WHOLE_STEPS = Array.from({ length: 15 }, (_, power) => [1, 2, 5].map((factor) => factor * 10 ** power)).flat();
/** One answer in a shorter interval would be a rate that the run never had. */
const SHORTEST_RATE = 1e7;

/** The keys that move the window. */
function windowKeys(timeLine) {
  const larger = () => timeLine.zoom(1 / 1.5);
  return {
    "+": larger,
    "=": larger,
    "-": () => timeLine.zoom(1.5),
    ArrowLeft: () => timeLine.pan(-SPAN),
    ArrowRight: () => timeLine.pan(SPAN),
    0: () => timeLine.whole(),
  };
}

/**
 * All charts, and the window of time that they show. `onWindow` is called after each change of the window, `onPick` with
 * the index of an operation that was clicked, `onMark` with a fault, order or election that was. `run.answered` has the
 * number of answers before a moment. A run that goes on is renewed as it grows.
 */
class TimeLine {
  constructor(place, run, { onWindow = () => {}, onPick = () => {}, onMark }) {
    this.run = run;
    this.from = 0;
    this.to = run.length;
    this.selected = -1;
    this.hidden = new Set();
    this.onWindow = onWindow;
    this.onPick = onPick;
    this.frame = 0;
    this.place = place;
    this.labels = new Labels(place, onMark);
    this.labels.set(run);
    this.longest = run.operations.begin.reduce((most, begin, i) => Math.max(most, (run.operations.end[i] ?? begin) - begin), 1e6);
    this.kinds = Object.keys(run.counts.kind).sort();
    this.readColours();
    this.charts = [
      this.chart("members", run.members.length * LANE, { hasAxis: false }, (u) => this.drawMembers(u)),
      this.chart("latency", 210, { range: () => this.latencyRange(), distr: 3, show: duration }, (u) => this.drawLatency(u)),
      this.chart("answers a second", 110, { range: () => [0, this.rates().most], show: number }, (u) => this.drawRates(u)),
      this.chart("position in the log", 110, { range: () => this.positionRange(1), show: bytes, isWhole: true }, (u) => this.drawPositions(u, 1)),
      this.chart("bytes behind the furthest member", 90, { range: () => this.positionRange(2), show: bytes, isWhole: true }, (u) => this.drawPositions(u, 2)),
    ];
    this.hideEmpty();
    this.labels.put(this);
    new ResizeObserver(() => this.resize(this.place.clientWidth)).observe(place);
  }

  // --- the run ---

  get marks() {
    return this.labels.marks;
  }

  /** Draw what the run has become, between two moments. Its members stay the same. */
  renew(run, from, to) {
    this.run = run;
    this.counted = null;
    this.labels.set(run);
    this.hideEmpty();
    this.show(from, to);
  }

  /** A chart of which the run has nothing at all is not there: without answers no latency. */
  hideEmpty() {
    const { operations, buckets, members } = this.run;
    const hasLatency = operations.begin.length > 0 || buckets.some(([, p50]) => p50 !== null);
    const hasPosition = members.some(({ positions }) => positions.length > 0);
    const has = [true, hasLatency, this.run.answered(this.run.length) > 0, hasPosition, hasPosition];
    this.charts.forEach((chart, i) => (chart.root.parentElement.parentElement.hidden = !has[i]));
  }

  // --- the window ---

  /** Show the run between two moments. However often it is called, the charts are drawn once a frame. */
  show(from, to) {
    const length = Math.min(Math.max(to - from, 1000), this.run.length);
    this.from = Math.min(Math.max(from, 0), this.run.length - length);
    this.to = this.from + length;
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  draw() {
    for (const chart of this.charts) chart.setScale("x", { min: this.from, max: this.to });
    this.labels.put(this);
    this.onWindow();
  }

  zoom(factor, around = (this.from + this.to) / 2) {
    this.show(around - (around - this.from) * factor, around + (this.to - around) * factor);
  }

  pan(share) {
    const by = (this.to - this.from) * share;
    this.show(this.from + by, this.to + by);
  }

  whole() {
    this.show(0, this.run.length);
  }

  /** Show what is between two moments, with room on both sides. */
  showAround(begin, end) {
    const room = Math.max(end - begin, this.run.length / 2000) * 0.4;
    this.show(begin - room, Math.max(end, begin) + room);
  }

  select(index) {
    this.selected = index;
    this.redraw();
  }

  /** Mark out one fault, order or broken promise among the others. */
  note(mark) {
    this.labels.note(mark);
    this.redraw();
  }

  toggle(name) {
    if (!this.hidden.delete(name)) this.hidden.add(name);
    this.redraw();
  }

  redraw() {
    this.readColours();
    for (const chart of this.charts) chart.redraw(false, true);
  }

  resize(width) {
    if (width < 1 || width === this.width) return;
    this.width = width;
    for (const chart of this.charts) chart.setSize({ width, height: chart.height });
    this.labels.put(this);
  }

  readColours() {
    this.colour = pageColours();
  }

  // --- one chart ---

  chart(label, plotHeight, scale, draw) {
    const soft = () => this.colour("soft");
    const grid = { stroke: () => this.colour("rule"), width: 1 };
    const font = "11px system-ui, sans-serif";
    this.width = this.place.clientWidth;
    const place = element("div", { className: "chart", role: "img", ariaLabel: `${label} over time` });
    this.place.append(element("div", {}, ...(scale.hasAxis === false ? [] : [element("h3", { textContent: label })]), place));
    const axis = { size: 26, stroke: soft, font, grid, ticks: grid, values: (u, splits, _, __, step) => splits.map((ns) => moment(ns, step)) };
    const made = new uPlot(
      {
        width: this.width,
        height: plotHeight + 26,
        padding: [4, 24, 0, 0],
        legend: { show: false },
        scales: { x: { time: false }, y: { range: scale.range ?? [0, 1], distr: scale.distr ?? 1 } },
        series: [{}, { paths: () => null, points: { show: false } }],
        axes: [
          axis,
          {
            size: LEFT,
            stroke: soft,
            font,
            grid: scale.hasAxis === false ? { show: false } : grid,
            ticks: { show: false },
            ...(scale.isWhole ? { incrs: WHOLE_STEPS } : {}),
            ...(scale.distr === 3 ? { splits: (u, _, least, most) => (this.hasLatency ? roundLatencies(least, most) : []) } : {}),
            values: (u, splits) => splits.map((v) => (scale.hasAxis === false || v === null ? "" : scale.show(v))),
          },
        ],
        cursor: {
          y: false,
          points: { show: false },
          drag: { x: true, y: false, setScale: false },
          sync: { key: "run", filters: { pub: (type) => type === "mousemove" || type === "mouseleave" } },
          bind: { mousedown: (u, _, handler) => (event) => this.press(u, event, handler), dblclick: () => () => this.whole() },
        },
        hooks: {
          setSelect: [
            (u) => {
              if (u.select.width < 4) return;
              this.show(u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x"));
              u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
            },
          ],
          drawClear: [(u) => this.clipped(u, () => this.drawBands(u))],
          draw: [(u) => (scale.hasAxis === false ? draw(u) : this.clipped(u, draw))],
        },
      },
      [[0, this.run.length], [null, null]],
      place,
    );
    made.over.addEventListener("wheel", (event) => this.wheel(made, event), { passive: false });
    return made;
  }

  /** Dragging zooms, dragging with shift pans, a click picks. */
  press(u, event, handler) {
    if (event.button !== 0) return;
    const [x, from, to] = [event.clientX, this.from, this.to];
    const perPixel = (to - from) / u.over.clientWidth;
    const move = (moved) => this.show(from - (moved.clientX - x) * perPixel, to - (moved.clientX - x) * perPixel);
    const up = (ended) => {
      document.removeEventListener("mousemove", move);
      if (Math.abs(ended.clientX - x) < 4) this.pick(u, event);
    };
    if (event.shiftKey) document.addEventListener("mousemove", move);
    else handler(event);
    document.addEventListener("mouseup", up, { once: true });
  }

  wheel(u, event) {
    const isPan = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (!isPan && !event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    if (isPan) this.pan((event.deltaX || event.deltaY) / 1000);
    else this.zoom(Math.exp(event.deltaY / 300), u.posToVal(event.clientX - u.over.getBoundingClientRect().left, "x"));
  }

  clipped(u, draw) {
    const { left, top, width, height } = u.bbox;
    u.ctx.save();
    u.ctx.beginPath();
    u.ctx.rect(left, top, width, height);
    u.ctx.clip();
    draw(u);
    u.ctx.restore();
  }

  /** A time on the canvas, kept near enough to it that numbers stay small. */
  x(u, ns) {
    const { left, width } = u.bbox;
    return left + Math.max(-0.1, Math.min(1.1, (ns - this.from) / (this.to - this.from))) * width;
  }

  // --- faults, orders, terms ---

  drawBands(u) {
    const { ctx, bbox } = u;
    for (const style of ["order", "fault", "broken"]) {
      const bands = this.marks.filter((mark) => mark.style === style);
      // One path: where faults overlap they are no darker.
      ctx.beginPath();
      for (const { begin, end } of bands) {
        const left = this.x(u, begin);
        ctx.rect(left, bbox.top, Math.max(this.x(u, end ?? this.run.length) - left, devicePixelRatio), bbox.height);
      }
      ctx.fillStyle = this.colour(style === "broken" ? "invalid" : style);
      ctx.globalAlpha = 0.12;
      ctx.fill();
      ctx.globalAlpha = 1;
      for (const { begin } of bands) ctx.fillRect(this.x(u, begin), bbox.top, devicePixelRatio * 1.5, bbox.height);
    }
    const { noted } = this.labels;
    if (noted) {
      const left = this.x(u, noted.begin);
      const length = Math.max(this.x(u, noted.end ?? this.run.length) - left, NOTED * devicePixelRatio);
      ctx.fillStyle = this.colour(noted.style === "broken" ? "invalid" : noted.style);
      ctx.globalAlpha = 0.35;
      ctx.fillRect(left, bbox.top, length, bbox.height);
      ctx.globalAlpha = 1;
    }
    ctx.strokeStyle = this.colour("soft");
    ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
    ctx.beginPath();
    for (const [at] of this.run.terms) {
      ctx.moveTo(this.x(u, at), bbox.top);
      ctx.lineTo(this.x(u, at), bbox.top + bbox.height);
    }
    ctx.stroke();
    if (this.selected >= 0) {
      const { begin, end } = this.run.operations;
      ctx.fillStyle = this.colour("ink");
      ctx.globalAlpha = 0.25;
      const left = this.x(u, begin[this.selected]);
      ctx.fillRect(left, bbox.top, Math.max(this.x(u, end[this.selected] ?? this.run.length) - left, devicePixelRatio), bbox.height);
    }
  }

  // --- members ---

  drawMembers(u) {
    const { ctx, bbox } = u;
    const ratio = devicePixelRatio;
    const height = bbox.height / this.run.members.length;
    this.run.members.forEach((member, row) => {
      const top = bbox.top + row * height + 2 * ratio;
      const inner = height - 4 * ratio;
      ctx.save();
      ctx.font = `600 ${12 * ratio}px system-ui, sans-serif`;
      ctx.textBaseline = "middle";
      ctx.textAlign = "right";
      ctx.fillStyle = this.colour("ink");
      ctx.fillText(`member ${member.id}`, bbox.left - 8 * ratio, top + inner / 2);
      this.clipped(u, () => this.drawMember(u, member, top, inner));
      ctx.restore();
    });
  }

  drawMember(u, member, top, height) {
    const { ctx } = u;
    const ratio = devicePixelRatio;
    const base = height - 12 * ratio;
    ctx.textAlign = "left";
    for (const [begin, end, state, term] of member.spans) {
      if (end < this.from || begin > this.to) continue;
      const left = this.x(u, begin);
      const width = this.x(u, end) - left;
      ctx.fillStyle = this.colour(state);
      ctx.fillRect(left, top, Math.max(width - ratio, ratio), base);
      const texts = term === null ? [state] : [`leader of term ${term}`, `term ${term}`];
      ctx.fillStyle = this.colour(`on${state}`);
      this.textWithin(u, texts, left, width, top + base / 2);
    }
    ctx.font = `${10 * ratio}px system-ui, sans-serif`;
    this.drawStates(u, member, top + base, height - base);
    ctx.fillStyle = this.colour("stall");
    for (const [begin, end] of member.stalls) {
      if (end < this.from || begin > this.to) continue;
      ctx.fillRect(this.x(u, begin), top, Math.max(this.x(u, end) - this.x(u, begin), 1.5 * ratio), 4 * ratio);
    }
  }

  /** A tick for each state of an election, and its name where there is room until the next one. */
  drawStates(u, member, top, height) {
    const { states, spans } = member;
    const downs = spans.filter(([, , state]) => state === "down");
    const first = Math.max(lowerBound(states.map(([at]) => at), this.from) - 1, 0);
    u.ctx.fillStyle = this.colour("soft");
    for (let i = first; i < states.length && states[i][0] <= this.to; i++) {
      const left = this.x(u, states[i][0]);
      u.ctx.fillRect(left, top, devicePixelRatio, height);
      const down = downs.find(([begin]) => begin >= states[i][0]);
      const next = Math.min(states[i + 1]?.[0] ?? this.run.length, down?.[0] ?? this.run.length);
      this.textWithin(u, [states[i][1]], left, this.x(u, next) - left, top + height / 2 + 1);
    }
  }

  textWithin(u, texts, left, width, y) {
    const begin = Math.max(left, u.bbox.left) + 5 * devicePixelRatio;
    const room = Math.min(left + width, u.bbox.left + u.bbox.width) - begin - 3 * devicePixelRatio;
    const fitting = texts.find((text) => text && room > 20 && u.ctx.measureText(text).width <= room);
    if (fitting) u.ctx.fillText(fitting, begin, y);
  }

  // --- positions ---

  positionRange(column) {
    let least = Infinity;
    let most = 0;
    for (const { positions } of this.run.members) {
      for (const point of positions) {
        if (point[0] < this.from || point[0] > this.to) continue;
        least = Math.min(least, point[column]);
        most = Math.max(most, point[column]);
      }
    }
    return column === 2 || least === Infinity ? [0, Math.max(most, 1)] : [least, Math.max(most, least + 1)];
  }

  drawPositions(u, column) {
    this.run.members.forEach(({ positions, spans }, row) => {
      u.ctx.strokeStyle = this.colour(MEMBER_COLOURS[row % MEMBER_COLOURS.length]);
      u.ctx.lineWidth = (row === 0 ? 2.4 : 1.8) * devicePixelRatio;
      u.ctx.setLineDash(MEMBER_DASHES[row % MEMBER_DASHES.length].map((length) => length * devicePixelRatio));
      u.ctx.beginPath();
      const downs = spans.filter(([, , state]) => state === "down");
      let last = null;
      let lastY = 0;
      for (const [at, ...values] of positions) {
        const x = this.x(u, at);
        const y = u.valToPos(values[column - 1], "y", true);
        const isBroken = last === null || downs.some(([, end]) => end > last && end <= at);
        if (isBroken) u.ctx.moveTo(x, y);
        else u.ctx.lineTo(x, lastY);
        u.ctx.lineTo(x, y);
        [last, lastY] = [at, y];
      }
      u.ctx.stroke();
    });
  }

  // --- operations ---

  visible() {
    const { begin } = this.run.operations;
    return [lowerBound(begin, this.from - this.longest), lowerBound(begin, this.to)];
  }

  latencyRange() {
    const { begin, end } = this.run.operations;
    let [least, most] = [Infinity, 1e3];
    for (let [i, last] = this.visible(); i < last; i++) {
      if (end[i] === null || begin[i] < this.from) continue;
      least = Math.min(least, Math.max(end[i] - begin[i], 1));
      most = Math.max(most, end[i] - begin[i]);
    }
    for (const [at, p50, p99] of this.run.buckets) {
      if (p50 === null || at < this.from || at > this.to) continue;
      [least, most] = [Math.min(least, p50), Math.max(most, p99)];
    }
    this.hasLatency = least < Infinity;
    return [this.hasLatency ? least / 1.5 : 1e3, most * 2];
  }

  /** The place of an operation: at its beginning; without an answer at the upper edge. */
  at(u, i) {
    const { begin, end } = this.run.operations;
    const y = end[i] === null ? u.bbox.top + 6 * devicePixelRatio : u.valToPos(Math.max(end[i] - begin[i], 1), "y", true);
    return [this.x(u, begin[i]), y];
  }

  isShown(i) {
    const { kind, outcome } = this.run.operations;
    return !this.hidden.has(kind[i]) && !this.hidden.has(outcome[i]);
  }

  /** Of operations that would cover each other the first one is drawn: as many marks as there are places for one. */
  drawLatency(u) {
    const { begin, kind, outcome } = this.run.operations;
    const size = Math.max(1, Math.round(POINT * devicePixelRatio));
    const columns = Math.ceil(u.ctx.canvas.width / size);
    const taken = new Uint8Array(columns * Math.ceil(u.ctx.canvas.height / size));
    const colours = Object.fromEntries(this.kinds.map((name, i) => [name, this.colour(`kind${i % 6}`)]));
    const open = this.colour("unknown");
    for (let [i, last] = this.visible(); i < last; i++) {
      if (begin[i] < this.from || !this.isShown(i)) continue;
      const [x, y] = this.at(u, i);
      const cell = Math.floor(y / size) * columns + Math.floor(x / size);
      if (taken[cell]) continue;
      taken[cell] = 1;
      u.ctx.fillStyle = outcome[i] === "ok" ? colours[kind[i]] : open;
      if (outcome[i] === "ok") u.ctx.fillRect(x - size / 2, y - size / 2, size, size);
      else u.ctx.fillRect(x - size / 3, y - size * 1.6, size * 0.8, size * 3.2);
    }
    this.drawPercentiles(u);
    if (this.selected >= 0) {
      u.ctx.strokeStyle = this.colour("ink");
      u.ctx.lineWidth = 2 * devicePixelRatio;
      u.ctx.beginPath();
      u.ctx.arc(...this.at(u, this.selected), 6 * devicePixelRatio, 0, 7);
      u.ctx.stroke();
    }
  }

  drawPercentiles(u) {
    for (const [column, name] of [[1, "p50"], [2, "p99"]]) {
      if (this.hidden.has(name)) continue;
      u.ctx.strokeStyle = this.colour(name);
      u.ctx.lineWidth = 1.6 * devicePixelRatio;
      u.ctx.beginPath();
      let isBroken = true;
      for (const bucket of this.run.buckets) {
        const value = bucket[column];
        if (value !== null) u.ctx[isBroken ? "moveTo" : "lineTo"](this.x(u, bucket[0]), u.valToPos(value, "y", true));
        isBroken = value === null;
      }
      u.ctx.stroke();
    }
  }

  pick(u, event) {
    const box = u.over.getBoundingClientRect();
    const x = (event.clientX - box.left) * devicePixelRatio + u.bbox.left;
    const y = (event.clientY - box.top) * devicePixelRatio + u.bbox.top;
    if (u !== this.charts[1]) return;
    let [found, nearest] = [-1, (14 * devicePixelRatio) ** 2];
    for (let [i, last] = this.visible(); i < last; i++) {
      if (!this.isShown(i)) continue;
      const [px, py] = this.at(u, i);
      const distance = (px - x) ** 2 + (py - y) ** 2;
      if (distance < nearest) [found, nearest] = [i, distance];
    }
    if (found >= 0) this.onPick(found);
  }

  /** Answers a second of the window that is shown, in intervals of about six pixels and of 10 ms or more. */
  rates() {
    if (this.counted?.from === this.from && this.counted.to === this.to) return this.counted;
    const most = Math.max(20, Math.floor((this.width - LEFT) / 6));
    const count = Math.max(1, Math.min(most, Math.floor((this.to - this.from) / SHORTEST_RATE)));
    const step = (this.to - this.from) / count;
    const rates = [];
    for (let i = 0; i < count; i++) {
      const [begin, end] = [this.from + i * step, this.from + (i + 1) * step];
      rates.push(((this.run.answered(end) - this.run.answered(begin)) * 1e9) / step);
    }
    this.counted = { from: this.from, to: this.to, step, rates, most: Math.max(...rates, 1) * 1.08 };
    return this.counted;
  }

  drawRates(u) {
    const { step, rates } = this.rates();
    const bottom = u.bbox.top + u.bbox.height;
    u.ctx.beginPath();
    u.ctx.moveTo(this.x(u, this.from), bottom);
    rates.forEach((rate, i) => {
      const y = u.valToPos(rate, "y", true);
      u.ctx.lineTo(this.x(u, this.from + i * step), y);
      u.ctx.lineTo(this.x(u, this.from + (i + 1) * step), y);
    });
    u.ctx.lineTo(this.x(u, this.to), bottom);
    u.ctx.fillStyle = this.colour("area");
    u.ctx.globalAlpha = 0.35;
    u.ctx.fill();
    u.ctx.globalAlpha = 1;
    u.ctx.strokeStyle = this.colour("area");
    u.ctx.lineWidth = 1.4 * devicePixelRatio;
    u.ctx.stroke();
  }
}
