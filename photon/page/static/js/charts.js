// Curves over time: one quantity a chart, all on one time axis with one crosshair. A colour and a dash is a
// datacenter. The table above each chart tells its numbers at the crosshair, or the latest.

import { el, morphChildren, readable, svg, unseen } from "./dom.js";
import * as say from "./format.js";
import { kindOf, marksAt, marksPlugin } from "./marks.js";

const HEIGHT = 150;
const NEWEST = 3; // steps: a number that is older is not the latest
const DECADES = [0.001, 0.01, 0.1, 1, 10, 60, 600, 3_600, 36_000, 259_200, 2_592_000, 31_536_000]; // in seconds
const DASHES = [[], [7, 4], [2, 3], [10, 3, 2, 3]]; // as in the swatches of page.css
const POWERS_OF_TWO = Array.from({ length: 50 }, (_, power) => 2 ** power);

const CHARTS = [
  { key: "rows", title: "Rows joined", says: say.rows, series: { joined_per_second: "rows" } },
  {
    key: "delay",
    title: "Delay, from log to row",
    says: say.span,
    isLogarithmic: true,
    series: { p50_seconds: "p50", p90_seconds: "p90", p99_seconds: "p99" },
  },
  { key: "lag", title: "Lag behind the logs", says: say.span, isLogarithmic: true, series: { lag_seconds: "lag" } },
  {
    key: "complete",
    title: "Complete up to, behind now",
    says: say.span,
    isLogarithmic: true,
    series: { complete_lag_seconds: "ago" },
  },
  { key: "unread", title: "Unread logs", says: say.bytes, incrs: POWERS_OF_TWO, series: { unread_bytes: "unread" } },
  { key: "pending", title: "Records that wait", says: say.count, series: { pending: "records" } },
  {
    key: "requests",
    title: "Requests to the registry",
    says: say.requests,
    series: { registry_requests_per_second: "requests" },
  },
  {
    key: "trip",
    title: "Round trip to the registry",
    says: say.span,
    isLogarithmic: true,
    series: { registry_seconds_each: "a request" },
  },
];

const plots = new Map(); // by key of chart
let shown = null; // what is drawn now: the history, its times in seconds, and values by datacenter and series
let pointed = null; // index of the time at the crosshair; null: the latest
let frame = 0;

/** The line that is a datacenter's in charts. */
export const swatch = (index) =>
  svg(
    "svg",
    { class: `swatch dc${index % 4}`, viewBox: "0 0 26 8", "aria-hidden": "true" },
    svg("line", { x1: 0, y1: 4, x2: 26, y2: 4 }),
  );

/** The elements of all charts; `drawCharts` fills them. */
export function chartFigures() {
  return CHARTS.map((chart) =>
    el(
      "figure",
      { class: "chart", "data-key": chart.key },
      el("figcaption", {}, el("h3", {}, chart.title), el("div", { "data-own": "", class: "readout" })),
      el("div", { "data-own": "", "data-chart": chart.key, class: "plot", "aria-hidden": "true" }),
    ),
  );
}

/** Draw a history into the figures of the page, with the numbers of now at its end. */
export function drawCharts(history, names, now) {
  const theme = matchMedia("(prefers-color-scheme: dark)").matches;
  const isSameKind = shown && shown.theme === theme && shown.names.join("\n") === names.join("\n");
  const tables = names.map((name) => withNow(history.datacenters[name], now, name));
  const times = [...new Set(tables.flatMap((one) => one.at_us))].sort((a, b) => a - b);
  const places = new Map(times.map((us, index) => [us, index]));
  const fromUs = beginOf(history, tables);
  shown = { history, names, tables, times, places, theme, fromUs };
  for (const chart of CHARTS) {
    const holder = document.querySelector(`[data-chart="${chart.key}"]`);
    const kept = plots.get(chart.key);
    if (kept && kept.root.parentNode === holder && isSameKind) {
      kept.setData(dataOf(chart));
      continue;
    }
    kept?.destroy();
    plots.set(chart.key, new uPlot(optionsOf(chart, holder.clientWidth), dataOf(chart), holder));
    sizes.observe(holder);
  }
  readOut();
}

