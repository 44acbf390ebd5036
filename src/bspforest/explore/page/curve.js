// The learning curve: the running honest error of both forests. A gap is where a forest was not shown.

function drawCurve(canvas, panels, arrived, stream) {
  const context = prepare(canvas);
  const errors = panels.flatMap((panel) => panel.curve.slice(Math.min(10, panel.curve.length >> 1)).map((point) => point[1]));
  const top = 1.08 * Math.max(...errors, stream.classes.length ? 0.05 : 1e-12);
  const last = Math.max(arrived, 20);
  const format = stream.classes.length ? (tick) => `${formatNumber(100 * tick)} %` : formatNumber;
  const ticks = errors.length ? makeTicks(0, top, 3, format) : [[0, format(0)]];
  const left = Math.max(46, 10 + measureTicks(context, ticks));
  const area = { x: left, y: 8, width: canvas.clientWidth - left - 12, height: canvas.clientHeight - 8 - 22 };
  const toX = (n) => area.x + (n / last) * area.width;
  const toY = (error) => area.y + (1 - Math.min(error / top, 1)) * area.height;
  context.font = FONT;
  context.lineWidth = 1;
  for (const [tick, text] of ticks) {
    context.strokeStyle = getInk("line");
    context.beginPath();
    context.moveTo(area.x, Math.round(toY(tick)) + 0.5);
    context.lineTo(area.x + area.width, Math.round(toY(tick)) + 0.5);
    context.stroke();
    context.fillStyle = getInk("soft");
    [context.textAlign, context.textBaseline] = ["right", "middle"];
    context.fillText(text, area.x - 6, toY(tick));
  }
  [context.textAlign, context.textBaseline] = ["center", "top"];
  for (const [tick, text] of makeTicks(0, last, area.width / 110)) {
    context.fillText(tick ? text : "0 rows", Math.max(toX(tick), area.x + 12), area.y + area.height + 6);
  }
  panels.forEach((panel, k) => {
    const points = panel.curve, gap = points.length > 1 ? 3 * ((points.at(-1)[0] - points[0][0]) / points.length) + 1 : 1;
    context.strokeStyle = getInk(k ? "right" : "left");
    context.setLineDash(k ? [6, 4] : []);
    context.lineWidth = 2;
    context.beginPath();
    points.forEach(([n, error], i) => {
      const isApart = i === 0 || n - points[i - 1][0] > gap;
      context[isApart ? "moveTo" : "lineTo"](toX(n), toY(error));
    });
    context.stroke();
    context.setLineDash([]);
  });
}

function describeCurve(panels, stream) {
  const parts = panels.map((panel) => `${CHOICES.models[panel.model]}: ${formatError(panel.error, stream)}`);
  return `Honest ${errorName(stream)} over the latest ${CHOICES.error_rows} rows. ${parts.join("; ")}.`;
}

const errorName = (stream) => (stream.classes.length ? "error rate" : "RMSE");
const formatError = (error, stream) =>
  error === null ? "–" : stream.classes.length ? `${formatNumber(100 * error)} %` : formatNumber(error);
