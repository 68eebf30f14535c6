// The page: asks for JSON every two seconds and shows it. Text from outside only ever becomes text nodes, never markup.
import { Charts } from "./charts.js";
import { resolve, touches, wordsOf } from "./range.js";
import { ago, band, clock, duration, moment, quantity, score } from "./words.js";

const PERIOD_MS = 2000;
const PAST_SHOWN = 20;
const STATES = {
  anomalous: ["▲", "anomalous"], raised: ["△", "above the threshold, not yet lasting"], silent: ["◌", "silent: no new data, or too little to judge"],
  learning: ["…", "learning"], quiet: ["●", "quiet"],
};
const byId = (id) => document.getElementById(id);
const charts = new Charts(byId("score-chart"), byId("parts-chart"));
const rows = new Map();
let chosen = null;
let pinned = false;
let wanted = null;

function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "data") Object.assign(element.dataset, value);
    else if (key.includes("-") || key === "scope" || key === "role") element.setAttribute(key, value);
    else element[key] = value;
  }
  element.append(...children);
  return element;
}

function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function swatch(subsystem) {
  const mark = make("span", { className: "swatch", "aria-hidden": "true" });
  mark.style.background = charts.colour(subsystem);
  return mark;
}

async function ask(path) {
  const answer = await fetch(path, { headers: { Accept: "application/json" }, signal: AbortSignal.timeout(5000) });
  if (answer.status === 404) return null;
  if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
  return answer.json();
}

function showVerdict(all) {
  const worst = all.hosts[0];
  const troubled = all.source.state === "failing" && (!worst || worst.state !== "anomalous");
  const state = troubled ? "failing" : worst ? worst.state : "waiting";
  byId("verdict").dataset.state = state;
  put(byId("verdict-mark"), troubled ? "!" : (STATES[state] || ["…"])[0]);
  put(byId("verdict-text"), troubled ? `Blind: ${all.source.text}` : all.summary);
  const loud = worst && worst.score !== null && ["anomalous", "raised"].includes(worst.state);
  put(byId("verdict-side"), loud ? `${score(worst.score)} × threshold` : "");
  put(byId("source"), all.source.text);
  byId("source").dataset.state = all.source.state;
  byId("mode").hidden = all.mode === "live";
  document.title = `${worst && worst.state === "anomalous" ? "▲ " : ""}${all.summary} - hwsonde`;
}

function showWaiting(all) {
  const nothing = all.hosts.length === 0;
  byId("waiting").hidden = !nothing;
  document.querySelector(".columns").hidden = nothing;
  if (nothing) {
    put(byId("waiting-text"), `${all.source.text.replace(/[.?]*$/, (end) => end || ".")} A host appears with its second scrape; it is learned for a few minutes before its score counts.`);
  }
}

function newRow(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 100 24");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  const row = {
    name: make("span", { className: "name" }), score: make("span", { className: "score" }), words: make("span", { className: "words" }),
    named: make("span", { className: "words", textContent: "named after its instance: its label is missing", hidden: true }), svg,
  };
  row.button = make("button", { type: "button" }, row.name, row.score, row.words, svg, row.named);
  row.button.addEventListener("click", () => choose(name));
  row.item = make("li", {}, row.button);
  return row;
}

function spark(svg, values) {
  const most = Math.max(1.2, ...values.filter((value) => value !== null));
  const place = (value) => (23 - (22 * Math.min(value, most)) / most).toFixed(1);
  let path = "";
  let pen = "M";
  values.forEach((value, index) => {
    if (value === null) { pen = "M"; return; }
    path += `${pen}${((100 * index) / Math.max(values.length - 1, 1)).toFixed(1)} ${place(value)}`;
    pen = "L";
  });
  const shape = (className, d) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", "path");
    element.setAttribute("class", className);
    element.setAttribute("d", d);
    return element;
  };
  svg.replaceChildren(shape("spark-one", `M0 ${place(1)}L100 ${place(1)}`), shape("spark-line", path));
}

function words(host) {
  if (host.state === "learning") {
    const left = host.ready_in_s ? `, about ${duration(host.ready_in_s * 1000)} to go` : "";
    return `learning ${host.rows} of ${host.rows_needed} rows${left}`;
  }
  const part = host.subsystem && host.state !== "quiet" ? `${host.subsystem}, ` : "";
  const since = host.since_ms ? ` since ${clock(host.since_ms)}` : "";
  return `${part}${STATES[host.state][1]}${since}`;
}

function showHosts(all) {
  const list = byId("hosts");
  const seen = new Set();
  all.hosts.forEach((host, index) => {
    seen.add(host.name);
    if (!rows.has(host.name)) rows.set(host.name, newRow(host.name));
    const row = rows.get(host.name);
    put(row.name, host.name);
    put(row.score, host.score === null ? "–" : score(host.score));
    put(row.words, words(host));
    row.named.hidden = !host.named_by_instance;
    spark(row.svg, host.spark);
    row.button.dataset.state = host.state;
    row.button.setAttribute("aria-pressed", String(host.name === chosen));
    row.button.setAttribute("aria-label", `${host.name}: ${words(host)}, score ${host.score === null ? "not known" : score(host.score)}`);
    // Moving an element takes the focus from it, so rows only move when their order changed.
    if (list.children[index] !== row.item) list.insertBefore(row.item, list.children[index] || null);
  });
  for (const [name, row] of rows) if (!seen.has(name)) { row.item.remove(); rows.delete(name); }
}

