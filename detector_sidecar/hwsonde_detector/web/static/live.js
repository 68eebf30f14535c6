// An open incident: its page is asked for again every few seconds, and what changed takes the old place. Nothing else is done by script.
const PERIOD_MS = 5000;
const main = document.getElementById("main");

function opened() {
  return [...main.querySelectorAll("details")].map((one) => one.open);
}

async function refresh() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" }, signal: AbortSignal.timeout(5000) });
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("main");
  if (!fresh || fresh.isEqualNode(main)) return;
  const open = opened();
  main.replaceChildren(...fresh.childNodes);
  main.querySelectorAll("details").forEach((one, index) => { one.open = Boolean(open[index]); });
}

async function turn() {
  // Who has gone to something in the page with the keyboard, or selects text, keeps it.
  const busy = main.contains(document.activeElement) && document.activeElement !== main;
  const selecting = String(document.getSelection()) !== "";
  if (!document.hidden && !busy && !selecting) {
    try {
      await refresh();
    } catch {
      // The next turn tries again; what is shown stays.
    }
  }
  setTimeout(turn, PERIOD_MS);
}

setTimeout(turn, PERIOD_MS);
