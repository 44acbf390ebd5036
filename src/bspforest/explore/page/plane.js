// A plane: the surface or the cells of a forest, cuts, rows, and the crosshair.

const EDGE = { left: 44, right: 8, top: 8, bottom: 36 };
const FONT = "12px system-ui, sans-serif";
const NAME = 18; // pixels for the name of the vertical axis

class Plane {
  constructor(canvas) {
    this.canvas = canvas;
    this.image = document.createElement("canvas");
    this.image.width = this.image.height = CHOICES.grid;
    this.seen = new Set();
    this.fresh = new Set();
    this.hovered = -1;
    this.radius = 5;
    this.measure();
  }

  // Take over a new picture. Cuts that were not there before are fresh, unless all trees were built anew.
  update(panel, stream, view) {
    const key = `${panel.model} ${stream.name} ${view.tree} ${view.budget}`;
    const cuts = (panel.cuts || []).map(String);
    const fresh = cuts.filter((cut) => !this.seen.has(cut));
    this.fresh = new Set(key === this.key && fresh.length <= Math.max(8, cuts.length / 5) ? fresh : []);
    [this.key, this.seen] = [key, new Set(cuts)];
    [this.panel, this.stream, this.view] = [panel, stream, { ...view }];
    this.paint();
  }

  // Paint the surface, one pixel per place of the grid.
  paint() {
    const { panel, stream, view } = this;
    if (!panel || !panel.surface) return;
    const values = new Float64Array(decode(panel.surface.values).buffer);
    const best = panel.surface.best ? decode(panel.surface.best) : [];
    const context = this.image.getContext("2d");
    const pixels = context.createImageData(CHOICES.grid, CHOICES.grid);
    values.forEach((value, k) => pixels.data.set([...colourValue(value, best[k], stream, view.shows), 255], 4 * k));
    context.putImageData(pixels, 0, 0);
  }

  // Find where the plane lies on the canvas: beside the numbers on its vertical axis, whatever their length.
  measure() {
    const { clientWidth, clientHeight } = this.canvas, height = clientHeight - EDGE.top - EDGE.bottom;
    const [low, high] = this.stream ? this.stream.limits : [[0, 0], [1, 1]];
    const context = this.canvas.getContext("2d");
    const ticksY = makeTicks(low[1], high[1], height / 60);
    const left = Math.max(EDGE.left, NAME + 5 + measureTicks(context, ticksY));
    const width = clientWidth - left - EDGE.right;
    this.area = { x: left, y: EDGE.top, width, height };
    let ticksX = makeTicks(low[0], high[0], width / 90);
    const longest = measureTicks(context, ticksX);
    if (ticksX.length * (longest + 12) > width) ticksX = makeTicks(low[0], high[0], width / (1.5 * longest));
    this.ticks = [ticksX, ticksY];
  }

  toPixels(x, y) {
    const [low, high] = this.stream.limits, area = this.area;
    return [area.x + ((x - low[0]) / (high[0] - low[0])) * area.width, area.y + ((high[1] - y) / (high[1] - low[1])) * area.height];
  }

  // Return the place of pixels, or null outside the plane.
  toPlace(px, py) {
    const [low, high] = this.stream.limits, area = this.area;
    const u = (px - area.x) / area.width, v = (area.y + area.height - py) / area.height;
    if (u < 0 || u > 1 || v < 0 || v > 1) return null;
    return [low[0] + u * (high[0] - low[0]), low[1] + v * (high[1] - low[1])];
  }

  // Return the index of the row nearest to pixels, and its distance in pixels.
  findNearest(rows, px, py) {
    let best = -1, least = Infinity;
    for (let k = 0; k < rows.ids.length; k++) {
      const [x, y] = this.toPixels(rows.x[k], rows.y[k]);
      const distance = Math.hypot(x - px, y - py);
      if (distance < least) [best, least] = [k, distance];
    }
    return [best, least];
  }

  // Return the index of the row under a pointer, or -1. Fingers are less exact.
  findRow(rows, event) {
    const [k, distance] = this.findNearest(rows, event.offsetX, event.offsetY);
    return distance <= this.radius + (event.pointerType === "touch" ? 8 : 3) ? k : -1;
  }

  draw(rows, newest) {
    if (!this.stream) return;
    this.measure();
    const context = prepare(this.canvas), area = this.area;
    context.save();
    context.beginPath();
    context.rect(area.x, area.y, area.width, area.height);
    context.clip();
    if (this.panel.cells) this.drawCells(context);
    else if (this.panel.surface) {
      context.imageSmoothingQuality = "high";
      context.drawImage(this.image, area.x, area.y, area.width, area.height);
    }
    this.drawCuts(context);
    this.drawRows(context, rows, newest);
    this.drawCrosshair(context);
    context.restore();
    this.drawAxes(context);
    if (!rows.ids.length) this.drawHint(context);
  }

  drawHint(context) {
    [context.textAlign, context.textBaseline] = ["center", "middle"];
    [context.fillStyle, context.font] = [getInk("soft"), "15px system-ui, sans-serif"];
    context.fillText("Press Play, or click to add a row", this.area.x + this.area.width / 2, this.area.y + this.area.height / 2);
  }

  drawCells(context) {
    const { polygons, values, best } = this.panel.cells;
    context.lineWidth = 0.7;
    polygons.forEach((polygon, c) => {
      context.beginPath();
      for (let k = 0; k < polygon.length; k += 2) context.lineTo(...this.toPixels(polygon[k], polygon[k + 1]));
      context.closePath();
      context.fillStyle = context.strokeStyle = toStyle(colourValue(values[c], best && best[c], this.stream, this.view.shows));
      context.fill();
      context.stroke();
    });
  }