function choose(name) {
  chosen = name;
  pinned = true;
  history.replaceState(null, "", address(name, wanted ?? {}));
  refresh();
}

function address(name, range) {
  const known = Object.entries({ host: name, ...range }).filter(([, value]) => value !== null);
  return `#${new URLSearchParams(known)}`;
}

function missing(host, span) {
  const kept = host.history.kept_from_ms;
  if (kept === null) return "; no score is kept yet";
  return kept > span.from ? `; scores are kept since ${moment(kept)}` : "";
}

// What is shown of the past, and the way back; what speaks of the present is called so.
function showRange(host, span) {
  byId("range").hidden = wanted === null;
  if (wanted === null) return;
  put(byId("range-text"), span
    ? `Shown: ${moment(span.from)} to ${moment(span.to)}${missing(host, span)}. State, figures, settings and channels are those of now.`
    : "The times in the address make no sense, so this is the present.");
  byId("range-live").href = address(host.name, {});
  byId("range-incidents").href = `incidents?${new URLSearchParams({ node: host.name })}`;
}

function facts(host) {
  const percent = (value) => (value === null ? "not known" : `${Math.round(value * 100)} %`);
  const list = [
    ["score", host.score === null ? "not known" : score(host.score)],
    ...Object.entries(host.members).map(([name, value]) => [name.replaceAll("_", " "), value === null ? "–" : score(value)]),
    ["channels judged", `${host.channels_judged} of ${host.channels}`],
    ["coverage", percent(host.coverage)],
    ["channels outside of their band", percent(host.anomalous_channels)],
    ["scrape interval", host.interval_ms ? duration(host.interval_ms) : "not known"],
    ["model", host.model_ms ? `fitted ${ago(host.now_ms - host.model_ms)}${host.frozen ? ", learning waits" : ""}${host.settling ? `, another regime is being learned (${host.settling})` : ""}` : "none yet"],
    ["newest window", host.end_ms ? ago(host.now_ms - host.end_ms) : "none yet"],
  ];
  byId("facts").replaceChildren(...list.map(([term, value]) => make("div", {}, make("dt", { textContent: term }), make("dd", { textContent: value }))));
}

function showChannels(host) {
  if (!host.top.length) {
    byId("channels").replaceChildren(make("caption", { textContent: host.state === "learning" ? "Nothing is judged yet." : "None: all channels are within what was learned." }));
    return;
  }
  const head = ["channel", "share", "part", "value", "expected", "deviation"].map((text, index) =>
    make("th", { textContent: text, scope: "col", className: index > 2 ? "number" : "" }));
  const most = Math.max(...host.top.map((part) => part.share || 0), 1e-9);
  const body = host.top.map((part) => {
    const bar = make("span", { className: "bar", "aria-hidden": "true" });
    bar.style.width = `${(100 * (part.share || 0)) / most}%`;
    bar.style.background = charts.colour(part.subsystem);
    const device = part.device ? ` ${part.device.name}${part.address ? ` (${part.address})` : ""}` : "";
    const expected = part.lower === null || part.upper === null ? "not known" : band(part.lower, part.upper, part.unit);
    const how = part.direction === "noisy" || part.direction === "stuck" ? ` ${part.direction}` : "";
    const deviation = (part.deviation === null ? "" : `${part.deviation > 0 ? "+" : "−"}${Math.abs(part.deviation).toPrecision(2)}`) + how;
    return make("tr", {},
      make("th", { textContent: part.title || part.channel, scope: "row", ...(part.title ? { title: part.channel } : {}) }),
      make("td", {}, make("span", { className: "share" }, bar, part.share === null ? "" : `${Math.round(part.share * 100)} %`)),
      make("td", {}, make("span", { className: "part" }, swatch(part.subsystem), part.subsystem + device)),
      make("td", { className: "number", textContent: part.value === null ? "missing" : quantity(part.value, part.unit) }),
      make("td", { className: "number", textContent: expected }),
      make("td", { className: "number", textContent: deviation, title: "robust deviations from the expected value" }));
  });
  byId("channels").replaceChildren(make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body));
}

