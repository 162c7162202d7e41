// The view An event: its story over the datacenters and the registry, side by side.

import { el } from "./dom.js";
import * as say from "./format.js";
import { remedy } from "./now.js";

export function eventView({ event, problems, query }) {
  const id = query.get("id") ?? "";
  const problem = problems.event;
  return [search(id), id === "" ? hint() : answer(event, problem)].flat(Infinity).filter(Boolean);
}

function search(id) {
  return el("form", { role: "search", class: "search", "data-key": "search" },
    el("label", { for: "id" }, "The foreign event's id"),
    el("input", { id: "id", name: "id", type: "search", value: id, required: true, autocomplete: "off", spellcheck: "false", maxlength: 4096 }),
    el("button", {}, "Look"));
}

const hint = () =>
  el("p", { class: "quiet" }, "Where is it, and why? All tables, waiting lists, logs and the registry are asked for its story.");

function answer(event, problem) {
  if (problem) return [el("p", { class: "problem", role: "status" }, problem.message), problem.whatToDo ? remedy(problem.whatToDo) : null];
  if (!event) return el("p", { class: "quiet", role: "status" }, "Asking tables, waiting lists, logs and the registry");
  return [
    el("h2", { class: "story", "aria-live": "polite" }, event.says),
    event.what_to_do ? remedy(event.what_to_do) : null,
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

const colourOf = (lane, index) => (lane === "registry" ? "muted" : `dc${index % 4}`);

function timeline(lanes) {
  const moments = momentsOf(lanes);
  if (moments.length === 0) return null;
  let beforeUs = null;
  const items = moments.map((one) => {
    const since = one.at_us !== null && beforeUs !== null && `+ ${say.span((one.at_us - beforeUs) / 1e6)}`;
    beforeUs = one.at_us ?? beforeUs;
    return el("li", { class: `lane-${one.index} ${colourOf(one.lane, one.index)}` },
      el("p", { class: "when" }, one.at_us === null ? "time not known" : say.exactTime(one.at_us), since ? el("small", {}, ` ${since}`) : null),
      el("div", { class: "moment" }, el("span", { class: "lane-name" }, one.lane), el("b", {}, one.kind), el("p", {}, one.says)));
  });
  const heads = lanes.map((lane, index) => el("p", { class: `lane-${index} ${colourOf(lane.name, index)}` }, lane.name));
  return el("section", { class: `timeline lanes-${lanes.length}`, "aria-label": "Timeline" },
    el("div", { class: "lane-heads", "aria-hidden": "true" }, heads), el("ol", {}, items));
}
