// Updates a page live: the director renders its parts, which arrive as server-sent events.
"use strict";

const link = document.getElementById("link");
function say(text) {
  if (!link || link.textContent === text) return;
  link.textContent = text;
  link.hidden = !text;
}

// Replaces a whole part, but keeps the focus and the scroll positions.
function put(part, html) {
  const focused = part.contains(document.activeElement) ? document.activeElement : null;
  const same = focused && focused !== part ? (focused.getAttribute("href") ? `[href="${CSS.escape(focused.getAttribute("href"))}"]` : `[aria-label="${CSS.escape(focused.getAttribute("aria-label") || "")}"][tabindex]`) : "";
  const scrolled = [...part.querySelectorAll(".timeline ol")].map((x) => x.scrollTop);
  part.innerHTML = html;
  part.querySelectorAll(".timeline ol").forEach((x, i) => { x.scrollTop = scrolled[i] || 0; });
  if (same) part.querySelector(same)?.focus({ preventScroll: true });
}

function live(part) {
  const source = new EventSource(part.dataset.live);
  source.addEventListener(part.dataset.event, (e) => {
    say("");
    put(part, JSON.parse(e.data));
    for (const other of part.querySelectorAll("template[data-for]")) {
      const place = document.getElementById(other.dataset.for);
      if (place && place.innerHTML !== other.innerHTML) put(place, other.innerHTML);
      const words = document.getElementById("words");
      if (words && other.dataset.words) words.hidden = other.dataset.words !== "true";
    }
    clocks();
  });
  source.addEventListener("problem", (e) => say(JSON.parse(e.data)));
  source.addEventListener("over", (e) => { source.close(); say(JSON.parse(e.data)); });
  source.onerror = () => say(source.readyState === EventSource.CLOSED
    ? "This page no longer updates: reload it."
    : "The director does not answer. This page may be out of date; it retries automatically.");
}

// Output is always text.
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
      else add(pre, l.err ? "err" : "", `${l.at}  ${plain(l.text)}`, l.text);
    }
    while (pre.childElementCount > most) pre.firstElementChild.remove();
    if (end) pre.scrollTop = pre.scrollHeight;
  });
  for (const last of ["end", "over"]) source.addEventListener(last, () => source.close());
}

// The worker logs JSON. Show the message, and the whole line when the pointer is over it.
function plain(text) {
  const own = "retake-worker: ";
  if (!text.startsWith(own + "{")) return text;
  try {
    const { msg, stage, reason, error } = JSON.parse(text.slice(own.length));
    return own + [msg, stage, reason, error].filter((x) => typeof x === "string" && x).join(" · ");
  } catch { return text; }
}

function add(pre, name, text, title) {
  const line = document.createElement("span");
  if (title && !text.endsWith(title)) line.title = title;
  line.className = name;
  line.textContent = text + "\n";
  pre.append(line);
}

// Elapsed times and countdowns.
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

// j and k move between cards.
document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || /INPUT|TEXTAREA/.test(e.target.tagName)) return;
  const cards = [...document.querySelectorAll(".card")];
  const step = { j: 1, k: -1 }[e.key];
  if (!step || !cards.length) return;
  const at = cards.indexOf(document.activeElement);
  cards[Math.min(Math.max(at + step, 0), cards.length - 1)].focus();
});

// Pointing at a state of the machine, or focusing it, shows its arrows.
document.querySelectorAll(".machine .node").forEach((node) => {
  const drawing = node.closest(".machine");
  const show = () => {
    drawing.classList.add("pointed");
    for (const x of drawing.querySelectorAll(".edge")) x.classList.toggle("shown", x.dataset.from === node.dataset.state || x.dataset.to === node.dataset.state);
  };
  const hide = () => drawing.classList.remove("pointed");
  for (const [event, what] of Object.entries({ pointerenter: show, focus: show, pointerleave: hide, blur: hide })) node.addEventListener(event, what);
});

document.querySelectorAll("[data-live]").forEach(live);
document.querySelectorAll("[data-output]").forEach(output);
if (document.querySelector("[data-again]")) setTimeout(() => location.reload(), 5000);
clocks();
setInterval(clocks, 1000);