/** A history that ends with the gauges of the card, so that both tell of one look. */
function withNow(table, now, name) {
  const last = table.activity.findLastIndex((state) => state !== null);
  const numbers = now.datacenters.find((one) => one.name === name)?.numbers;
  if (!numbers || last < Math.max(0, table.at_us.length - NEWEST)) return table;
  const { complete_up_to_us: completeUs, lag_seconds, unread_bytes, waiting: pending } = numbers;
  const complete_lag_seconds = completeUs && (now.now_us - completeUs) / 1e6;
  const gauges = Object.entries({ lag_seconds, complete_lag_seconds, unread_bytes, pending });
  const known = gauges.filter(([, value]) => Number.isFinite(value));
  return { ...table, ...Object.fromEntries(known.map(([key, value]) => [key, table[key].with(last, value)])) };
}

/** Forget the charts of a view that is left. */
export function dropCharts() {
  plots.forEach((plot) => plot.destroy());
  plots.clear();
  sizes.disconnect();
  shown = pointed = null;
}

/** Move the crosshair to a time, by its index; the last one follows what is new. */
export function pointAt(index) {
  for (const plot of plots.values()) {
    plot.setCursor({ left: plot.valToPos(shown.times[index] / 1e6, "x"), top: 0 }, false);
  }
  pointed = index < shown.times.length - 1 ? index : null;
  readOut();
}

const sizes = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) {
    const plot = plots.get(target.dataset.chart);
    if (plot && contentRect.width && plot.width !== contentRect.width) {
      plot.setSize({ width: contentRect.width, height: HEIGHT });
    }
  }
});

/** When the curves begin: with the range, or later with the first that anybody knows of it. */
function beginOf(history, tables) {
  const first = tables.map((one) => one.at_us[one.activity.findIndex((state) => state !== null)]);
  const known = [...first, ...history.marks.map((one) => one.at_us)].filter((us) => us !== undefined);
  return Math.max(history.from_us, Math.min(history.to_us - 60e6, ...known) - 1e6 * history.step_seconds);
}

/** The values of a series on the common times. */
function valuesOf(table, name) {
  const values = new Array(shown.times.length).fill(null);
  table.at_us.forEach((us, index) => {
    values[shown.places.get(us)] = table[name][index];
  });
  return values;
}

