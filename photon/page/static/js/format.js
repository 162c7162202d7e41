// Numbers with their units and times in two zones. What nobody knows is a dash.

import { el } from "./dom.js";

export const UNKNOWN = "–";
const BYTES = ["B", "KiB", "MiB", "GiB", "TiB"];
const SPANS = [[86_400, "d"], [3_600, "h"], [60, "min"]];
const MICROSECONDS = 1e6;

const known = (said) => (value) => (value === null || value === undefined ? UNKNOWN : said(value));

/** A number with as many digits as say something: 1,250; 12.3; 0.042. */
function digits(value) {
  const size = Math.abs(value);
  if (size < 1) return value.toLocaleString("en", { maximumSignificantDigits: 2 });
  return value.toLocaleString("en", { maximumFractionDigits: size >= 100 ? 0 : size >= 10 ? 1 : 2 });
}

export const count = known((n) => Math.round(n).toLocaleString("en"));
export const counted = (n, thing) => `${count(n)} ${thing}${n === 1 ? "" : "s"}`;
export const records = known((n) => counted(n, "record"));
export const rows = known((n) => `${digits(n)} rows/s`);
export const requests = known((n) => `${digits(n)} requests/s`);
export const percent = known((share) => `${digits(100 * share)} %`);

/** A length of time: 420 ms, 3.2 s, 5 min 20 s, 3 h 5 min. */
export const span = known((seconds) => {
  if (seconds < 0) return `-${span(-seconds)}`;
  if (seconds < 1 && seconds > 0) return `${digits(1_000 * seconds)} ms`;
  const found = SPANS.findIndex(([unit]) => seconds >= unit);
  if (found < 0) return `${digits(seconds)} s`;
  const [unit, name] = SPANS[found];
  const [lesser, its] = SPANS[found + 1] ?? [1, "s"];
  const whole = Math.floor(seconds / unit);
  const rest = Math.floor((seconds - whole * unit) / lesser);
  return rest ? `${whole} ${name} ${rest} ${its}` : `${whole} ${name}`;
});

export const bytes = known((n) => {
  const power = n < 1 ? 0 : Math.min(BYTES.length - 1, Math.floor(Math.log2(n) / 10));
  return `${digits(n / 1024 ** power)} ${BYTES[power]}`;
});

const format = (options, zone) =>
  new Intl.DateTimeFormat("en-GB", { hourCycle: "h23", timeZone: zone, ...options });
const CLOCK = { hour: "2-digit", minute: "2-digit", second: "2-digit" };
const DAY = { day: "numeric", month: "short" };
const zone = (name) => ({
  clock: format(CLOCK, name),
  exact: format({ ...CLOCK, fractionalSecondDigits: 3 }, name),
  day: format(DAY, name),
});
const HERE = zone();
const UTC = zone("UTC");

/** Whether the reader's clock shows UTC at that time. */
const isUtc = (date) => date.getTimezoneOffset() === 0;

/** A time for people: [reader's, UTC]; one of them where both are the same. The day is told unless it is today. */
function zones(us, clock = "clock") {
  const date = new Date(us / 1_000);
  const today = new Date();
  const told = [isUtc(date) ? null : HERE, UTC].filter(Boolean).map((zone) => {
    const day = zone.day.format(date);
    return `${day === zone.day.format(today) ? "" : `${day} `}${zone[clock].format(date)}`;
  });
  told[told.length - 1] += " UTC";
  return told;
}

/** A time as text: 14:32:10 (12:32:10 UTC). */
export const timeText = known((us) => {
  const [first, utc] = zones(us);
  return utc ? `${first} (${utc})` : first;
});

/** The same as an element, with UTC set apart. */
export const time = known((us) => element(us, "clock"));

/** The same with milliseconds. */
export const exactTime = known((us) => element(us, "exact"));

function element(us, clock) {
  const [first, utc] = zones(us, clock);
  const beside = utc ? el("span", { class: "utc" }, ` ${utc}`) : null;
  return el("time", { datetime: new Date(us / 1_000).toISOString() }, first, beside);
}

/** How long ago a time is, by the server's clock; nothing where nobody knows it. */
export const ago = (us, nowUs) => (us ? `${span(Math.max(0, (nowUs - us) / MICROSECONDS))} ago` : "");

/** Labels of a time axis: the reader's clock, and UTC below it. */
export function axisTimes(seconds, step) {
  const options = step >= 86_400 ? DAY : step >= 60 ? { hour: "2-digit", minute: "2-digit" } : CLOCK;
  const here = format(options);
  const utc = format(options, "UTC");
  return seconds.map((one) => {
    const date = new Date(one * 1_000);
    return isUtc(date) || step >= 86_400 ? here.format(date) : `${here.format(date)}\n${utc.format(date)} UTC`;
  });
}
