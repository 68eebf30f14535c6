// The range of time that an address names, as Grafana writes it: milliseconds, "now", or back from it ("now-1h").
const UNITS = { s: 1e3, m: 6e4, h: 36e5, d: 864e5, w: 6048e5, M: 2592e6, y: 31536e6 };
const LATEST = 8.64e15;
const USUAL_MS = 36e5;

function instant(text, nowMs) {
  const back = /^now(?:-(\d{1,6})([smhdwMy]))?$/.exec(text);
  if (back) return back[1] ? nowMs - Number(back[1]) * UNITS[back[2]] : nowMs;
  if (/^\d{1,16}$/.test(text)) return Number(text);
  return /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(text) ? Date.parse(text) : NaN;
}

// The words for both ends, null where the address names none.
export function wordsOf(address) {
  const from = address.get("from");
  const to = address.get("to");
  return from === null && to === null ? null : { from, to };
}

// Both ends in milliseconds at a time, null where the words make no sense. One end that is left out is now, or an hour before the other one.
export function resolve({ from, to }, nowMs) {
  const end = Math.round(instant(to ?? "now", nowMs));
  const start = from === null ? end - USUAL_MS : Math.round(instant(from, nowMs));
  return start >= 0 && start < end && end <= LATEST ? { from: start, to: end } : null;
}

export function touches(episode, { from, to }, nowMs) {
  return episode.onset_ms <= to && (episode.end_ms ?? nowMs) >= from;
}