  // Early cuts are thick, late ones thin and faint.
  drawCuts(context) {
    const cuts = this.panel.cuts || [];
    if (!cuts.length) return;
    const times = cuts.map((cut) => Math.log(cut[4]));
    const first = Math.min(...times), span = Math.max(...times) - first || 1;
    const isDark = getTheme() === "dark" && (this.view.shows === "uncertainty" || this.stream.classes.length > 0);
    const strength = this.view.is_tree ? 0.95 : isDark ? 0.4 : 0.6;
    const ink = isDark ? [240, 244, 248] : [16, 24, 32];
    cuts.forEach(([x1, y1, x2, y2], k) => {
      const late = (times[k] - first) / span, isFresh = this.fresh.has(String(cuts[k]));
      context.beginPath();
      context.moveTo(...this.toPixels(x1, y1));
      context.lineTo(...this.toPixels(x2, y2));
      context.lineWidth = isFresh ? 2.6 : 2.2 - 1.6 * late;
      context.strokeStyle = isFresh ? "#ff7a1a" : toStyle(ink, strength * (0.95 - 0.7 * late));
      context.stroke();
    });
  }

  drawRows(context, rows, newest) {
    const radius = (this.radius = Math.max(2.2, Math.min(5, 76 / Math.sqrt(rows.ids.length + 60))));
    // Rows lie on pale ground in some pictures, and on full colours in others.
    const isPale = getTheme() === "light" && (this.view.shows === "uncertainty" || this.stream.classes.length > 0);
    context.strokeStyle = isPale ? "rgba(20,28,36,0.75)" : "rgba(255,255,255,0.9)";
    for (let k = 0; k < rows.ids.length; k++) {
      const [x, y] = this.toPixels(rows.x[k], rows.y[k]);
      const isNew = rows.ids[k] >= newest;
      tracePoint(context, x, y, isNew ? radius + 1.5 : radius, rows.label[k], this.stream);
      context.fillStyle = toStyle(colourLabel(rows.label[k], this.stream));
      context.fill();
      context.lineWidth = isNew ? 2.4 : 1;
      context.stroke();
    }
    if (this.hovered >= 0 && this.hovered < rows.ids.length) {
      const [x, y] = this.toPixels(rows.x[this.hovered], rows.y[this.hovered]);
      context.beginPath();
      context.arc(x, y, radius + 5, 0, 2 * Math.PI);
      for (const [width, colour] of [[4, "rgba(255,255,255,0.95)"], [2, "#c2410c"]]) {
        [context.lineWidth, context.strokeStyle] = [width, colour];
        context.stroke();
      }
    }
  }

  drawCrosshair(context) {
    if (!this.view.place) return;
    const [x, y] = this.toPixels(...this.view.place);
    for (const [width, colour] of [[4, "rgba(255,255,255,0.9)"], [1.6, "#12202c"]]) {
      context.beginPath();
      for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
        context.moveTo(x + 4 * dx, y + 4 * dy);
        context.lineTo(x + 16 * dx, y + 16 * dy);
      }
      [context.lineWidth, context.strokeStyle] = [width, colour];
      context.stroke();
    }
  }

  // Return the middle of a number on the horizontal axis, such that the last one ends on the canvas.
  placeTick(context, tick, text) {
    const most = this.canvas.clientWidth - context.measureText(text).width / 2 - 1;
    return Math.min(this.toPixels(tick, this.stream.limits[0][1])[0], most);
  }

  drawAxes(context) {
    const area = this.area, [low] = this.stream.limits, [nameX, nameY] = this.stream.features, [ticksX, ticksY] = this.ticks;
    context.strokeStyle = getInk("line");
    context.lineWidth = 1;
    context.strokeRect(area.x + 0.5, area.y + 0.5, area.width - 1, area.height - 1);
    context.fillStyle = getInk("soft");
    context.font = FONT;
    [context.textAlign, context.textBaseline] = ["center", "top"];
    for (const [tick, text] of ticksX) context.fillText(text, this.placeTick(context, tick, text), area.y + area.height + 5);
    context.fillText(nameX, area.x + area.width / 2, area.y + area.height + 20, area.width);
    [context.textAlign, context.textBaseline] = ["right", "middle"];
    for (const [tick, text] of ticksY) context.fillText(text, area.x - 5, this.toPixels(low[0], tick)[1]);
    context.save();
    context.translate(9, area.y + area.height / 2);
    context.rotate(-Math.PI / 2);
    [context.textAlign, context.textBaseline] = ["center", "middle"];
    context.fillText(nameY, 0, 0, area.height);
    context.restore();
  }
}

const decode = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

// Return round numbers between two ends, about n of them, with their texts: as many digits as tell them apart.
function makeTicks(low, high, n, format = formatNumber) {
  const rough = (high - low) / Math.max(n, 2), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * power).find((size) => size >= rough) || 10 * power;
  const first = Math.ceil(low / step), count = Math.floor(high / step) - first;
  const size = Math.max(Math.abs(low), Math.abs(high));
  const digits = Math.min(15, Math.max(3, Math.ceil(Math.log10(size / step)) + 1));
  const ticks = new Map(); // far from 0, neighbours can be one number
  for (let k = 0; k <= Math.min(count, 100); k++) {
    const tick = Number(((first + k) * step).toPrecision(15));
    ticks.set(tick, format(tick, digits));
  }
  return [...ticks];
}

function measureTicks(context, ticks) {
  context.font = FONT;
  return Math.max(0, ...ticks.map(([, text]) => context.measureText(text).width));
}

// Return the context of a cleared canvas whose units are CSS pixels.
function prepare(canvas) {
  const ratio = window.devicePixelRatio || 1, { clientWidth: width, clientHeight: height } = canvas;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}
