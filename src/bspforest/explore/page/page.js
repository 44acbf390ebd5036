// The page: what is shown, the controls, and requests to the server. Requests are sent one after another.

const $ = (id) => document.getElementById(id);
const SPEEDS = { "2 rows/s": [1, 500], "10 rows/s": [1, 100], "50 rows/s": [6, 120], fastest: [25, 30] }; // rows, and milliseconds between

const view = { models: ["bsp-ridge", "mondrian-mean"], shows: "prediction", tree: 0, is_tree: false, has_cuts: true, budget: 1, place: null };
const planes = [0, 1].map((k) => new Plane($(`plane-${k}`)));
let state = null;
let rows = { ids: [], x: [], y: [], label: [] };
let newest = Infinity; // rows from this number on are new
let isPlaying = false;
let runs = 0; // how often playing was begun: only the latest goes on
let isDrawing = false;
let announcePlace = false;

// ---------------------------------------------------------------------------------------------------------------------
// Requests

const jobs = [];
const wanted = { state: false, place: false };
let isBusy = false;

// Requests wait for those before them. One is dropped if ``isLate`` says that these have made it pointless.
function ask(request, content = {}, { quietly = false, isLate = () => false } = {}) {
  jobs.push({ request, content, quietly, isLate });
  work();
}

function refresh(request = "state") {
  wanted[request] = true;
  work();
}

async function work() {
  if (isBusy) return;
  isBusy = true;
  document.body.dataset.busy = "yes";
  try {
    for (;;) {
      let job = jobs.shift();
      if (!job && wanted.state) job = { request: "state", content: {} };
      if (!job && wanted.place) job = { request: "place", content: {} };
      if (!job) break;
      if (job.isLate && job.isLate()) {
        say("Too late: the rows have changed meanwhile.");
        continue;
      }
      if (job.request !== "place") wanted.state = false;
      wanted.place = false;
      await send(job);
    }
  } catch (error) {
    setPlaying(false);
    say(`The page cannot show this (a mistake in bspforest): ${error.message}`, true);
    throw error;
  } finally {
    isBusy = false;
    document.body.dataset.busy = "no";
  }
}

