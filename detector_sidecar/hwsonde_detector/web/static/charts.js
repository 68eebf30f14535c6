// Two charts with one cursor: the score with its threshold, and its parts stacked by subsystem.
/* global uPlot */
import { clock } from "./words.js";

const HEIGHT = 180;

function style(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// A gap in time becomes a gap in the line: a line across it would claim data that nobody has.
function withGaps(times, columns) {
  const steps = times.slice(1).map((time, index) => time - times[index]).sort((a, b) => a - b);
  const usual = steps[Math.floor(steps.length / 2)] || 1000;
  const out = { times: [], columns: columns.map(() => []) };
  times.forEach((time, index) => {
    if (index && time - times[index - 1] > 6 * usual) {
      out.times.push((times[index - 1] + usual) / 1000);
      out.columns.forEach((column) => column.push(null));
    }
    out.times.push(time / 1000);
    columns.forEach((column, which) => out.columns[which].push(column[index]));
  });
  return out;
}

function axes() {
  const common = { stroke: style("faint"), grid: { stroke: style("grid"), width: 1 }, ticks: { stroke: style("line"), width: 1 }, font: "12px system-ui, sans-serif" };
  return [
    { ...common, values: (_, ticks) => ticks.map((tick) => clock(tick * 1000)), space: 90, size: 30 },
    { ...common, size: 46 },
  ];
}

const range = (_, low, high) => [0, Math.max(1.3, (high || 0) * 1.08)];

function threshold(plot) {
  const { ctx } = plot;
  const y = plot.valToPos(1, "y", true);
  ctx.save();
  ctx.strokeStyle = style("bad");
  ctx.fillStyle = style("bad");
  ctx.lineWidth = 1.5 * devicePixelRatio;
  ctx.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio]);
  ctx.beginPath();
  ctx.moveTo(plot.bbox.left, y);
  ctx.lineTo(plot.bbox.left + plot.bbox.width, y);
  ctx.stroke();
  ctx.restore();
}

function shade(plot, episodes, nowMs) {
  const { ctx } = plot;
  ctx.save();
  ctx.beginPath();
  ctx.rect(plot.bbox.left, plot.bbox.top, plot.bbox.width, plot.bbox.height);
  ctx.clip();
  ctx.fillStyle = style("bad-page");
  for (const { onset_ms: from, end_ms: to } of episodes) {
    const left = plot.valToPos(from / 1000, "x", true);
    const right = plot.valToPos((to ?? nowMs) / 1000, "x", true);
    ctx.fillRect(left, plot.bbox.top, Math.max(right - left, 2), plot.bbox.height);
  }
  ctx.restore();
}

// Empty ends, so that the whole range is shown and not only what is known of it.
function spread(data, span) {
  if (!span) return data;
  const nulls = data.slice(1).map(() => null);
  const rows = [];
  if (data[0][0] !== span.from / 1000) rows.push([span.from / 1000, ...nulls]);
  data[0].forEach((time, index) => rows.push(data.map((column) => column[index])));
  if (rows.at(-1)[0] !== span.to / 1000) rows.push([span.to / 1000, ...nulls]);
  return data.map((_, which) => rows.map((row) => row[which]));
}

export class Charts {
  constructor(scoreBox, partsBox) {
    this.boxes = [scoreBox, partsBox];
    this.plots = [null, null];
    this.episodes = [];
    this.nowMs = 0;
    this.names = "";
    new ResizeObserver(() => this.resize()).observe(scoreBox);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.forget());
  }

  colour(subsystem) {
    return /^[a-z]+$/.test(subsystem) ? style(subsystem) : style("faint");
  }

  forget() {
    this.plots.forEach((plot) => plot?.destroy());
    this.plots = [null, null];
  }

  resize() {
    const width = this.boxes[0].clientWidth;
    if (width > 0) this.plots.forEach((plot) => plot?.setSize({ width, height: HEIGHT }));
  }

  // Shows a host, of a range or all that is known, and gives its subsystems with their newest parts, the largest first.
  show(host, span) {
    const { times, score, subsystems } = host.history;
    const last = (name) => subsystems[name].findLast((value) => value !== null) ?? 0;
    const total = (name) => subsystems[name].reduce((sum, value) => sum + (value ?? 0), 0);
    this.episodes = [...host.episodes.open, ...host.episodes.past];
    this.nowMs = host.now_ms;
    // Stacked from the largest share up, in an order that stays while the chart is looked at.
    const names = Object.keys(subsystems).sort((a, b) => total(b) - total(a));
    const stacked = [];
    let below = times.map(() => 0);
    for (const name of names) {
      below = below.map((value, index) => (subsystems[name][index] === null ? null : (value ?? 0) + subsystems[name][index]));
      stacked.unshift(below);
    }
    const one = withGaps(times, [score]);
    const many = withGaps(times, stacked);
    if (this.names !== `${host.name}\n${names.join()}`) this.forget();
    this.names = `${host.name}\n${names.join()}`;
    this.draw(0, spread([one.times, ...one.columns], span), [{ stroke: style("ink"), width: 1.5, points: { show: false } }]);
    this.draw(1, spread([many.times, ...many.columns], span), [...names].reverse().map((name) =>
      ({ stroke: this.colour(name), fill: this.colour(name), width: 1, points: { show: false } })));
    return names.map((name) => [name, last(name)]).sort((a, b) => b[1] - a[1]);
  }

  draw(which, data, series) {
    if (this.plots[which]) { this.plots[which].setData(data); return; }
    const options = {
      width: Math.max(this.boxes[which].clientWidth, 200), height: HEIGHT, legend: { show: false }, axes: axes(),
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "UTC"),
      cursor: { sync: { key: "host" }, drag: { x: false, y: false }, y: false, points: { show: false } },
      scales: { x: { time: true }, y: { range } }, series: [{}, ...series],
      hooks: { drawClear: [(plot) => shade(plot, this.episodes, this.nowMs)], draw: [threshold] },
    };
    this.plots[which] = new uPlot(options, data, this.boxes[which]);
  }
}
