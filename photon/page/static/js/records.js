// The view Records: what became of foreign records, dead letters, conflicting records, and what waits.

import { swatch } from "./charts.js";
import { el, readable, svg } from "./dom.js";
import * as say from "./format.js";
import { remedy } from "./now.js";

const CLASSES = {
  joined: "has its row here",
  joined_elsewhere: "another datacenter has its row",
  duplicates: "logged again",
  filtered: "the adapter dropped the pair",
  skipped: "no key, or the adapter passed over it",
  unjoinable: "its primary event never came",
  too_old: "older than the registry remembers",
  dead_letters: "can't be read",
  lost: "its bytes went while it waited",
  pending: "waits",
};
// Parts of the classes and of the primary log, by their counts.
const OTHER_CONTENT = {
  conflicting: "duplicates with other content than the record of their id that joined",
  ambiguous: "rows that might have joined primary events of the same id and other content",
  reused_primaries: "primary records with the id of another one and other content",
};
const AXIS = ["0.001 %", "0.01 %", "0.1 %", "1 %", "10 %", "100 %"];
const DECADES = AXIS.length - 1;
const SHAPES = ["M-5,0a5,5 0 1,0 10,0a5,5 0 1,0 -10,0", "M0,-6L6,0L0,6L-6,0z", "M-4,-4h8v8h-8z", "M0,-6L6,5H-6z"];
const MOST_OF_ID = 80; // characters
const MOST_SHOWN = 3; // rows or reasons; the others are folded: on a phone each row is a list of its own
const HOURS = { hour: 1, "6 hours": 6, day: 24, "3 days": 72 };

export function recordsView({ now, records, problems, query }) {
  const problem = problems.records && `${problems.records.message}. ${problems.records.whatToDo}`;
  if (!records) return [problem ? problemOf(problem) : el("p", { class: "quiet" }, "Reading the tables")];
  return [
    (problem ? [problem, ...records.problems] : records.problems).map(problemOf),
    classTable(records.classes),
    deadLetters(records.dead_letters, Number(query.get("hours")) || 24),
    waiting(records.waiting, now?.now_us ?? Date.now() * 1_000),
    conflicting(records.conflicting, records.classes),
  ].flat();
}

const problemOf = (text) => el("p", { class: "problem" }, text);
const head = (...title) => el("th", { scope: "col" }, title);
const rowHead = (...title) => el("th", { scope: "row" }, title);

/** A link to an event's story, which has all of an id that is cut here. */
export function eventLink(id) {
  const characters = [...id];
  const isCut = characters.length > MOST_OF_ID;
  const address = { href: `#/event?id=${encodeURIComponent(id)}`, title: isCut && readable(id) };
  return el("a", { class: "id", ...address }, isCut ? `${characters.slice(0, MOST_OF_ID).join("")}…` : id);
}

/** A table that scrolls by itself where it is wider than the window. */
const scrolling = (id, kind, heads, rows) =>
  el("div", { class: "scrolls", tabindex: 0, role: "group", "aria-labelledby": id },
    el("table", { class: kind }, el("thead", {}, el("tr", {}, heads)), el("tbody", {}, rows)));

function classTable(classes) {
  const names = Object.keys(classes);
  const countOf = (name, one) => classes[name][one] ?? 0;
  const totals = names.map((name) => Object.keys(CLASSES).reduce((sum, one) => sum + countOf(name, one), 0));
  const rows = Object.entries(CLASSES).map(([one, words]) => {
    const shares = names.map((name, index) => (totals[index] ? countOf(name, one) / totals[index] : 0));
    const numbers = names.map((name, index) =>
      el("td", { class: "number" }, say.count(countOf(name, one)), el("small", {}, say.percent(shares[index]))));
    return el("tr", {},
      rowHead(one.replaceAll("_", " "), el("small", {}, words)),
      el("td", { class: "dots" }, dots(shares)),
      numbers);
  });
  const heads = names.map((name, index) => el("th", { scope: "col", class: "number" }, swatch(index), ` ${name}`));
  return el("section", { "aria-labelledby": "classes" },
    el("h2", { id: "classes" }, "What became of foreign records"),
    el("p", { class: "quiet" },
      "Each record of the foreign log that a datacenter has read in its present epoch is in one class. ",
      "The axis of shares is logarithmic: each line is ten times the one before."),
    scrolling("classes", "classes", [head("class"), el("th", { scope: "col", class: "axis" }, axis()), heads], rows));
}

function axis() {
  const anchors = ["start", ...AXIS.slice(2).map(() => "middle"), "end"];
  return svg("svg", { role: "img", "aria-label": "share, on a logarithmic axis" }, AXIS.map((text, index) =>
    svg("text", { x: `${(100 * index) / DECADES}%`, y: 12, "text-anchor": anchors[index] }, text)));
}