function dataOf(chart) {
  const floor = (value) => (value === null || !chart.isLogarithmic ? value : Math.max(value, DECADES[0]));
  const series = shown.tables.flatMap((table) =>
    Object.keys(chart.series).map((name) => valuesOf(table, name).map(floor)),
  );
  return [shown.times.map((us) => us / 1e6), ...series];
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const colourOf = (datacenter) => {
  const index = shown.names.indexOf(datacenter);
  return colour(index < 0 ? "ink" : `dc${index % 4}`);
};

function optionsOf(chart, width) {
  const names = Object.keys(chart.series);
  const lines = shown.names.flatMap((_, index) =>
    names.map((_, nth) => ({
      stroke: colour(`dc${index % 4}`),
      width: nth === 0 ? 2 : 1,
      dash: DASHES[index % 4],
      points: { show: true, filter: lonely, size: 4 },
    })),
  );
  const bands = names.length === 1 ? [] : shown.names.map((_, index) => {
    const first = 1 + index * names.length;
    return { series: [first + names.length - 1, first], fill: `${colour(`dc${index % 4}`)}22` };
  });
  const axis = { stroke: colour("muted"), grid: { stroke: colour("grid"), width: 1 }, ticks: { show: false } };
  const font = "11px system-ui, sans-serif";
  return {
    width,
    height: HEIGHT,
    padding: [16, 24, 0, 0],
    legend: { show: false },
    series: [{}, ...lines],
    bands,
    scales: { x: { range: () => [shown.fromUs / 1e6, shown.history.to_us / 1e6] }, y: scaleOf(chart) },
    axes: [
      { ...axis, font, space: 76, size: 38, values: (_, at, __, ___, step) => say.axisTimes(at, step) },
      {
        ...axis,
        font,
        size: 54,
        space: 26,
        ...(chart.incrs && { incrs: chart.incrs }),
        ...(chart.isLogarithmic && {
          splits: (_, __, least, most) => DECADES.filter((one) => least <= one && one <= most),
          filter: (_, splits) => splits,
        }),
        values: (_, at) => at.map((one) => (one === null ? "" : chart.says(one).replace(/ (rows|requests)/, " "))),
      },
    ],
    cursor: { y: false, drag: { x: false, y: false }, sync: { key: "time" }, points: { size: 7 } },
    plugins: [marksPlugin(() => ({ marks: shown.history.marks, colourOf }))],
    hooks: { setCursor: [(plot) => pointedTo(plot.cursor.left < 0 ? null : plot.cursor.idx)] },
  };
}

function scaleOf(chart) {
  if (!chart.isLogarithmic) return { range: (_, __, most) => [0, 1.1 * (most || 1)] };
  return {
    distr: 3,
    range: (_, least, most) => [
      DECADES.findLast((one) => one < (least ?? 1)) ?? DECADES[0],
      DECADES.find((one) => one > (most ?? 1)) ?? DECADES.at(-1),
    ],
  };
}

/** The points that have no neighbour, so that no line shows them. */
function lonely(plot, index) {
  const values = plot.data[index];
  return values.flatMap((one, at) => (one !== null && values[at - 1] == null && values[at + 1] == null ? [at] : []));
}

function pointedTo(index) {
  if (pointed === index) return;
  pointed = index;
  cancelAnimationFrame(frame);
  frame = requestAnimationFrame(readOut);
}

/** The value at the crosshair, or the newest: the last step may not be over. */
function valueOf(table, name) {
  const values = valuesOf(table, name);
  return pointed === null ? (values.slice(-NEWEST).findLast((one) => one !== null) ?? null) : values[pointed];
}

function readOut() {
  if (!shown) return;
  for (const chart of CHARTS) {
    morphChildren(document.querySelector(`[data-key="${chart.key}"] .readout`), [readout(chart)]);
  }
  tellTime();
}

function readout(chart) {
  const named = Object.entries(chart.series);
  const heads = named.map(([, title]) => el("th", { scope: "col" }, title));
  const first = el("th", { scope: "col" }, unseen("datacenter"));
  const head = el("tr", { class: named.length === 1 ? "unseen" : null }, first, heads);
  const rows = shown.names.map((name, index) => {
    const table = shown.tables[index];
    const cells = named.map(([series]) => el("td", {}, chart.says(valueOf(table, series))));
    return el("tr", {}, el("th", { scope: "row" }, swatch(index), name), cells);
  });
  const when = pointed === null ? "latest" : "at the crosshair";
  const title = el("caption", { class: "unseen" }, `${chart.title}, ${when}`);
  return el("table", {}, title, el("thead", {}, head), el("tbody", {}, rows));
}

function tellTime() {
  const bar = document.getElementById("pointed");
  const slider = document.getElementById("slider");
  if (!bar || !slider) return;
  const last = shown.times.length - 1;
  const atUs = shown.times[pointed ?? last] ?? null;
  const words = `${pointed === null ? "latest, " : ""}${say.timeText(atUs)}`;
  const near = pointed === null ? [] : marksAt(shown.history.marks, atUs, shown.history.step_seconds);
  const told = near.slice(0, 3).map((one) => `${kindOf(one).glyph} ${one.datacenter ?? ""}: ${one.says}`);
  bar.textContent = readable([words, ...told].join("  ·  "));
  slider.max = Math.max(0, last);
  if (pointed === null || document.activeElement !== slider) slider.value = pointed ?? Math.max(0, last);
  slider.setAttribute("aria-valuetext", [words, ...told].join(", "));
}