function episodeItem(episode, now) {
  const length = (episode.end_ms ?? now) - episode.start_ms;
  const when = episode.end_ms === null
    ? `open since ${clock(episode.start_ms)} (${duration(length)})`
    : `${clock(episode.start_ms)} to ${clock(episode.end_ms)} (${duration(length)})`;
  const first = episode.first_channels.length
    ? `; moved first: ${episode.first_channels.slice(0, 3).map((entry) => `${entry.name} at ${clock(entry.at_ms)}`).join(", ")}` : "";
  return make("li", { data: { open: episode.end_ms === null ? "yes" : "no" } },
    make("div", {}, make("span", { className: "part" }, swatch(episode.subsystem)), " ",
      make("a", { href: `incidents/${episode.incident}`, textContent: episode.title || episode.identity })),
    make("div", { className: "when", textContent: `${when}, peak ${episode.peak === null ? "not known" : score(episode.peak)}${first}` }));
}

function showEpisodes(host, span) {
  const shown = (episodes) => (span ? episodes.filter((episode) => touches(episode, span, host.now_ms)) : episodes);
  const [open, past] = [shown(host.episodes.open), shown(host.episodes.past)];
  const items = [...open, ...past.slice(0, PAST_SHOWN)].map((episode) => episodeItem(episode, host.now_ms));
  if (past.length > PAST_SHOWN) items.push(make("li", { textContent: `and ${past.length - PAST_SHOWN} older ones, in the JSON` }));
  if (!items.length) items.push(make("li", { className: "when", textContent: span ? "None in this time that is still listed here." : "None so far." }));
  byId("episodes").replaceChildren(...items);
}

function showSettings(host) {
  byId("settings-part").hidden = !host.settings.length;
  byId("settings").replaceChildren(...host.settings.map((one) => make("li", { textContent: one.text })));
  byId("normal").hidden = !host.normal.length;
  put(byId("normal"), host.normal.map((one) => `Counts as normal, nobody is paged (${one.reason}): ${one.title}`).join(" "));
  byId("follows").hidden = host.follows === null;
  put(byId("follows"), host.follows === null ? "" : `Deviates as ${host.follows} does, which explains it: no incident of its own is told.`);
}

function showScores(host, span) {
  const latest = charts.show(host, span);
  byId("legend").replaceChildren(...latest.map(([name, value], index) =>
    make("li", { className: index === 0 && value > 0 ? "first" : "" }, swatch(name), `${name} ${score(value)}`)));
  const scores = host.history.score.filter((value) => value !== null);
  const most = scores.length ? score(Math.max(...scores)) : "";
  const now = host.score === null ? "not known" : score(host.score);
  if (span) put(byId("score-words"), most ? `At most ${most} in this time.` : "No window of this time was judged, or none is kept.");
  else put(byId("score-words"), most ? `Now ${now}, at most ${most} since ${clock(host.history.times[0])}.` : "No window was judged yet.");
}

function showDetail(host, span) {
  byId("detail").hidden = false;
  put(byId("host-name"), host.name);
  put(byId("host-state"), `${STATES[host.state][0]} ${words(host)}`);
  byId("host-state").dataset.state = host.state;
  byId("named").hidden = !host.named_by_instance;
  byId("learning").hidden = host.state !== "learning";
  put(byId("learning-text"), words(host));
  byId("learning-bar").value = host.rows_needed ? Math.min(1, host.rows / host.rows_needed) : 0;
  byId("host-links").replaceChildren(
    ...Object.entries(host.links).map(([name, url]) => make("a", { href: url, textContent: name[0].toUpperCase() + name.slice(1), rel: "noopener" })),
    make("a", { href: `api/v1/hosts/${encodeURIComponent(host.name)}`, textContent: "JSON" }));
  facts(host);
  showChannels(host);
  showRange(host, span);
  showEpisodes(host, span);
  showSettings(host);
  showScores(host, span);
}

async function refresh() {
  try {
    const all = await ask("api/v1/hosts");
    if (!pinned || !all.hosts.some((host) => host.name === chosen)) chosen = all.hosts.length ? all.hosts[0].name : null;
    showVerdict(all);
    showWaiting(all);
    showHosts(all);
    const asked = wanted;
    const span = asked && resolve(asked, all.now_ms);
    const query = span ? `?${new URLSearchParams(span)}` : "";
    const host = chosen === null ? null : await ask(`api/v1/hosts/${encodeURIComponent(chosen)}${query}`);
    if (asked !== wanted) return;
    if (host && host.name === chosen) showDetail(host, span);
    else byId("detail").hidden = true;
  } catch (error) {
    byId("source").dataset.state = "failing";
    put(byId("source"), `the detector does not answer this page: ${error.message}`);
  }
}

function fromAddress() {
  // A link within the page names none of this.
  if (location.hash === "#detail") return;
  const given = new URLSearchParams(location.hash.slice(1));
  const host = given.get("host");
  if (host) { chosen = host; pinned = true; }
  wanted = wordsOf(given);
}

async function turn() {
  if (!document.hidden) await refresh();
  setTimeout(turn, PERIOD_MS);
}

window.addEventListener("hashchange", async () => {
  // The way back goes away with the range: who followed it by the keyboard goes on from the host.
  const followed = document.activeElement === byId("range-live");
  fromAddress();
  await refresh();
  if (followed && byId("range").hidden) byId("detail").focus({ preventScroll: true });
});
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
fromAddress();
turn();
