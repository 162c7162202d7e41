// The view Now: a card for each datacenter, and curves over time.

import { chartFigures, swatch } from "./charts.js";
import { el, svg, unseen } from "./dom.js";
import * as say from "./format.js";
import { kindOf } from "./marks.js";

export const RANGES = {
  hour: { seconds: 3_600, pauseSeconds: 10 },
  day: { seconds: 86_400, pauseSeconds: 60 },
  week: { seconds: 7 * 86_400, pauseSeconds: 60 },
  month: { seconds: 30 * 86_400, pauseSeconds: 60 },
};
const DAY_US = 86_400e6;
const MOST_TOLD = 40; // the newest marks in the list below the charts
const LEVELS = ["ok", "warn", "error"];
const ACTIVITIES = {
  live: ["●", "ok"],
  "at rest": ["○", "ok"],
  "at half a line": ["○", "ok"],
  new: ["○", "ok"],
  "catching up": ["◐", "ok"],
  "on hold": ["‖", "warn"],
  retired: ["■", "ok"],
  waiting: ["…", "warn"],
  failing: ["✕", "error"],
  "not running": ["✕", "error"],
  silent: ["✕", "error"],
  fenced: ["✕", "error"],
};
const LEVEL_WORDS = { ok: ["✓", "well"], warn: ["▲", "warning"], error: ["✕", "error"] };
const STATES = ["live", "behind", "waiting", "on hold", "dead", "at rest", "unknown"];

const brokenIn = (verdicts) => verdicts.filter((one) => one.level !== "ok");

/** The worst level of what is broken. */
export function levelOf(now) {
  if (!now) return "unknown";
  const verdicts = [...now.registry.verdicts, ...now.datacenters.flatMap((one) => one.verdicts)];
  const levels = verdicts.map((one) => LEVELS.indexOf(one.level));
  const isUnasked = now.datacenters.some((one) => one.problem);
  return LEVELS[Math.max(isUnasked ? 2 : 0, ...levels)];
}

export function nowView({ now, history, problems, query }) {
  if (!now) return [];
  const range = query.get("range") in RANGES ? query.get("range") : "hour";
  const names = history ? Object.keys(history.datacenters) : now.datacenters.map((one) => one.name);
  const cards = now.datacenters.map((one) => card(one, names.indexOf(one.name), now.now_us, history));
  return [
    el("section", { "aria-label": "Datacenters", class: "cards" }, cards),
    registryCard(now.registry),
    el("section", { "aria-labelledby": "over-time", class: "over-time", "data-key": "over-time" },
      rangeBar(range),
      problemsOf(history, problems.history),
      el("div", { class: "charts" }, history ? chartFigures() : el("p", { class: "quiet" }, "Reading the history")),
      history ? happenings(history, names) : null,
    ),
  ];
}

function card(one, index, nowUs, history) {
  const [glyph, level] = ACTIVITIES[one.activity] ?? ["?", "warn"];
  const id = `card-${index}`;
  return el("article", { class: "card", "aria-labelledby": id, "data-key": one.name },
    el("header", {},
      el("h2", { id }, swatch(index), one.name),
      el("span", { class: `chip ${level}` }, el("span", { "aria-hidden": "true" }, glyph), ` ${one.activity}`),
    ),
    one.problem ? el("p", { class: "problem" }, one.problem) : null,
    one.activity === "on hold" ? onHold(one, history?.strips[one.name]) : null,
    verdictList(brokenIn(one.verdicts)),
    numbers(one, nowUs),
    one.landing?.length ? el("ul", { class: "landing quiet", "aria-label": "Landing" }, one.landing.map((says) => el("li", {}, says))) : null,
    strip(history?.strips[one.name], history?.to_us ?? nowUs),
    budget(history?.budget[one.name]),
    kept(one.verdicts, one.unjudged),
  );
}

/** Since when a person keeps it from running, and how it runs again. */
function onHold({ says, commands }, spans = []) {
  const last = spans.at(-1);
  const since = last?.state === "on hold"
    ? [last === spans[0] ? "Since before " : "Since ", say.time(last.from_us), ": "] : null;
  return el("div", { class: "held" }, el("p", {}, since, says), commandList(commands));
}