async function send({ request, content, quietly }) {
  let answer;
  try {
    const { revision, start } = state || { revision: null, start: null };
    const response = await fetch(`api/${request}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ ...content, view, revision, start }),
    });
    answer = await response.json();
    if (response.status === 409) wanted.state = true; // another page has started again: show what there is now
    if (!response.ok) throw new Error(answer.error);
  } catch (error) {
    setPlaying(false);
    const isGone = error instanceof TypeError;
    say(isGone ? "The server does not answer: start `bspforest explore` again." : `Refused: ${error.message}`, true);
    return;
  }
  if (request !== "place") accept(answer);
  else if (answer.start === state.start) answer.places.forEach((place, k) => (state.panels[k].place = place));
  else wanted.state = true;
  if (answer.message && !quietly) say(answer.message);
  show();
  if (request === "learn" && state.position >= state.stream.length && isPlaying) {
    setPlaying(false);
    say(`The stream has ended; ${formatNumber(state.held, 6)} rows held.`);
  }
}

function accept(answer) {
  const before = state ? state.arrived : 0;
  const isOther = !state || state.start !== answer.start;
  state = answer;
  if (answer.rows) {
    rows = answer.rows;
    newest = isOther ? Infinity : before;
    planes.forEach((plane) => (plane.hovered = -1));
  }
  if (isOther) {
    view.place = null;
    fillLabels();
  }
  planes.forEach((plane, k) => plane.update(state.panels[k], state.stream, view));
}

function say(message, isWrong = false) {
  $("status").textContent = message;
  $("status").classList.toggle("wrong", isWrong);
}

// ---------------------------------------------------------------------------------------------------------------------
// Showing

function setData(id, value, text) {
  $(id).value = value === null || value === undefined ? "" : String(value);
  $(id).textContent = text;
}

function describePlace(place) {
  if (!place) return "–";
  if (place.probabilities) {
    const top = place.probabilities[place.best];
    return `${state.stream.classes[place.best]}, ${formatNumber(100 * top)} %`;
  }
  return `${formatNumber(place.prediction)} ± ${formatNumber(place.std)}`;
}

function show() {
  if (!state) return;
  const { whole } = state.stream;
  state.panels.forEach((panel, k) => {
    setData(`held-${k}`, panel.held, formatNumber(panel.held, 6));
    setData(`leaves-${k}`, panel.leaves, formatNumber(panel.leaves));
    setData(`error-${k}`, panel.error, formatError(panel.error, state.stream));
    const place = panel.place;
    setData(`place-${k}`, place && (place.probabilities ? place.probabilities.join(" ") : `${place.prediction} ${place.std}`), describePlace(place));
    $(`place-${k}`).title = place && place.probabilities ? whole.classes[place.best] : "";
    planes[k].view = { ...view };
    planes[k].draw(rows, newest);
    planes[k].canvas.setAttribute("aria-label", `Plane of the ${CHOICES.models[panel.model]}: ${formatNumber(panel.held, 6)} rows`);
  });
  const [x, y] = view.place || [];
  const [nameX, nameY] = state.stream.features;
  const where = view.place ? `At ${nameX} = ${formatNumber(x)}, ${nameY} = ${formatNumber(y)}` : "At the crosshair";
  for (const term of document.querySelectorAll(".where")) [term.textContent, term.title] = [where, whole.features.join(", ")];
  for (const term of document.querySelectorAll(".leaves")) term.textContent = view.is_tree ? `Leaves of tree ${view.tree + 1}` : "Leaves per tree";
  for (const term of document.querySelectorAll(".error")) term.textContent = `Honest ${errorName(state.stream)}`;
  $("curve-title").textContent = `Honest ${errorName(state.stream)}: each row is predicted before it is learned; latest ${CHOICES.error_rows} rows`;
  drawCurve($("curve"), state.panels, state.arrived, state.stream);
  $("curve").setAttribute("aria-label", describeCurve(state.panels, state.stream));
  showBudget();
  $("undo").disabled = !state.can_undo;
  if (announcePlace && view.place && !wanted.place) {
    announcePlace = false;
    const [left, right] = state.panels.map((panel) => describePlace(panel.place));
    say(`${where}: left ${left}; right ${right}. ${describeNearest()}`);
  }
}

function describeNearest() {
  const [k] = planes[0].findNearest(rows, ...planes[0].toPixels(...view.place));
  return k < 0 ? "No rows." : `Nearest: ${describeRow(k).replace("R", "r")}.`;
}

function describeRow(k) {
  const { classes } = state.stream, label = rows.label[k];
  return `Row ${rows.ids[k]}, ${classes.length ? classes[label] : `label ${formatNumber(label)}`}`;
}

// Show before the next frame, once for all events until then.
function showSoon() {
  if (isDrawing) return;
  isDrawing = true;
  requestAnimationFrame(() => {
    isDrawing = false;
    show();
  });
}

function showBudget() {
  const leaves = state.panels.map((panel) => formatNumber(panel.leaves)).join(" | ");
  const text = state.time === null ? `all cuts: ${leaves} leaves` : `time ${formatNumber(state.time)}: ${leaves} leaves`;
  $("time").textContent = text;
  $("budget").setAttribute("aria-valuetext", text.replace(" | ", " on the left and on the right "));
}

// Fill the controls that depend on the stream: labels, and the legend of colours.
function fillLabels() {
  const { classes, scale, name, whole } = state.stream;
  $("label-number").hidden = classes.length > 0;
  $("label-class").hidden = !classes.length;
  fill($("class"), classes.map((label, k) => [k, label]));
  whole.classes.forEach((label, k) => ($("class").options[k].title = label));
  $("number").value = Number(((scale[0] + 3 * scale[1]) / 4).toPrecision(2));
  $("stream").value = name;
  $("window").value = String(state.window);
  fillLegend();
}

function fillLegend() {
  if (!state) return;
  const legend = $("legend"), { classes, scale, spread, target, whole } = state.stream;
  legend.replaceChildren();
  const addBar = (from, to, colour) => {
    const bar = document.createElement("canvas"), context = bar.getContext("2d");
    [bar.width, bar.height] = [220, 24];
    for (let k = 0; k < 220; k++) {
      context.fillStyle = toStyle(colour(k / 219));
      context.fillRect(k, 0, 1, 24);
    }
    legend.append(makeName(from, whole.target), bar, to);
  };
  if (view.shows === "uncertainty") {
    const ends = classes.length ? ["sure", "unsure"] : ["standard deviation 0", formatNumber(spread)];
    addBar(...ends, ramps[getTheme()]);
  } else if (!classes.length) addBar(`${target} ${formatNumber(scale[0])}`, formatNumber(scale[1]), ramps.viridis);
  if (classes.length) legend.append(...classes.map(makeChip));
}

function makeChip(label, k) {
  const chip = document.createElement("span"), mark = document.createElement("canvas"), context = mark.getContext("2d");
  mark.width = mark.height = 32;
  tracePoint(context, 16, 16, 10, k, state.stream);
  context.fillStyle = toStyle(classColour(k));
  context.fill();
  chip.append(mark, makeName(label, state.stream.whole.classes[k]));
  return chip;
}

// Return a name whose direction of writing is its own, with the whole of it on hovering.
function makeName(text, whole) {
  const name = document.createElement("bdi");
  [name.textContent, name.title] = [text, whole];
  return name;
}

function fill(select, choices) {
  select.replaceChildren(...choices.map(([value, text]) => new Option(text, value)));
}

// ---------------------------------------------------------------------------------------------------------------------
// Doing

function setPlaying(wants) {
  isPlaying = wants;
  $("play").textContent = wants ? "Pause" : "Play";
  $("play").setAttribute("aria-pressed", String(wants));
  if (wants) play();
}

async function play() {
  const run = ++runs;
  while (isPlaying && run === runs) {
    const [count, pause] = SPEEDS[$("speed").value];
    if (!jobs.some((job) => job.request === "learn")) ask("learn", { rows: count }, { quietly: true });
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

function togglePlaying() {
  const wants = !isPlaying;
  setPlaying(wants);
  say(wants ? "Playing." : "Paused.");
}

function add([x, y]) {
  const label = state.stream.classes.length ? Number($("class").value) : Number($("number").value);
  if (!state.stream.classes.length && ($("number").value === "" || !Number.isFinite(label))) {
    say("The label of a row you add must be a number.", true);
    $("number").focus();
    return;
  }
  const { start } = state;
  ask("add", { x, y, label }, { isLate: () => state.start !== start });
}

function forget(k) {
  if (k < 0) return say("There is no row to forget.");
  const id = rows.ids[k], { start } = state;
  say(`Forgetting row ${id} …`);
  ask("forget", { id }, { isLate: () => state.start !== start || !rows.ids.includes(id) });
}

function press(plane, event) {
  const k = event.shiftKey ? -1 : plane.findRow(rows, event);
  const place = plane.toPlace(event.offsetX, event.offsetY);
  if (k >= 0) forget(k);
  else if (place) {
    view.place = place;
    add(place);
  }
}

function hover(plane, event) {
  if (!state) return;
  const hovered = plane.findRow(rows, event);
  plane.canvas.classList.toggle("over", hovered >= 0);
  plane.canvas.title = hovered < 0 ? "" : `${describeRow(hovered)}. Click to have it forgotten; Shift and click adds another one.`;
  planes.forEach((other) => (other.hovered = hovered));
  const place = plane.toPlace(event.offsetX, event.offsetY);
  if (place) {
    view.place = place;
    refresh("place");
  }
  showSoon();
}

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

function pressKey(plane, event) {
  if (!state || event.ctrlKey || event.metaKey || event.altKey) return;
  const [low, high] = state.stream.limits;
  const place = view.place || low.map((least, k) => (least + high[k]) / 2);
  if (event.key in ARROWS) {
    const step = event.shiftKey ? 0.1 : 0.01;
    view.place = place.map((at, k) => Math.min(high[k], Math.max(low[k], at + ARROWS[event.key][k] * step * (high[k] - low[k]))));
    announcePlace = true;
    refresh("place");
    showSoon();
  } else if (event.key === "Enter") {
    view.place = place;
    add(place);
  } else if (event.key === "Delete" || event.key === "Backspace") forget(plane.findNearest(rows, ...plane.toPixels(...place))[0]);
  else if (event.key === " ") togglePlaying();
  else return;
  event.preventDefault();
  event.stopPropagation();
}

function chooseTree() {
  const number = Math.round(Number($("tree").value));
  if (!(number >= 1 && number <= CHOICES.trees)) return say(`The number of the tree must be from 1 to ${CHOICES.trees}.`, true);
  view.tree = number - 1;
  refresh();
}

// ---------------------------------------------------------------------------------------------------------------------
// Controls

function connect() {
  $("n-trees").textContent = CHOICES.trees;
  $("n-error-rows").textContent = CHOICES.error_rows;
  $("tree").max = CHOICES.trees;
  fill($("stream"), Object.entries(CHOICES.streams));
  fill($("speed"), Object.keys(SPEEDS).map((name) => [name, name]));
  $("speed").value = "10 rows/s";
  fill($("window"), CHOICES.windows.map((size) => [String(size), size === null ? "all rows" : `latest ${size}`]));
  const reset = () => {
    setPlaying(false);
    ask("reset", { stream: $("stream").value });
  };
  $("play").addEventListener("click", togglePlaying);
  $("step").addEventListener("click", () => ask("learn", { rows: 1 }));
  $("undo").addEventListener("click", () => ask("undo"));
  $("reset").addEventListener("click", reset);
  $("stream").addEventListener("change", reset);
  $("window").addEventListener("change", () => ask("hold", { window: JSON.parse($("window").value) }));
  $("tree").addEventListener("change", chooseTree);
  $("cuts").addEventListener("change", () => { view.has_cuts = $("cuts").checked; refresh(); });
  $("budget").addEventListener("input", () => { view.budget = Number($("budget").value) / 1000; refresh(); });
  for (const choice of document.querySelectorAll("input[name=shows]")) {
    choice.addEventListener("change", () => { view.shows = choice.value; fillLegend(); refresh(); });
  }
  for (const choice of document.querySelectorAll("input[name=of]")) {
    choice.addEventListener("change", () => { view.is_tree = choice.value === "tree"; refresh(); });
  }
  planes.forEach((plane, k) => {
    const select = $(`model-${k}`);
    fill(select, Object.entries(CHOICES.models));
    select.value = view.models[k];
    select.addEventListener("change", () => { view.models = [0, 1].map((j) => $(`model-${j}`).value); refresh(); });
    plane.canvas.addEventListener("click", (event) => press(plane, event));
    plane.canvas.addEventListener("pointermove", (event) => hover(plane, event));
    plane.canvas.addEventListener("keydown", (event) => pressKey(plane, event));
    new ResizeObserver(showSoon).observe(plane.canvas);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === " " && event.target === document.body) { event.preventDefault(); togglePlaying(); }
  });
  darkness.addEventListener("change", () => { planes.forEach((plane) => plane.paint()); fillLegend(); show(); });
}

connect();
refresh();
if (!matchMedia("(prefers-reduced-motion: reduce)").matches) setPlaying(true);
