// Colours: those of the theme, a scale for numbers, one colour and shape per class. All can be told apart by the colour-blind.

const VIRIDIS = ["440154", "482475", "414487", "355f8d", "2a788e", "21918c", "22a884", "44bf70", "7ad151", "bddf26", "fde725"];
const DOUBTS = {
  light: ["fbfaf7", "e9ddec", "cfb3d8", "ac84be", "8656a0", "5f2f7f", "3a1458"],
  dark: ["1a2027", "34304a", "544675", "7a5f9f", "a07dbd", "c4a2d8"],
};
const CLASSES = {
  light: ["0072b2", "e08a00", "009e73", "b3408a", "56b4e9", "8c510a", "7f8c1f", "4d4d4d"],
  dark: ["4aa8e0", "f0a830", "2fc193", "e083bd", "9bd4f5", "c98d52", "c3cf5a", "b9b9b9"],
};
// Corners and turn of the shape of each class; 0 corners make a circle.
const SHAPES = [[0, 0], [4, 0.25], [3, 0], [4, 0], [3, 0.5], [5, 0], [6, 0], [8, 0]];

const darkness = matchMedia("(prefers-color-scheme: dark)");
const parse = (hex) => [0, 2, 4].map((k) => parseInt(hex.slice(k, k + 2), 16));
const toStyle = ([r, g, b], alpha = 1) => `rgba(${Math.round(r)},${Math.round(g)},${Math.round(b)},${alpha})`;
const mix = (a, b, share) => a.map((part, k) => part + share * (b[k] - part));
const getTheme = () => (darkness.matches ? "dark" : "light");
const getInk = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function makeRamp(hexes) {
  const stops = hexes.map(parse);
  return (share) => {
    const at = Math.min(Math.max(share || 0, 0), 1) * (stops.length - 1); // NaN is no place between stops
    const k = Math.min(Math.floor(at), stops.length - 2);
    return mix(stops[k], stops[k + 1], at - k);
  };
}
const ramps = { viridis: makeRamp(VIRIDIS), light: makeRamp(DOUBTS.light), dark: makeRamp(DOUBTS.dark) };

const classColour = (k) => parse(CLASSES[getTheme()][k % CLASSES.light.length]);

// Return the colour of a label, of a number between the ends of the scale, or of a class.
function colourLabel(label, stream) {
  if (stream.classes.length) return classColour(label);
  const [low, high] = stream.scale;
  return ramps.viridis((label - low) / (high - low));
}

// Return the colour of a place: of a prediction, paler if a class is less probable, or of an uncertainty.
function colourValue(value, best, stream, shows) {
  if (shows === "uncertainty") return ramps[getTheme()](value / stream.spread);
  if (!stream.classes.length) return colourLabel(value, stream);
  const least = 1 / stream.classes.length;
  const sure = Math.max(0, (value - least) / (1 - least || 1));
  return mix(parse(getTheme() === "dark" ? "1a2027" : "ffffff"), classColour(best), 0.08 + 0.57 * sure);
}

function tracePoint(context, x, y, radius, label, stream) {
  const [corners, turn] = stream.classes.length ? SHAPES[label % SHAPES.length] : SHAPES[0];
  context.beginPath();
  if (!corners) context.arc(x, y, radius, 0, 2 * Math.PI);
  for (let k = 0; k < corners; k++) {
    const angle = 2 * Math.PI * ((k + (corners === 4 ? turn * 2 : turn)) / corners - 0.25);
    const size = radius * (corners === 3 ? 1.4 : 1.2);
    context[k ? "lineTo" : "moveTo"](x + size * Math.cos(angle), y + size * Math.sin(angle));
  }
  context.closePath();
}

function formatNumber(value, digits = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size && (size >= 1e6 || size < 1e-3)) {
    return value.toExponential(digits - 1).replace(/\.?0+e/, "e").replace("e+", "e").replaceAll("-", "−");
  }
  return Number(value.toPrecision(Math.max(digits, Math.ceil(Math.log10(size + 1))))).toLocaleString("en", { maximumFractionDigits: 15 }).replace("-", "−");
}
