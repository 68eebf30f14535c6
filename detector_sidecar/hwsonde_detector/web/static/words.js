// Numbers and times as people write them.
const STEPS = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
const SYMBOLS = { bytes: "B", "bytes/s": "B/s", hertz: "Hz", watts: "W" };
const SMALL_STEPS = [[1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"]];

export function score(value) {
  return value >= 100 ? value.toFixed(0) : value.toFixed(2);
}

export function quantity(value, unit) {
  if (unit === "ratio") return `${Number((value * 100).toPrecision(3))} %`;
  if (unit === "celsius") return `${Number(value.toPrecision(3))} °C`;
  if (unit === "seconds") {
    const [step, prefix] = SMALL_STEPS.find(([least]) => Math.abs(value) >= least) ?? SMALL_STEPS[0];
    return `${Number((value / step).toPrecision(3))} ${prefix}s`;
  }
  const symbol = SYMBOLS[unit] ?? unit;
  for (const [step, prefix] of STEPS) {
    if (Math.abs(value) >= step) {
      const number = Number((value / step).toPrecision(3));
      return unit in SYMBOLS ? `${number} ${prefix}${symbol}` : `${number}${prefix} ${symbol}`.trim();
    }
  }
  return `${Number(value.toPrecision(3))} ${symbol}`.trim();
}

// From the lower to the upper bound, the unit said once where it is the same.
export function band(lower, upper, unit) {
  const high = quantity(upper, unit);
  const [low, ...lowUnit] = quantity(lower, unit).split(" ");
  const same = lower === 0 || lowUnit.join(" ") === high.split(" ").slice(1).join(" ");
  return `${same ? low : quantity(lower, unit)} to ${high}`;
}

export function duration(ms) {
  const seconds = Math.max(0, ms / 1000);
  if (seconds < 10) return `${Number(seconds.toFixed(1))} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

export function ago(ms) {
  return `${duration(ms)} ago`;
}

export function moment(ms) {
  return new Date(ms).toISOString().replace("T", " ").replace(/\.\d+/, "");
}

export function clock(ms) {
  // UTC everywhere: titles, logs and pages of other tools say the same time.
  return new Date(ms).toISOString().slice(11, 19);
}
