"use strict";
// New figures are put where the server has put figures, each second while somebody looks. Nothing is
// made of strings: text goes into textContent alone.
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const live = document.getElementById("live");
let last = null, asking = false;

function size(n) {
  const units = ["B", "KiB", "MiB", "GiB"];
  let u = 0;
  for (; n >= 1024 && u < 3; u++) n /= 1024;
  return (u ? n.toFixed(1) : n) + " " + units[u];
}

function fill(kind, all) {
  for (const row of document.querySelectorAll("tr[data-" + kind + "]")) {
    const now = all[+row.dataset[kind]];
    for (const cell of row.querySelectorAll("td[data-f]")) {
      const f = cell.dataset.f;
      if (!now || f === "entered" && cell.textContent === "–" && !now[f]) continue;
      cell.textContent = f === "bytes" ? size(now[f]) : now[f];
    }
    const state = row.querySelector("td[data-state]");
    if (state && now) state.textContent = now.ended ? "ended" : now.stopped ? "stopped" : now.stale ? "in a long step" : "runs";
  }
}

function boxes(now) {
  const seconds = last ? (Date.parse(now.at) - Date.parse(last.at)) / 1000 : 0;
  const stops = new Set((now.stopped || []).map(s => s.operator));
  for (const box of document.querySelectorAll("g[data-of]")) {
    const ops = box.dataset.of.split(" ").map(Number);
    const bad = ops.some(o => stops.has(o));
    box.classList.toggle("bad", bad);
    const at = ops.at(-1), kept = ops.reduce((n, o) => n + now.operators[o].kept, 0);
    const parts = [];
    if (now.counted) {
      if (seconds > 0) parts.push(short.format((now.operators[at].entered - last.operators[at].entered) / seconds) + "/s");
      parts.push(short.format(now.operators[at].entered) + " in");
    }
    if (kept) parts.push(short.format(kept) + " kept");
    if (bad) box.querySelector(".sub").textContent = "FULL";
    else if (parts.length) box.querySelector(".sub").textContent = parts.join(" · ");
  }
}

function alerts(now) {
  const all = [];
  for (const s of now.stopped || []) {
    const p = document.createElement("p"), strong = document.createElement("strong");
    p.className = "alert";
    p.setAttribute("role", "alert");
    const since = s.since ? " for " + Math.max(0, Math.round((Date.parse(now.at) - Date.parse(s.since)) / 1000)) + " s" : "";
    strong.textContent = s.location + " does not run" + since + ". ";
    p.append(strong, s.why);
    all.push(p);
  }
  document.getElementById("alerts").replaceChildren(...all);
}

async function tick() {
  if (asking) return;
  asking = true;
  try {
    const answer = await fetch("v1/status", { signal: AbortSignal.timeout(5000) });
    if (!answer.ok) throw new Error(answer.status);
    const now = await answer.json();
    alerts(now);
    boxes(now);
    fill("location", now.locations);
    fill("output", now.outputs);
    fill("operator", now.operators);
    live.textContent = now.ended ? "ended" : "live";
    last = now;
  } catch (e) {
    live.textContent = "no answer";
  }
  asking = false;
  if (!document.hidden) setTimeout(tick, 1000);
}
document.addEventListener("visibilitychange", () => { if (!document.hidden) tick(); });
tick();