function numbers({ numbers: n = {}, release }, nowUs) {
  const delays = [n.p50_seconds, n.p90_seconds, n.p99_seconds].map(say.span);
  const told = [
    ["Joined", say.rows(n.joined_per_second)],
    ["Lag", say.span(n.lag_seconds)],
    ["Delay p50 · p90 · p99", delays.join(" · "), "", "wide"],
    ["Unread", say.bytes(n.unread_bytes)],
    ["Waiting", say.records(n.waiting)],
    ["Registry", say.requests(n.registry_requests_per_second), `${say.span(n.registry_seconds_each)} each`, "wide"],
    ["Complete up to", say.time(n.complete_up_to_us), say.ago(n.complete_up_to_us, nowUs), "wide"],
    ["Release", release ? say.count(release.number) : say.UNKNOWN, say.ago(release?.made_us, nowUs), "wide"],
  ];
  return el("dl", { class: "numbers" }, told.map(([name, value, beside, kind]) =>
    el("div", { class: kind },
      el("dt", {}, name),
      el("dd", {}, value, beside ? el("small", {}, ` ${beside}`) : null))));
}

/** Sentences of the judge, each with its remedy. */
function verdictList(verdicts) {
  return verdicts.length === 0 ? null : el("ul", { class: "verdicts" }, verdicts.map((one, index) => {
    const [glyph, words] = LEVEL_WORDS[one.level];
    return el("li", { class: one.level, "data-key": `${one.promise}-${index}` },
      el("p", {},
        el("span", { class: "glyph", "aria-hidden": "true" }, glyph),
        unseen(`${words}: `),
        el("b", {}, one.promise.replaceAll("_", " ")),
        `: ${one.says}`,
      ),
      one.remedy ? remedy(one.remedy, one.commands) : commandList(one.commands),
    );
  }));
}

/** What to do, and its commands, each with a button that copies it. */
export function remedy(text, commands = []) {
  return el("div", { class: "remedy" }, el("p", {}, unseen("What to do: "), text), commandList(commands));
}

function commandList(commands) {
  return commands.length === 0 ? null : el("ul", { class: "commands" }, commands.map((command) =>
    el("li", {},
      el("code", {}, command),
      el("button", { type: "button", "data-copy": command, "aria-label": `Copy ${command}` }, "Copy"))));
}

/** The promises that hold, and those of which nobody knows yet. */
function kept(verdicts, unjudged) {
  const broken = new Set(brokenIn(verdicts).map((one) => one.promise));
  const promises = [...new Set(verdicts.map((one) => one.promise))];
  const well = promises.filter((promise) => !broken.has(promise));
  const saysOf = (promise) => verdicts.filter((one) => one.promise === promise).map((one) => one.says).join("; ");
  return well.length === 0 ? null : el("details", { class: "kept" },
    el("summary", {}, `${well.length} of ${promises.length + Object.keys(unjudged).length} promises hold`),
    el("ul", {}, well.map((one) => el("li", {}, el("b", {}, one.replaceAll("_", " ")), ` ${saysOf(one)}`)),
      Object.entries(unjudged).map(([one, why]) => el("li", {}, `… `, el("b", {}, one.replaceAll("_", " ")), ` ${why}`))),
  );
}

function registryCard({ says, verdicts }) {
  const broken = brokenIn(verdicts);
  const worst = Math.max(0, ...broken.map((one) => LEVELS.indexOf(one.level)));
  const [glyph, words] = LEVEL_WORDS[LEVELS[worst]];
  return el("article", { class: "card registry", "aria-labelledby": "registry", "data-key": "registry" },
    el("header", {}, el("h2", { id: "registry" }, "Registry"),
      el("p", {}, el("span", { class: "glyph", "aria-hidden": "true" }, `${glyph} `), broken.length ? words : [unseen(`${words}: `), says])),
    verdictList(broken),
  );
}

