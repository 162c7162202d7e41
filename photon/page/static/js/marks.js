// What happened, as it is drawn and told: a shape for each kind, the colour of its datacenter.

export const KINDS = {
  killed: { glyph: "✕", words: "killed" },
  hold: { glyph: "‖", words: "on hold", hatch: "lines" },
  resume: { glyph: "▸", words: "resumed" },
  waits: { glyph: "…", words: "waits", hatch: "dots" },
  "new epoch": { glyph: "◆", words: "new epoch" },
  "passed over": { glyph: "↷", words: "passed over" },
  retired: { glyph: "■", words: "retired" },
  rebuild: { glyph: "↻", words: "rebuild" },
  reshard: { glyph: "⇄", words: "reshard" },
  refill: { glyph: "⤓", words: "refill" },
  recovered: { glyph: "✚", words: "recovery ordered" },
  verification: { glyph: "!", words: "breaks a promise" },
  release: { glyph: "▴", words: "release" },
};

export const kindOf = (mark) => KINDS[mark.kind] ?? { glyph: "•", words: mark.kind };

/** The marks, a hold with its end: when the datacenter ran again, or the newest time. */
export function withEnds(marks, toUs) {
  const endOf = (hold) =>
    marks.find((one) => one.kind === "resume" && one.datacenter === hold.datacenter && one.at_us >= hold.at_us);
  return marks.map((one) => (one.kind === "hold" ? { ...one, until_us: endOf(one)?.at_us ?? toUs } : one));
}

/** The marks at a time, or within so many seconds of it. */
export function marksAt(marks, atUs, withinSeconds) {
  const within = 1e6 * withinSeconds;
  return marks.filter((one) => one.at_us - within <= atUs && atUs <= (one.until_us ?? one.at_us) + within);
}

/** Draw the spans of marks below the curves, and their lines and shapes above them. */
export function marksPlugin(current) {
  return { hooks: { drawClear: (plot) => drawSpans(plot, current()), draw: (plot) => drawShapes(plot, current()) } };
}

const xOf = (plot, us) => plot.valToPos(us / 1e6, "x", true);

function drawSpans(plot, { marks, colourOf }) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  for (const mark of marks.filter((one) => one.until_us)) {
    const left = xOf(plot, mark.at_us);
    const width = Math.max(2, xOf(plot, mark.until_us) - left);
    const colour = colourOf(mark.datacenter);
    ctx.globalAlpha = 0.1;
    ctx.fillStyle = colour;
    ctx.fillRect(left, bbox.top, width, bbox.height);
    const hatch = kindOf(mark).hatch;
    if (!hatch) continue;
    ctx.globalAlpha = 0.35;
    ctx.fillStyle = ctx.createPattern(tile(hatch, colour), "repeat");
    ctx.fillRect(left, bbox.top, width, bbox.height);
  }
  ctx.restore();
}

function drawShapes(plot, { marks, colourOf }) {
  const { ctx, bbox } = plot;
  const unit = devicePixelRatio;
  ctx.save();
  ctx.textAlign = "center";
  ctx.textBaseline = "bottom";
  ctx.font = `bold ${12 * unit}px system-ui, sans-serif`;
  ctx.lineWidth = 1.5 * unit;
  for (const mark of marks) {
    const x = Math.round(xOf(plot, mark.at_us));
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.strokeStyle = ctx.fillStyle = colourOf(mark.datacenter);
    const isRelease = mark.kind === "release"; // there are many, so that lines would hide the curves
    ctx.beginPath();
    ctx.setLineDash(mark.until_us ? [2 * unit, 3 * unit] : []);
    ctx.moveTo(x, isRelease ? bbox.top + bbox.height - 6 * unit : bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    if (!isRelease) ctx.fillText(kindOf(mark).glyph, x, bbox.top);
  }
  ctx.restore();
}

function tile(hatch, colour) {
  const size = 8 * Math.ceil(devicePixelRatio);
  const canvas = Object.assign(document.createElement("canvas"), { width: size, height: size });
  const ctx = canvas.getContext("2d");
  ctx.strokeStyle = ctx.fillStyle = colour;
  ctx.lineWidth = size / 8;
  if (hatch === "lines") {
    for (const shift of [-size, 0, size]) {
      ctx.moveTo(shift, size);
      ctx.lineTo(shift + size, 0);
    }
    ctx.stroke();
  } else {
    ctx.fillRect(0, 0, size / 4, size / 4);
    ctx.fillRect(size / 2, size / 2, size / 4, size / 4);
  }
  return canvas;
}
