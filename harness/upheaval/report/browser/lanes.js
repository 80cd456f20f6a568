// Plots of rows: one lane for each, its name above what is drawn of it. uPlot has the axis; the page says what is drawn.

"use strict";

const LANE = 36;
const NAME = 15;
const AXIS = 26;
const SERIES = ["follower", "kind0", "kind1", "kind2", "kind3", "kind4", "kind5"];
const FONT = "system-ui, sans-serif";

/** A value for people. */
const SHOWN = {
  ms: (value) => duration(value * 1e6),
  share: (value) => `${+(value * 100).toPrecision(3)} %`,
  "bytes a second": (value) => `${bytes(value)}/s`,
};
const shownIn = (unit) => SHOWN[unit] ?? ((value) => (value >= 100 ? bytes(value) : String(+value.toPrecision(3))));

class Lanes {
  /** `plot`: `kind` (bars, spans, stacks), `unit`, `series`, their `colours` or none, and the `lanes` with `name`, `values`, `whole`, `low` and `high`. */
  constructor(place, plot) {
    this.plot = plot;
    this.place = place;
    this.show = shownIn(plot.unit);
    this.colour = pageColours();
    const values = plot.lanes.flatMap((lane) => [this.end(lane), ...[lane.low, lane.high].filter((each) => each !== null), lane.values[0]]);
    this.isLogarithmic = plot.kind === "spans";
    this.range = this.isLogarithmic
      ? [Math.min(...values.filter((each) => each > 0)) / 1.5, Math.max(...values) * 2]
      : [Math.min(0, ...values) * 1.05, Math.min(Math.max(...values, 1e-3) * 1.05, plot.unit === "share" ? 1 : Infinity)];
    if (plot.series.length > 1) place.before(this.key());
    this.height = plot.lanes.length * LANE + AXIS;
    this.chart = this.made();
    new ResizeObserver(() => this.resize(place.clientWidth)).observe(place);
  }

  /** Where what is drawn of a lane ends. */
  end(lane) {
    return this.plot.kind === "stacks" ? lane.values.reduce((sum, each) => sum + each, 0) : lane.values.at(-1);
  }

  key() {
    const names = this.plot.series.map((name, i) => element("span", {}, element("i", { style: `background:var(--${this.seriesColour(i)})` }), name));
    return element("p", { className: "key" }, ...names);
  }

  seriesColour(i) {
    if (this.plot.colours.length > 0) return this.plot.colours[i];
    return this.plot.kind === "stacks" ? SERIES[i % SERIES.length] : ["p50", "p99"][i];
  }

  made() {
    const soft = () => this.colour("soft");
    const grid = { stroke: () => this.colour("rule"), width: 1 };
    const splits = this.isLogarithmic ? { splits: (u, _, least, most) => roundLatencies(least, most) } : {};
    const axis = { size: AXIS, space: 80, stroke: soft, font: `11px ${FONT}`, grid, ticks: grid, values: (u, marks) => marks.map((mark) => (mark === null ? "" : this.show(mark))), ...splits };
    return new uPlot(
      {
        width: this.place.clientWidth,
        height: this.height,
        padding: [0, 24, 0, 12],
        legend: { show: false },
        cursor: { show: false },
        scales: { x: { time: false, range: () => this.range, distr: this.isLogarithmic ? 3 : 1 }, y: { range: [0, 1] } },
        series: [{}, { paths: () => null, points: { show: false } }],
        axes: [axis, { show: false }],
        hooks: { draw: [(u) => this.plot.lanes.forEach((lane, i) => this.draw(u, lane, i))] },
      },
      [this.range, [null, null]],
      this.place,
    );
  }

  resize(width) {
    if (width > 0 && width !== this.chart.width) this.chart.setSize({ width, height: this.height });
  }

  redraw() {
    this.colour = pageColours();
    this.chart.redraw(false, true);
  }

  draw(u, lane, i) {
    const { ctx, bbox } = u;
    const ratio = devicePixelRatio;
    const top = bbox.top + (i * LANE + NAME + 3) * ratio;
    const height = (LANE - NAME - 8) * ratio;
    const x = (value) => u.valToPos(value, "x", true);
    const text = this.plot.kind === "spans" ? lane.values.map(this.show).join(" – ") : this.show(lane.whole);
    const gap = 6 * ratio;
    ctx.save();
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    const end = this[this.plot.kind](ctx, lane, x, top, height) + gap;
    ctx.font = `${11 * ratio}px ${FONT}`;
    ctx.fillStyle = this.colour("soft");
    const width = ctx.measureText(text).width;
    // The value is right of what is drawn, or above it at the right where there is no room.
    const isAbove = end + width > bbox.left + bbox.width;
    const name = top - (NAME / 2) * ratio;
    ctx.fillText(text, isAbove ? bbox.left + bbox.width - width : end, isAbove ? name : top + height / 2);
    ctx.font = `600 ${12 * ratio}px ${FONT}`;
    ctx.fillStyle = this.colour("ink");
    ctx.fillText(fitting(ctx, lane.name, bbox.width - (isAbove ? width + gap : 0)), bbox.left, name);
    ctx.restore();
  }

  bars(ctx, lane, x, top, height) {
    const [from, to] = [x(0), x(lane.values[0])];
    ctx.fillStyle = this.colour("p50");
    ctx.fillRect(Math.min(from, to), top, Math.max(Math.abs(to - from), devicePixelRatio), height);
    if (lane.low === null || lane.high === null) return Math.max(from, to);
    const [low, high, middle] = [x(lane.low), x(lane.high), top + height / 2];
    ctx.strokeStyle = this.colour("ink");
    ctx.lineWidth = 1.4 * devicePixelRatio;
    ctx.beginPath();
    for (const [left, y, right, until] of [[low, middle, high, middle], [low, top, low, top + height], [high, top, high, top + height]]) {
      ctx.moveTo(left, y);
      ctx.lineTo(right, until);
    }
    ctx.stroke();
    return Math.max(from, to, high);
  }

  spans(ctx, lane, x, top, height) {
    const [from, to] = lane.values.map((value) => x(Math.max(value, this.range[0])));
    const middle = top + height / 2;
    ctx.fillStyle = this.colour("follower");
    ctx.fillRect(from, middle - 2 * devicePixelRatio, to - from, 4 * devicePixelRatio);
    [from, to].forEach((at, i) => {
      ctx.fillStyle = this.colour(this.seriesColour(i));
      ctx.beginPath();
      ctx.arc(at, middle, 5 * devicePixelRatio, 0, 7);
      ctx.fill();
    });
    return to + 5 * devicePixelRatio;
  }

  stacks(ctx, lane, x, top, height) {
    let sum = 0;
    lane.values.forEach((value, i) => {
      ctx.fillStyle = this.colour(this.seriesColour(i));
      ctx.fillRect(x(sum), top, x(sum + value) - x(sum), height);
      sum += value;
    });
    return x(sum);
  }
}

/** As much of a text as there is room for. */
function fitting(ctx, text, room) {
  if (ctx.measureText(text).width <= room) return text;
  let length = text.length;
  while (length > 1 && ctx.measureText(`${text.slice(0, length)}…`).width > room) length -= 1;
  return `${text.slice(0, length)}…`;
}

const plots = JSON.parse(document.getElementById("data").textContent);
const charts = Object.entries(plots).map(([name, plot]) => new Lanes(document.getElementById(`plot-${name}`), plot));

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach((each) => each.redraw()));
onPaper((width) => {
  for (const each of charts) {
    each.resize(width ?? each.place.clientWidth);
    each.redraw();
  }
});
