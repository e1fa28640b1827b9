// Keeps a page as it is now: parts come as server-sent events, drawn by the director.
"use strict";

const link = document.getElementById("link");
const say = (text) => { if (link) link.textContent = text; };

// A part that is replaced as a whole; what has the focus keeps it.
function live(part) {
  const source = new EventSource(part.dataset.live);
  source.addEventListener(part.dataset.event, (e) => {
    const focus = document.activeElement && part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    const scrolled = [...part.querySelectorAll(".timeline ol")].map((x) => x.scrollTop);
    part.innerHTML = JSON.parse(e.data);
    part.querySelectorAll(".timeline ol").forEach((x, i) => { x.scrollTop = scrolled[i] || 0; });
    if (focus) part.querySelector(`[href="${CSS.escape(focus)}"]`)?.focus({ preventScroll: true });
    say("");
    clocks();
  });
  source.addEventListener("problem", (e) => say(JSON.parse(e.data)));
  source.onerror = () => say("not connected: trying again");
}

// Output is text, whatever it looks like.
function output(pre) {
  const source = new EventSource(pre.dataset.output);
  const most = 2000;
  let first = true, heading = "";
  source.addEventListener("output", (e) => {
    const end = pre.scrollHeight - pre.scrollTop - pre.clientHeight < 40;
    if (first) { pre.textContent = ""; first = false; }
    for (const l of JSON.parse(e.data)) {
      const now = `attempt ${l.attempt}${l.stage ? ", " + l.stage : ""}`;
      if (now !== heading) { heading = now; add(pre, "mark", `── ${now}`); }
      if (l.skipped) add(pre, "mark", `(${l.skipped} lines are missing here)`);
      else add(pre, l.err ? "err" : "", `${l.at}  ${l.text}`);
    }
    while (pre.childElementCount > most) pre.firstElementChild.remove();
    if (end) pre.scrollTop = pre.scrollHeight;
  });
  source.addEventListener("end", () => source.close());
}

function add(pre, name, text) {
  const line = document.createElement("span");
  line.className = name;
  line.textContent = text + "\n";
  pre.append(line);
}

// Times that go on, and countdowns.
function span(seconds) {
  const s = Math.max(0, Math.round(seconds)), two = (a, u, b, v) => `${a} ${u} ${b} ${v}`;
  if (s >= 172800) return two(Math.floor(s / 86400), "d", Math.floor(s % 86400 / 3600), "h");
  if (s >= 3600) return two(Math.floor(s / 3600), "h", Math.floor(s % 3600 / 60), "min");
  if (s >= 60) return two(Math.floor(s / 60), "min", s % 60, "s");
  return `${s} s`;
}

function clocks() {
  const now = Date.now();
  for (const x of document.querySelectorAll("[data-since]")) x.textContent = span((now - Date.parse(x.dataset.since)) / 1000);
  for (const x of document.querySelectorAll("[data-until]")) {
    const left = (Date.parse(x.dataset.until) - now) / 1000;
    if (left > 0) x.textContent = `${x.dataset.until.slice(11, 19)} (in ${span(left)})`;
  }
}

// j and k go from card to card.
document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || /INPUT|TEXTAREA/.test(e.target.tagName)) return;
  const cards = [...document.querySelectorAll(".card")];
  const step = { j: 1, k: -1 }[e.key];
  if (!step || !cards.length) return;
  const at = cards.indexOf(document.activeElement);
  cards[Math.min(Math.max(at + step, 0), cards.length - 1)].focus();
});

document.querySelectorAll("[data-live]").forEach(live);
document.querySelectorAll("[data-output]").forEach(output);
if (document.querySelector("[data-again]")) setTimeout(() => location.reload(), 5000);
clocks();
setInterval(clocks, 1000);