/** The last 24 hours of a datacenter, a colour and a pattern for each state. */
function strip(spans, toUs) {
  if (!spans?.length) return null;
  const fromUs = toUs - DAY_US;
  const share = (us) => Math.min(100, Math.max(0, (100 * (us - fromUs)) / DAY_US));
  const seconds = new Map();
  for (const one of spans) {
    const length = (Math.min(one.until_us, toUs) - Math.max(one.from_us, fromUs)) / 1e6;
    seconds.set(one.state, (seconds.get(one.state) ?? 0) + Math.max(0, length));
  }
  const states = STATES.filter((state) => seconds.has(state));
  const lines = spans.map((one) => {
    const from = share(one.from_us);
    const until = Math.max(share(one.until_us), from + 0.3); // a short outage is seen, too
    const title = `${one.state}: ${say.timeText(one.from_us)} to ${say.timeText(one.until_us)}`;
    return stateLine(one.state, `${from}%`, `${until}%`, svg("title", {}, title));
  });
  return el("div", { class: "strip" },
    el("p", { class: "label" }, el("span", {}, "24 hours ago"), el("span", {}, "now")),
    svg("svg", { class: "strip-bar", "aria-hidden": "true" }, lines),
    el("ul", { class: "legend", "aria-label": "The last 24 hours" }, states.map((state) =>
      el("li", {},
        svg("svg", { class: "key", "aria-hidden": "true" }, stateLine(state, 0, "100%")),
        `${state} ${say.span(Math.round(seconds.get(state)))}`))),
  );
}

const stateLine = (state, x1, x2, ...children) =>
  svg("line", { x1, x2, y1: "50%", y2: "50%", class: `state ${state.replaceAll(" ", "-")}` }, children);

/** The error budget, and what was left of it over its days. */
function budget(one) {
  if (!one) return null;
  const left = one.share_left;
  const said = left === null ? say.UNKNOWN : `${say.percent(left)} left`;
  const shares = one.shares.map((share, at) => `L${at},${1 - share}`).join("");
  const last = one.shares.length - 1;
  const curve = left === null ? null : svg("svg",
    { class: "budget-curve", viewBox: `0 0 ${last} 1`, preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("path", { d: `M0,1${shares}V1z` }));
  return el("div", { class: "budget" },
    el("p", { class: "label" }, "Error budget, over 28 days", el("b", {}, said)),
    curve, el("p", { class: "quiet" }, one.says));
}

function rangeBar(range) {
  const links = Object.keys(RANGES).map((name) =>
    el("a", { href: `#/now?range=${name}`, "aria-current": name === range ? "true" : null }, name));
  return el("div", { class: "range-bar" },
    el("h2", { id: "over-time" }, "The last"),
    el("nav", { class: "ranges", "aria-label": "Range" }, links),
    el("label", { class: "slider" }, unseen("Crosshair of all charts"),
      el("input", { type: "range", id: "slider", min: 0, step: 1, "data-own": "" })),
    el("p", { id: "pointed", "data-own": "" }),
  );
}

function problemsOf(history, problem) {
  const told = Object.entries(history?.datacenters ?? {}).filter(([, one]) => one.problem)
    .map(([name, one]) => `${name}: ${one.problem}`);
  if (problem) told.unshift(`${problem.message}. ${problem.whatToDo}`);
  return told.map((text) => el("p", { class: "problem" }, text));
}

/** All marks of the range in words, the newest first: what the shapes on the charts are. */
function happenings({ marks }, names) {
  const told = [...marks].filter((one) => one.kind !== "release").sort((a, b) => b.at_us - a.at_us).slice(0, MOST_TOLD);
  const rows = told.map((one) => el("li", {},
    el("span", { class: `glyph dc${names.indexOf(one.datacenter) % 4}`, "aria-hidden": "true" }, kindOf(one).glyph),
    say.time(one.at_us),
    el("span", {}, el("b", {}, `${one.datacenter ?? "all"} ${kindOf(one).words}`),
      one.until_us ? ` for ${say.span(Math.round((one.until_us - one.at_us) / 1e6))}` : "", `: ${one.says}`)));
  const releases = marks.filter((one) => one.kind === "release").length;
  return el("section", { class: "happenings", "aria-labelledby": "happened" },
    el("h3", { id: "happened" }, "What happened"),
    rows.length ? el("ul", {}, rows) : el("p", { class: "quiet" }, "Nothing but joins."),
    releases ? el("p", { class: "quiet" }, `▴ ${say.counted(releases, "release")}`) : null);
}
