// What all charts are drawn with: SVG elements, markers, colours, scales and axes.

const COLOURS = 7, SPACE = "http://www.w3.org/2000/svg";
const VIRIDIS = [[68, 1, 84], [72, 36, 117], [65, 68, 135], [53, 95, 141], [42, 120, 142], [33, 145, 140],
  [34, 168, 132], [68, 191, 112], [122, 209, 81], [189, 223, 38], [253, 231, 37]];
const DASHES = ["", "7 4", "2 3", "8 3 2 3"];

// ---- small things ------------------------------------------------------------------------------------------

const isNumber = number => number !== null && number !== undefined;
const text = (number, digits) => isNumber(number) ? number.toFixed(digits) : "not measured";
const colour = slot => slot === null ? "var(--grey)" : `var(--c${slot % COLOURS})`;
const marker = slot => (slot + Math.floor(slot / COLOURS)) % COLOURS;
const paint = slot => ({ fill: colour(slot), fillOpacity: [1, .55, .25][Math.floor(slot / COLOURS) % 3] });  // of bars
const dash = slot => DASHES[Math.floor(slot / COLOURS) % DASHES.length];
const span = numbers => {
  let low = Infinity, high = -Infinity;
  for (const number of numbers) if (isNumber(number)) { low = Math.min(low, number); high = Math.max(high, number); }
  return low <= high ? [low, high] : null;
};

function make(tag, attributes, parent, content) {
  const node = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (content !== undefined) node.textContent = content;
  if (parent) parent.append(node);
  return node;
}

function html(tag, properties, parent) {
  const node = Object.assign(document.createElement(tag), properties);
  if (parent) parent.append(node);
  return node;
}

const measure = document.createElement("canvas").getContext("2d");
measure.font = `12px ${getComputedStyle(document.body).fontFamily}`;
const width = words => measure.measureText(words).width;

function shortened(words, room) {
  if (width(words) <= room) return words;
  let end = words.length;
  while (end > 1 && width(words.slice(0, end) + "…") > room) end--;
  return words.slice(0, end) + "…";
}

function symbol(kind, x, y, r) {  // the shapes of MARKERS: circle, square, triangles, diamond, star, plus
  const points = (...list) => list.map(([dx, dy]) => `${x + dx * r},${y + dy * r}`).join(" ");
  switch (kind) {
    case 0: return ["circle", { cx: x, cy: y, r }];
    case 1: return ["rect", { x: x - .9 * r, y: y - .9 * r, width: 1.8 * r, height: 1.8 * r }];
    case 2: return ["polygon", { points: points([0, -1.2], [1.1, .9], [-1.1, .9]) }];
    case 3: return ["polygon", { points: points([0, -1.3], [1.1, 0], [0, 1.3], [-1.1, 0]) }];
    case 4: return ["polygon", { points: points([0, 1.2], [1.1, -.9], [-1.1, -.9]) }];
    case 5: return ["polygon", { points: points(...Array.from({ length: 10 }, (_, k) => {
      const size = k % 2 ? .6 : 1.45, angle = Math.PI * (k / 5 - .5);
      return [size * Math.cos(angle), size * Math.sin(angle)];
    })) }];
    default: return ["polygon", { points: points([-.4, -1.2], [.4, -1.2], [.4, -.4], [1.2, -.4], [1.2, .4], [.4, .4],
      [.4, 1.2], [-.4, 1.2], [-.4, .4], [-1.2, .4], [-1.2, -.4], [-.4, -.4]) }];
  }
}

function stamp(parent, slot, x, y, r = 4.2, kind = slot === null ? 0 : marker(slot)) {
  const [tag, attributes] = symbol(kind, x, y, r);
  const node = make(tag, { class: "spot", ...attributes }, parent);
  node.style.fill = colour(slot);
  return node;
}

// ---- scales and axes ---------------------------------------------------------------------------------------