/** Shares on the axis, a shape for each datacenter; none for nothing. */
function dots(shares) {
  const lines = AXIS.map((_, index) => {
    const x = `${(100 * index) / DECADES}%`;
    return svg("line", { x1: x, x2: x, y1: 0, y2: "100%" });
  });
  const marks = shares.map((share, index) => {
    if (share <= 0) return null;
    const x = Math.max(0, 100 * (1 + Math.log10(share) / DECADES));
    const y = (100 * (index + 1)) / (shares.length + 1);
    return svg("svg", { x: `${x}%`, y: `${y}%`, overflow: "visible" },
      svg("path", { class: `dot dc${index % 4}`, d: SHAPES[index % 4] }));
  });
  return svg("svg", { "aria-hidden": "true" }, lines, marks);
}

function deadLetters(letters, hours) {
  const links = Object.entries(HOURS).map(([name, length]) =>
    el("a", { href: `#/records?hours=${length}`, "aria-current": length === hours ? "true" : null }, name));
  const most = Math.max(...letters.reasons.flatMap((one) => one.counts));
  const scale = letters.reasons.length === 0 ? "None." : [
    "Lines of both logs that can't be read, of all datacenters and epochs. ",
    `Each bar is ${say.span(letters.step_seconds)}, the highest ${say.counted(most, "line")}; from `,
    say.time(letters.at_us[0]),
    " to now.",
  ];
  const reasons = letters.reasons.map((one) =>
    el("details", { class: "reason", "data-key": one.reason },
      el("summary", {},
        el("span", { class: "why" }, one.reason), bars(one.counts, most), el("b", {}, say.count(one.count))),
      el("ul", {}, one.samples.map(sample))));
  return el("section", { "aria-labelledby": "letters" },
    el("div", { class: "range-bar" },
      el("h2", { id: "letters" }, "Dead letters of the last"),
      el("nav", { class: "ranges", "aria-label": "Range" }, links)),
    el("p", { class: "quiet" }, scale),
    letters.reasons.length ? remedy(letters.what_to_do, letters.commands) : null,
    folding("letters", "reason", reasons));
}

function bars(counts, most) {
  const width = 100 / counts.length;
  return svg("svg", { class: "bars", "aria-hidden": "true" }, counts.map((n, index) => {
    const height = n ? Math.max(6, (100 * n) / most) : 0;
    const place = { x: `${index * width}%`, y: `${100 - height}%` };
    return svg("rect", { ...place, width: `${0.8 * width}%`, height: `${height}%` });
  }));
}

function sample(one) {
  return el("li", {},
    el("p", {},
      el("b", {}, one.datacenter), ` ${one.side} log, `, one.event_id ? eventLink(one.event_id) : "no id was read", " ",
      say.time(one.at_us),
      el("small", {}, ` ${one.file} at ${say.count(one.offset_bytes)}`)),
    el("pre", { tabindex: 0 }, one.line));
}

function waiting(groups, nowUs) {
  const rows = groups.map((one) => el("tr", {},
    rowHead(one.datacenter),
    el("td", {}, one.reason, el("small", {}, one.why)),
    el("td", { class: "number" }, say.count(one.count)),
    el("td", {}, say.time(one.oldest_first_seen_us)),
    el("td", {}, one.next_due_us !== null && one.next_due_us <= nowUs ? "now" : say.time(one.next_due_us)),
    el("td", { class: "ids" }, one.samples.map((id) => [eventLink(id), " "]))));
  return listed("waits", "What waits", ["datacenter", "why", "records", "since", "due", "some of them"], rows);
}

function conflicting(found, classes) {
  const rows = found.map((one) => el("tr", {},
    rowHead(one.datacenter),
    el("td", { class: "ids" }, eventLink(one.event_id)),
    el("td", {}, say.time(one.at_us)),
    el("td", {}, one.says)));
  const title = "Conflicting records: another one's id, and other content";
  const counts = Object.entries(classes).flatMap(([name, all]) => Object.entries(OTHER_CONTENT)
    .filter(([one]) => all[one])
    .map(([one, words]) => el("p", { class: "quiet" }, `${name}: ${say.count(all[one])} ${words}`)));
  const section = listed("conflicts", title, ["datacenter", "event", "time", "what differs"], rows);
  section.querySelector("h2").after(...counts);
  return section;
}

/** The first of many things, and the others behind a line that says how many they are. */
function folding(key, thing, all, show = (some) => some) {
  const others = all.slice(MOST_SHOWN);
  return [show(all.slice(0, MOST_SHOWN)), others.length === 0 ? null : el("details", { "data-key": `${key}-more` },
    el("summary", {}, say.counted(others.length, `more ${thing}`)), show(others))];
}

/** A table, or on a phone a list whose lines begin with the titles of its columns. */
function listed(id, title, titles, rows) {
  rows.forEach((row) => [...row.cells].forEach((cell, at) => cell.setAttribute("data-title", titles[at])));
  const heads = titles.map((one) => head(one));
  const listing = (some) => scrolling(id, "listed", heads.map((one) => one.cloneNode(true)), some);
  const shown = rows.length ? folding(id, "row", rows, listing) : el("p", { class: "quiet" }, "None.");
  return el("section", { "aria-labelledby": id }, el("h2", { id }, title), shown);
}
