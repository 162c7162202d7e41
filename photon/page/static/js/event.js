// The view An event: its story over the datacenters and the registry, side by side.

import { el } from "./dom.js";
import * as say from "./format.js";
import { remedy } from "./now.js";
import { eventLink } from "./records.js";

const HINT = "Where is it, and why? All tables, waiting lists, logs and the registry are asked for its story.";
const ID = { id: "id", name: "id", type: "search", required: true, maxlength: 4096 };

export function eventView({ event, records, problems, query }) {
  const id = query.get("id") ?? "";
  const told = id === "" ? [el("p", { class: "quiet" }, HINT), offered(records)] : answer(event, problems.event);
  return [search(id), told].flat(Infinity).filter(Boolean);
}

function search(id) {
  return el("form", { role: "search", class: "search", "data-key": "search" },
    el("label", { for: "id" }, "The foreign event's id"),
    el("input", { ...ID, value: id, autocomplete: "off", spellcheck: "false" }),
    el("button", {}, "Look"));
}

/** One event of each kind, for who knows no id yet. */
function offered(records) {
  if (!records) return null;
  const letters = records.dead_letters.reasons.flatMap((one) => one.samples).filter((one) => one.event_id);
  const waiting = records.waiting.find((one) => one.samples.length);
  const some = [
    ["the latest that joined", records.joined[0]?.event_id],
    ["one that waits", waiting?.samples[0]],
    ["a dead letter", letters[0]?.event_id],
  ].filter(([, id]) => id);
  return some.length === 0 ? null : el("ul", { class: "offered", "aria-label": "Some events" }, some.map(([what, id]) =>
    el("li", {}, `${what}: `, eventLink(id))));
}

function answer(event, problem) {
  if (problem) {
    const told = el("p", { class: "problem", role: "status" }, problem.message);
    return [told, problem.whatToDo ? remedy(problem.whatToDo) : null];
  }
  if (!event) return el("p", { class: "quiet", role: "status" }, "Asking tables, waiting lists, logs and the registry");
  return [
    el("h2", { class: "story", "aria-live": "polite" }, event.says),
    event.what_to_do ? remedy(event.what_to_do, event.commands) : null,
    event.problems.map((one) => el("p", { class: "problem" }, one)),
    timeline(event.lanes),
  ];
}

/** All moments in the order of time; at the end those of which nobody knows when they were. */
function momentsOf(lanes) {
  const moments = lanes.flatMap((lane, index) => lane.moments.map((one) => ({ ...one, lane: lane.name, index })));
  const orderOf = (one) => one.at_us ?? Number.MAX_SAFE_INTEGER;
  return moments.sort((a, b) => orderOf(a) - orderOf(b));
}

const placeOf = (lane, index) => `lane-${index} ${lane === "registry" ? "muted" : `dc${index % 4}`}`;

function timeline(lanes) {
  const moments = momentsOf(lanes);
  if (moments.length === 0) return null;
  let beforeUs = null;
  const items = moments.map((one) => {
    const isSince = one.at_us !== null && beforeUs !== null;
    const since = isSince ? el("small", {}, ` + ${say.span((one.at_us - beforeUs) / 1e6)}`) : null;
    beforeUs = one.at_us ?? beforeUs;
    return el("li", { class: placeOf(one.lane, one.index) },
      el("p", { class: "when" }, one.at_us === null ? "time not known" : say.exactTime(one.at_us), since),
      el("div", { class: "moment" },
        el("span", { class: "lane-name" }, one.lane), el("b", {}, one.kind), el("p", {}, one.says)));
  });
  const heads = lanes.map(({ name }, index) => el("p", { class: placeOf(name, index) }, name));
  return el("section", { class: `timeline lanes-${lanes.length}`, "aria-label": "Timeline" },
    el("div", { class: "lane-heads", "aria-hidden": "true" }, heads),
    el("ol", {}, items));
}
