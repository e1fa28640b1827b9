// Shows the pages of a signed-in user, and updates them live: the director renders their parts, which arrive as
// server-sent events.
"use strict";

// The browser sends the session's cookie to every port of this host, but only this origin has the key.
const keyName = "retake-page-key";
function headers(more) {
  const key = localStorage.getItem(keyName);
  return key ? { ...more, "Retake-Page-Key": key } : more || {};
}

function say(text) {
  const link = document.getElementById("link");
  if (!link || link.textContent === text) return;
  link.textContent = text;
  link.hidden = !text;
}

// Replaces the current page.
async function show(answer, moved) {
  const text = await answer.text();
  if (!(answer.headers.get("Content-Type") || "").startsWith("text/html")) { say(text); return; }
  const next = new DOMParser().parseFromString(text, "text/html");
  if (next.querySelector(".signin")) localStorage.removeItem(keyName); // the session has ended
  const { pathname, search } = new URL(answer.url);
  if (moved) history.replaceState(null, "", pathname + search);
  document.title = next.title;
  document.body.replaceWith(next.body);
  scrollTo(0, 0);
  begin();
}

const noAnswer = "The director does not answer. This page may be out of date; it retries automatically.";

// Opens the page that the browser could not open by itself, because a navigation cannot send the key.
async function enter(part) {
  const { to, key } = part.dataset;
  if (key) {
    localStorage.setItem(keyName, key);
    location.replace(to);
  } else if (part.hidden && localStorage.getItem(keyName)) {
    await fetch(to, { headers: headers() }).then((answer) => show(answer, true)).catch(() => {
      say(noAnswer);
      setTimeout(() => location.reload(), 5000);
    });
  } else {
    part.hidden = false;
  }
}

// Forms need the key, except the form for signing in.
document.addEventListener("submit", async (e) => {
  if (e.target.closest(".signin")) return;
  e.preventDefault();
  const body = new URLSearchParams(new FormData(e.target, e.submitter));
  try {
    const answer = await fetch(e.target.action, { method: "POST", body, headers: headers() });
    await show(answer, answer.redirected);
  } catch { say("The director did not answer. It may or may not have carried out the command: try again."); }
});

// Follows server-sent events like an EventSource, which cannot send the key. If a handler returns true, it stops.
async function follow(path, on) {
  const { signal } = running;
  while (!signal.aborted) {
    try {
      const answer = await fetch(path, { headers: headers({ Accept: "text/event-stream" }), signal });
      if (!answer.ok) { on.lost?.("This page no longer updates: reload it."); return; }
      on.open?.();
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = ""; ;) {
        const { value, done } = await reader.read();
        if (done) break;
        const events = (rest + value).split("\n\n");
        rest = events.pop();
        for (const event of events) {
          const [, name, data] = /^event: (.*)\ndata: (.*)$/.exec(event);
          if (on[name]?.(JSON.parse(data))) { reader.cancel(); return; }
        }
      }
    } catch { /* the connection failed */ }
    if (signal.aborted) return;
    on.lost?.(noAnswer);
    await new Promise((after) => setTimeout(after, 3000));
  }
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
  follow(part.dataset.live, {
    [part.dataset.event](html) {
      say("");
      put(part, html);
      for (const other of part.querySelectorAll("template[data-for]")) {
        const place = document.getElementById(other.dataset.for);
        if (place && place.innerHTML !== other.innerHTML) put(place, other.innerHTML);
        const words = document.getElementById("words");
        if (words && other.dataset.words) words.hidden = other.dataset.words !== "true";
      }
      clocks();
    },
    problem: (text) => { say(text); },
    over: (text) => { say(text); return true; },
    lost: say,
  });
}

// Shows output as text, never as HTML.
function output(pre) {
  const most = 2000;
  let first, heading;
  const over = () => true;
  follow(pre.dataset.output, {
    open() { first = true; heading = ""; },
    output(lines) {
      const end = pre.scrollHeight - pre.scrollTop - pre.clientHeight < 40;
      if (first) { pre.textContent = ""; first = false; }
      for (const l of lines) {
        const now = `attempt ${l.attempt}${l.stage ? ", " + l.stage : ""}`;
        if (now !== heading) { heading = now; add(pre, "mark", `── ${now}`); }
        if (l.skipped) add(pre, "mark", `(${l.skipped} lines are missing here)`);
        else add(pre, l.err ? "err" : "", `${l.at}  ${plain(l.text)}`, l.text);
      }
      while (pre.childElementCount > most) pre.firstElementChild.remove();
      if (end) pre.scrollTop = pre.scrollHeight;
    },
    end: over,
    over,
  });
}

// The worker logs JSON. Show its message and main fields; the whole line appears on hover.
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

// Formats elapsed times and countdowns.
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

// Pointing at a state of the machine, or focusing it, highlights its transitions.
function pointed(node) {
  const drawing = node.closest(".machine");
  const show = () => {
    drawing.classList.add("pointed");
    for (const x of drawing.querySelectorAll(".edge")) x.classList.toggle("shown", x.dataset.from === node.dataset.state || x.dataset.to === node.dataset.state);
  };
  const hide = () => drawing.classList.remove("pointed");
  for (const [event, what] of Object.entries({ pointerenter: show, focus: show, pointerleave: hide, blur: hide })) node.addEventListener(event, what);
}

// Starts to update the current page, and stops the updates of the previous page.
let running, again;
function begin() {
  running?.abort();
  running = new AbortController();
  clearTimeout(again);
  if (document.querySelector("[data-again]")) again = setTimeout(() => location.reload(), 5000);
  document.querySelectorAll(".signin").forEach(enter);
  document.querySelectorAll("[data-live]").forEach(live);
  document.querySelectorAll("[data-output]").forEach(output);
  document.querySelectorAll(".machine .node").forEach(pointed);
  clocks();
}

begin();
setInterval(clocks, 1000);
