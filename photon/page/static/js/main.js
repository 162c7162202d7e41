// The page: which view the address names, what the server said last, and whether it still answers.

import { Gone, keepAsking } from "./ask.js";
import { drawCharts, dropCharts, pointAt } from "./charts.js";
import { el, morph, morphChildren } from "./dom.js";
import { eventView } from "./event.js";
import * as say from "./format.js";
import { withEnds } from "./marks.js";
import { levelOf, nowView, RANGES } from "./now.js";
import { recordsView } from "./records.js";

const PATIENCE_SECONDS = 5;
const PATIENCE_OF_A_TRACE_SECONDS = 120; // it may search logs
const GLYPHS = { ok: "✓", warn: "▲", error: "✕", unknown: "…" };
const TITLES = { now: "Now", records: "Records", event: "An event" };
const VIEWS = { now: nowView, records: recordsView, event: eventView };

const said = {}; // the newest answers: `now`, `history`, `records`, `event`
const problems = {}; // why there is none, by the same names
let route = routeOf();
let goneSinceUs = null;

/** The view that the address names, with its parameters: #/event?id=abc. */
function routeOf() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return { view: Object.hasOwn(VIEWS, path) ? path : "now", query: new URLSearchParams(query ?? "") };
}

function historyQuestion() {
  if (route.view !== "now") return null;
  const named = route.query.get("range");
  const range = Object.hasOwn(RANGES, named) ? RANGES[named] : RANGES.hour;
  const toUs = said.now?.now_us ?? 1_000 * Date.now();
  return { path: `api/history?from_us=${toUs - 1e6 * range.seconds}&to_us=${toUs}`, pauseSeconds: range.pauseSeconds };
}

function recordsQuestion() {
  const namesNone = route.view === "event" && !route.query.get("id"); // some events are offered
  if (route.view !== "records" && !namesNone) return null;
  return { path: `api/records?hours=${Number(route.query.get("hours")) || 24}`, pauseSeconds: 10 };
}

function eventQuestion() {
  const id = route.view === "event" ? route.query.get("id") : null;
  const isTold = said.event || problems.event; // a trace reads logs: none for a tab that is seen again
  return id && !isTold ? { path: `api/event?id=${encodeURIComponent(id)}` } : null;
}

function taking(name) {
  return (answer, problem) => {
    problems[name] = problem instanceof Gone && name !== "event" ? null : problem; // the banner says it
    if (answer) said[name] = answer;
    if (answer?.marks) answer.marks = withEnds(answer.marks, answer.to_us);
    if (name === "now") goneSinceUs = problem instanceof Gone ? (goneSinceUs ?? 1_000 * Date.now()) : null;
    render();
  };
}

const askNow = keepAsking(() => ({ path: "api/now", pauseSeconds: 1 }), PATIENCE_SECONDS, taking("now"));
const asking = {
  history: keepAsking(historyQuestion, 4 * PATIENCE_SECONDS, taking("history")),
  records: keepAsking(recordsQuestion, 4 * PATIENCE_SECONDS, taking("records")),
  event: keepAsking(eventQuestion, PATIENCE_OF_A_TRACE_SECONDS, taking("event")),
};

function render() {
  tellHeadline();
  const main = document.getElementById("main");
  main.classList.toggle("stale", goneSinceUs !== null);
  morphChildren(main, [VIEWS[route.view]({ ...said, problems, query: route.query })].flat());
  if (route.view !== "now" || !said.now || !said.history) return;
  drawCharts(said.history, Object.keys(said.history.datacenters), said.now);
}

function tellHeadline() {
  const now = said.now;
  const problem = problems.now;
  const level = problem || goneSinceUs !== null ? "unknown" : levelOf(now);
  const says = problem ? `${problem.message}. ${problem.whatToDo}` : (now?.says ?? "Looking at the datacenters");
  const glyph = el("span", { class: "glyph", "aria-hidden": "true" }, GLYPHS[level]);
  const attributes = { id: "headline", "aria-live": "polite", "data-level": level };
  morph(document.getElementById("headline"), el("h1", attributes, glyph, el("span", {}, says)));
  document.getElementById("pipeline").textContent = now?.pipeline ?? "";
  const asOf = now ? ["as of ", say.time(now.now_us)] : [];
  morph(document.getElementById("as-of"), el("p", { id: "as-of", class: "quiet" }, asOf));
  const gone = goneSinceUs === null ? "" : `This page's server gives no answer since ${say.timeText(goneSinceUs)}. `;
  const old = now ? `The numbers are those of ${say.timeText(now.now_us)}. ` : "";
  const told = gone && `${gone}${old}It is started with: photon ui ${now?.typed_file ?? "PIPELINE"}`;
  const banner = document.getElementById("gone");
  if (banner.textContent !== told) banner.textContent = told;
  document.title = `${gone ? "✕" : GLYPHS[level]} ${TITLES[route.view]} · ${now?.pipeline ?? "Photon"}`;
}

function follow() {
  const before = route;
  route = routeOf();
  if (before.view !== route.view) {
    dropCharts();
    document.getElementById("main").replaceChildren();
  }
  delete said.event;
  delete problems.event;
  const typed = document.getElementById("id");
  if (typed) typed.value = route.query.get("id") ?? "";
  for (const link of document.querySelectorAll("header nav a")) {
    const isHere = link.getAttribute("href") === `#/${route.view}`;
    if (isHere) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  render();
  Object.values(asking).forEach((next) => next());
}

async function copy(button) {
  button.setAttribute("data-own", ""); // until the answer was read
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(button.previousElementSibling); // plain HTTP may not write to the clipboard
    button.textContent = "Selected";
  }
  setTimeout(() => {
    button.textContent = "Copy";
    button.removeAttribute("data-own");
  }, 2_000);
}

addEventListener("hashchange", follow);
document.addEventListener("click", (click) => {
  const button = click.target.closest?.("[data-copy]");
  if (button) copy(button);
  if (click.target.matches?.(".skip")) {
    click.preventDefault(); // the address names the view
    document.getElementById("main").focus();
  }
});
document.addEventListener("input", (input) => {
  if (input.target.id === "slider") pointAt(Number(input.target.value));
});
document.addEventListener("submit", (submit) => {
  submit.preventDefault();
  const address = `#/event?id=${encodeURIComponent(new FormData(submit.target).get("id"))}`;
  if (location.hash === address) follow();
  else location.hash = address;
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", render);
follow();
askNow();