function ticks(low, high, count) {
  if (!(high > low)) return [low];
  const raw = (high - low) / Math.max(count, 1), power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map(k => k * power).find(k => k >= raw * .999);
  const marks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) marks.push(Number((k * step).toPrecision(12)));
  return marks;
}

function logTicks(low, high) {
  const marks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
    for (const k of [1, 2, 5]) if (k * 10 ** power >= low * .999 && k * 10 ** power <= high * 1.001) marks.push(Number((k * 10 ** power).toPrecision(6)));
  return marks.length > 1 ? marks : [low, high];
}

const label = number => {
  const size = Math.abs(number);
  return size >= 1e6 || (size > 0 && size < 1e-3) ? number.toExponential(1) : String(Number(number.toPrecision(5)));
};

function scale(low, high, from, to, log = false) {
  const of = log ? Math.log10 : number => number, a = of(low), b = of(high);
  return number => b === a ? (from + to) / 2 : from + (of(number) - a) / (b - a) * (to - from);
}

function padded(range, share = .06) {
  if (range === null) return [0, 1];
  const [low, high] = range, more = high > low ? (high - low) * share : Math.abs(high) * .1 || 1;
  return [low - more, high + more];
}

// An axis with its grid: y at the left (or right), numbers at the ticks, its name above.
function yAxis(svg, box, low, high, name, right = false, whole = false) {
  const at = ticks(low, high, box.height / 40).filter(number => !whole || Number.isInteger(number)), to = scale(low, high, box.bottom, box.top);
  for (const number of at) {
    if (!right) make("line", { class: "grid", x1: box.left, x2: box.right, y1: to(number), y2: to(number) }, svg);
    make("text", { class: "soft", x: right ? box.right + 6 : box.left - 6, y: to(number) + 4, "text-anchor": right ? "start" : "end" }, svg, label(number));
  }
  make("text", { x: right ? box.width : 0, y: 13, "text-anchor": right ? "end" : "start" }, svg, shortened(name, box.width * (box.shared ? .48 : .98)));
  return to;
}

function xAxis(svg, box, low, high, name, log = false, whole = false) {
  const all = (log ? logTicks(low, high) : ticks(low, high, box.width / 70)).filter(number => !whole || Number.isInteger(number)), to = scale(low, high, box.left, box.right, log);
  let last = -Infinity;
  for (const number of all) {
    const x = to(number), half = width(label(number)) / 2;
    make("line", { class: "grid", x1: x, x2: x, y1: box.top, y2: box.bottom }, svg);
    if (x - half < last + 6) continue;
    last = x + half;
    make("text", { class: "soft", x, y: box.bottom + 17, "text-anchor": "middle" }, svg, label(number));
  }
  make("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }, svg);
  xName(svg, box, name);
  return to;
}

const xName = (svg, box, name) =>
  make("text", { x: (box.left + box.right) / 2, y: box.full - 5, "text-anchor": "middle" }, svg, shortened(name, box.width));

const room = (low, high, height) => 10 + Math.max(...ticks(low, high, height / 40).map(number => width(label(number))));

function area(full, left, right, top, bottom, size) {
  return { width: size, full, left, right: size - right, top, bottom: full - bottom, height: full - top - bottom };
}

// Names under places along x: level where they fit, else upright and thinned out. Returns the height they need.
function names(list, step) {
  const widest = Math.max(0, ...list.map(width));
  const level = widest + 8 <= step, upright = Math.min(widest, 92) + 8;
  return { height: level ? 18 : upright, draw(svg, box, to) {
    const every = level ? 1 : Math.ceil(14 / step);
    list.forEach((name, place) => {
      if (place % every) return;
      const x = to(place), y = box.bottom + (level ? 17 : 7);
      make("text", level ? { class: "soft", x, y, "text-anchor": "middle" }
        : { class: "soft", x, y, "text-anchor": "end", transform: `rotate(-90 ${x} ${y}) translate(0 4)` }, svg, shortened(name, level ? step : 92));
    });
  } };
}
