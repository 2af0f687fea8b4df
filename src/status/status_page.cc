#include "src/status/status_page.h"

namespace invoker::status {
namespace {

constexpr char kPage[] = R"html(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Invoker worker</title>
<style>
:root { color-scheme: light dark; --line: #8884; --quiet: #888; --p50: #2a7de1; --p99: #d9534f; }
* { box-sizing: border-box; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 0 auto; max-width: 68rem; padding: 1rem; }
h1 { font-size: 1.3rem; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1rem; margin: 1.6rem 0 .4rem; }
p { margin: .2rem 0; color: var(--quiet); }
#state { font-weight: 600; }
#state.bad { color: var(--p99); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .6rem; margin-top: 1rem; }
.tile { border: 1px solid var(--line); border-radius: .5rem; padding: .5rem .7rem; }
.tile b { display: block; font-size: 1.35rem; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.tile span { color: var(--quiet); font-size: .85rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .25rem .5rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; max-width: 18rem; overflow: hidden; text-overflow: ellipsis; }
th:nth-child(2), td:nth-child(2), th:nth-child(3), td:nth-child(3) { text-align: left; }
.text td, .text th { text-align: left; }
.text td:last-child { white-space: normal; min-width: 12rem; }
th { color: var(--quiet); font-weight: 500; }
select { font: inherit; max-width: 100%; }
svg { width: 100%; height: 9rem; border: 1px solid var(--line); border-radius: .5rem; margin-top: .3rem; }
path { fill: none; stroke-width: 2; vector-effect: non-scaling-stroke; }
.p50 { stroke: var(--p50); color: var(--p50); } .p99 { stroke: var(--p99); color: var(--p99); }
</style>
</head>
<body>
<h1 id="server">Invoker worker</h1>
<p><span id="state">asking</span> <span id="about"></span></p>
<div class="tiles" id="tiles"></div>
<h2>Time that executors spend on a call: <span class="p50">p50</span> and <span class="p99">p99</span> of each second</h2>
<select id="which" aria-label="function"><option>the slowest function</option></select>
<p id="scale"></p>
<svg viewBox="0 0 120 100" preserveAspectRatio="none" role="img" aria-label="p50 and p99 of the last two minutes"><path class="p99"/><path class="p50"/></svg>
<h2>Functions</h2>
<div class="scroll"><table id="functions"></table></div>
<h2>Open leases</h2>
<div class="scroll"><table id="leases"></table></div>
<h2>Leases that an executor's end has ended, the last ones</h2>
<div class="scroll"><table id="lost" class="text"></table></div>
<h2>Messages that led to nothing, and refusals</h2>
<div class="scroll"><table id="refusals"></table></div>
<noscript><p>This page needs JavaScript. The same is in <a href="/metrics">/metrics</a> and <a href="/status.json">/status.json</a>.</p></noscript>
<script>
"use strict";
const kPoints = 120;
const kChoices = 200;
const past = [];  // what ran between two looks: p50 and p99 by function
const choices = [undefined];  // undefined: the slowest function
let before = null;

function element(id) { return document.getElementById(id); }
function number(value) { return value.toLocaleString("en"); }
function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit + 1 < units.length) { value /= 1024; unit += 1; }
  return (unit === 0 ? value : value.toPrecision(3)) + " " + units[unit];
}
function time(us) {
  if (us === 0) return "-";
  if (us < 1000) return us.toPrecision(3) + " \u00b5s";
  return us < 1e6 ? (us / 1000).toPrecision(3) + " ms" : (us / 1e6).toPrecision(3) + " s";
}
// Names come from clients: they are put in as text, never as HTML.
function cell(row, tag, text) { row.appendChild(document.createElement(tag)).textContent = text; }
function table(id, head, rows) {
  const table = element(id);
  table.replaceChildren();
  const top = table.appendChild(document.createElement("tr"));
  for (const text of rows.length === 0 ? ["none"] : head) cell(top, "th", text);
  for (const texts of rows) {
    const row = table.appendChild(document.createElement("tr"));
    for (const text of texts) cell(row, "td", text);
  }
}
function tile(text, name) {
  const box = document.createElement("div");
  box.className = "tile";
  box.appendChild(document.createElement("b")).textContent = text;
  box.appendChild(document.createElement("span")).textContent = name;
  return box;
}
function nameOf(each) { return each.function + " on " + each.fabric + ", " + each.executors; }
// In microseconds; inside a bucket as if its calls were spread evenly.
function quantile(counts, ends, share) {
  const rank = share * counts.reduce((sum, count) => sum + count, 0);
  let sum = 0;
  for (let i = 0; i < counts.length; ++i) {
    if (sum + counts[i] >= rank && counts[i] > 0) {
      const from = i === 0 ? 0 : ends[i - 1];
      return i === ends.length ? from : from + (ends[i] - from) * (rank - sum) / counts[i];
    }
    sum += counts[i];
  }
  return 0;
}
function look_back(status) {
  const ran = new Map();
  for (const each of before === null ? [] : status.functions) {
    const old = before.times.get(nameOf(each)) || [];
    const counts = each.times.map((count, i) => Math.max(0, count - (old[i] || 0)));
    if (counts.some((count) => count > 0)) {
      ran.set(nameOf(each), { p50: quantile(counts, status.bucket_ends_us, 0.5),
                              p99: quantile(counts, status.bucket_ends_us, 0.99) });
    }
  }
  past.push(ran);
  if (past.length > kPoints) past.shift();
}
function choose(functions) {
  for (const name of functions.map(nameOf)) {
    if (choices.includes(name) || choices.length > kChoices) continue;
    choices.push(name);
    element("which").appendChild(document.createElement("option")).textContent = name;
  }
}
function draw() {
  const chosen = choices[element("which").selectedIndex];
  const points = past.map((ran) => chosen !== undefined ? ran.get(chosen) :
    Array.from(ran.values()).reduce((slowest, each) => slowest === undefined || each.p99 > slowest.p99 ? each : slowest, undefined));
  const most = Math.max(1, ...points.map((point) => point === undefined ? 0 : point.p99));
  for (const name of ["p50", "p99"]) {
    let line = "";
    points.forEach((point, i) => {
      if (point === undefined) return;
      const x = kPoints - points.length + i;
      const y = 98 - 94 * point[name] / most;
      line += points[i - 1] === undefined ? "M" + (x - 0.5) + "," + y + "H" + x : "L" + x + "," + y;
    });
    document.querySelector("path." + name).setAttribute("d", line);
  }
  element("scale").textContent = "The last two minutes. A gap: nothing ran. The top is " + time(most) + ".";
}
function show(status, at) {
  const functions = status.functions;
  const calls = functions.reduce((sum, each) => sum + each.calls, 0);
  if (before !== null && status.uptime_s < before.uptime_s) before = null;  // it was started again
  const seconds = before === null ? 0 : (at - before.at) / 1000;
  const rate = seconds > 0 ? Math.max(0, (calls - before.calls) / seconds) : 0;
  look_back(status);
  before = { at, calls, uptime_s: status.uptime_s, times: new Map(functions.map((each) => [nameOf(each), each.times])) };
  document.title = "Invoker " + status.server;
  element("server").textContent = status.server;
  element("state").textContent = status.draining ? "draining" : "serving";
  element("state").className = status.draining ? "bad" : "";
  element("about").textContent = "Invoker " + status.version + ", for " + number(status.uptime_s) + " s, on " + status.fabrics.join(", ");
  const executors = [status.executors.shared, status.executors.leased];
  const busy = executors.reduce((sum, each) => sum + each.busy, 0);
  const all = executors.reduce((sum, each) => sum + each.busy + each.idle + each.starting, 0);
  element("tiles").replaceChildren(
    tile(number(Math.round(rate)), "calls a second"),
    tile(number(calls), "calls"),
    tile(busy + " of " + all, "executors are busy"),
    tile(number(executors.reduce((sum, each) => sum + each.requests_waiting, 0)), "requests wait at executors"),
    tile(number(executors.reduce((sum, each) => sum + each.sessions, 0)), "sessions"),
    tile(number(status.leases.own), "leases with executors"),
    tile(number(status.leases.shared), "leases without"),
    tile(number(status.leases.waiting), "leases wait"),
    tile(number(status.leases.lost), "leases lost"),
    tile(status.capacity.free_cores + " of " + status.capacity.cores, "cores are free to lease"),
    tile(bytes(status.capacity.free_memory), "of memory are free to lease"));
  functions.sort((a, b) => b.calls - a.calls);
  choose(functions);
  draw();
  table("functions", ["function", "fabric", "executors", "calls", "failed", "in", "out", "p50", "p99"],
    functions.map((each) => [each.function, each.fabric, each.executors, number(each.calls), number(each.failures),
                             bytes(each.bytes_in), bytes(each.bytes_out), time(each.p50_us), time(each.p99_us)]));
  table("leases", ["lease", "tenant", "executors", "held", "CPU time", "calls"],
    status.leases.open.map((each) => [each.lease, each.tenant || "-", each.executors || "shared", time(each.held_s * 1e6),
                                      time(each.cpu_s * 1e6), number(each.calls)]));
  table("lost", ["lease", "tenant", "when", "why"],
    status.leases.last_lost.map((each) => [each.lease || "-", each.tenant || "-", each.at, each.reason]));
  const reasons = [];
  for (const [reason, count] of Object.entries(status.dropped)) if (count > 0) reasons.push([reason, "message", "dropped", number(count)]);
  for (const [reason, count] of Object.entries(status.refused_connections)) if (count > 0) reasons.push([reason, "connection", "closed", number(count)]);
  if (status.refused_sessions > 0) reasons.push(["limit or endpoint", "session", "refused", number(status.refused_sessions)]);
  if (status.refused_requests > 0) reasons.push(["token or tenant", "request", "refused", number(status.refused_requests)]);
  table("refusals", ["reason", "of a", "was", "times"], reasons);
}
async function look() {
  try {
    const reply = await fetch("/status.json", { cache: "no-store", signal: AbortSignal.timeout ? AbortSignal.timeout(5000) : undefined });
    if (!reply.ok) throw new Error("the server says " + reply.status);
    show(await reply.json(), performance.now());
  } catch (error) {
    element("state").textContent = "no answer: " + error.message;
    element("state").className = "bad";
    before = null;
    look_back(null);
    draw();
  }
  setTimeout(look, 1000);
}
element("which").onchange = draw;
look();
</script>
</body>
</html>
)html";

}  // namespace

absl::string_view StatusPage() { return {kPage, sizeof(kPage) - 1}; }

}  // namespace invoker::status
