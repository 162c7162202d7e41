// The view Records: what became of foreign records, dead letters, conflicting records, and what waits.

import { swatch } from "./charts.js";
import { el, svg } from "./dom.js";
import * as say from "./format.js";

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
const DECADES = 5; // of the logarithmic axis: 0.001 % to 100 %
const HOURS = { hour: 1, "6 hours": 6, day: 24, "3 days": 72 };

export function recordsView({ records, problems, query }) {
  const problem = problems.records;
  if (!records) return problem ? [problemOf(`${problem.message}. ${problem.whatToDo}`)] : [el("p", { class: "quiet" }, "Reading the tables")];
  const told = [...(problem ? [problem.message] : []), ...records.problems];
  return [
    told.map(problemOf),
    classTable(records.classes),
    deadLetters(records.dead_letters, Number(query.get("hours")) || 24),
    waiting(records.waiting),
    conflicting(records.conflicting),
  ].flat();
}

const problemOf = (text) => el("p", { class: "problem" }, text);

/** A link to an event's story. */
const eventLink = (id) => el("a", { href: `#/event?id=${encodeURIComponent(id)}`, class: "id" }, id);

/** Where a share lies on the axis, in percent of its width; 0 lies at its left end. */
const placeOf = (share) => (share <= 0 ? 0 : Math.max(0, 100 * (1 + Math.log10(share) / DECADES)));

function classTable(classes) {
  const names = Object.keys(classes);
  const totals = names.map((name) => Object.keys(CLASSES).reduce((sum, one) => sum + (classes[name][one] ?? 0), 0));
  const shareOf = (one, index) => (totals[index] ? (classes[names[index]][one] ?? 0) / totals[index] : 0);
  const rows = Object.entries(CLASSES).map(([one, words]) => el("tr", {},
    el("th", { scope: "row" }, one.replaceAll("_", " "), el("small", {}, words)),
    el("td", { class: "dots" }, dots(names.map((_, index) => shareOf(one, index)))),
    names.map((name, index) => el("td", { class: "number" },
      say.count(classes[name][one] ?? 0), el("small", {}, say.percent(shareOf(one, index))))),
  ));
  return el("section", { "aria-labelledby": "classes" },
    el("h2", { id: "classes" }, "What became of foreign records"),
    el("p", { class: "quiet" }, "Each record that this epoch has read is in one class. The axis of shares is logarithmic: each line is ten times the one before."),
    el("div", { class: "scrolls", tabindex: 0, role: "group", "aria-labelledby": "classes" },
      el("table", { class: "classes" },
        el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "class"), el("th", { scope: "col", class: "axis" }, axis()),
          names.map((name, index) => el("th", { scope: "col", class: "number" }, swatch(index), ` ${name}`)))),
        el("tbody", {}, rows))));
}

function axis() {
  const labels = ["0.001 %", "0.01 %", "0.1 %", "1 %", "10 %", "100 %"];
  return svg("svg", { role: "img", "aria-label": "share, on a logarithmic axis" }, labels.map((text, index) =>
    svg("text", { x: `${20 * index}%`, y: 12, "text-anchor": index === 0 ? "start" : index === DECADES ? "end" : "middle" }, text)));
}

function dots(shares) {
  const lines = Array.from({ length: DECADES + 1 }, (_, index) =>
    svg("line", { x1: `${20 * index}%`, x2: `${20 * index}%`, y1: 0, y2: "100%" }));
  const marks = shares.map((share, index) => (share <= 0 ? null : svg("svg", { x: `${placeOf(share)}%`, y: `${(100 * (index + 1)) / (shares.length + 1)}%`, overflow: "visible" },
    svg("path", { class: `dot dc${index % 4}`, d: ["M-5,0a5,5 0 1,0 10,0a5,5 0 1,0 -10,0", "M0,-6L6,0L0,6L-6,0z", "M-4,-4h8v8h-8z", "M0,-6L6,5H-6z"][index % 4] }))));
  return svg("svg", { "aria-hidden": "true" }, lines, marks);
}

function deadLetters(letters, hours) {
  const total = letters.reasons.reduce((sum, one) => sum + one.count, 0);
  const links = Object.entries(HOURS).map(([name, length]) =>
    el("a", { href: `#/records?hours=${length}`, "aria-current": length === hours ? "true" : null }, name));
  const most = Math.max(1, ...letters.reasons.flatMap((one) => one.counts));
  return el("section", { "aria-labelledby": "letters" },
    el("div", { class: "range-bar" }, el("h2", { id: "letters" }, "Dead letters of the last"), el("nav", { class: "ranges", "aria-label": "Range" }, links)),
    total === 0 ? el("p", { class: "quiet" }, "None.") : el("p", { class: "quiet" },
      `Each bar is ${say.span(letters.step_seconds)}, the highest ${say.count(most)} lines; from `, say.time(letters.at_us[0]), " to now."),
    letters.reasons.map((one) => el("details", { class: "reason", "data-key": one.reason },
      el("summary", {}, el("span", { class: "why" }, one.reason), bars(one.counts, most), el("b", {}, say.count(one.count))),
      el("ul", {}, one.samples.map(sample)))));
}

function bars(counts, most) {
  const width = 100 / counts.length;
  return svg("svg", { class: "bars", "aria-hidden": "true" }, counts.map((n, index) => {
    const height = n ? Math.max(6, (100 * n) / most) : 0;
    return svg("rect", { x: `${index * width}%`, width: `${0.8 * width}%`, y: `${100 - height}%`, height: `${height}%` });
  }));
}

function sample(one) {
  return el("li", {},
    el("p", {}, el("b", {}, one.datacenter), " ", one.event_id ? eventLink(one.event_id) : "no id", " ", say.time(one.at_us),
      el("small", {}, ` ${one.file} at ${say.count(one.offset_bytes)}`)),
    el("pre", { tabindex: 0 }, one.line));
}

function waiting(groups) {
  const rows = groups.map((one) => el("tr", {},
    el("th", { scope: "row" }, one.datacenter),
    el("td", {}, one.reason, el("small", {}, one.why)),
    el("td", { class: "number" }, say.count(one.count)),
    el("td", {}, say.time(one.oldest_first_seen_us)),
    el("td", {}, say.time(one.next_due_us)),
    el("td", { class: "ids" }, one.samples.map((id) => [eventLink(id), " "]))));
  return listed("waits", "What waits", ["datacenter", "why", "records", "since", "due", "some of them"], rows);
}

function conflicting(found) {
  const rows = found.map((one) => el("tr", {},
    el("th", { scope: "row" }, one.datacenter), el("td", { class: "ids" }, eventLink(one.event_id)),
    el("td", {}, say.time(one.at_us)), el("td", {}, one.says)));
  return listed("conflicts", "Conflicting records: another one's id, and other content", ["datacenter", "event", "time", "what differs"], rows);
}

function listed(id, title, heads, rows) {
  return el("section", { "aria-labelledby": id }, el("h2", { id }, title),
    rows.length === 0 ? el("p", { class: "quiet" }, "None.") : el("div", { class: "scrolls", tabindex: 0, role: "group", "aria-labelledby": id },
      el("table", { class: "listed" },
        el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))), el("tbody", {}, rows))));
}
