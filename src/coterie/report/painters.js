// ---- painters: each draws a chart into an svg of some width, and returns its spots -------------------------
// A spot is a place with words: {x, y, words}, or with w and h a rectangle that is pointed at from within.

const painters = {
  lines(chart, svg, size, hidden) {
    const shown = chart.series.map((series, place) => ({ ...series, slot: series.slot ?? place })).filter((_, place) => !hidden.has(place));
    const usable = x => isNumber(x) && (!chart.log_x || x > 0);
    const whole = chart.x_label === "round" || chart.series.every(series => series.x.every(x => !isNumber(x) || Number.isInteger(x)));  // no round 1.5
    const xs = span(chart.series.flatMap(series => series.x.filter(usable)).concat(chart.marks.filter(mark => mark.axis === "x").map(mark => mark.at).filter(usable)));
    const ys = span(shown.flatMap(series => [...series.y, ...series.low, ...series.high]).concat(chart.marks.filter(mark => mark.axis === "y").map(mark => mark.at)));
    const [low, high] = chart.limits ?? padded(ys), full = Math.min(380, Math.max(280, size * .6));
    const box = area(full, room(low, high, full - 70), 14, 26, 44, size);
    const [from, to] = xs === null ? (chart.log_x ? [1, 10] : [0, 1]) : xs[0] === xs[1] ? (chart.log_x ? [xs[0] / 2, xs[0] * 2] : [xs[0] - 1, xs[0] + 1]) : xs;
    const Y = yAxis(svg, box, low, high, chart.y_label, false, chart.digits === 0), X = xAxis(svg, box, from, to, chart.x_label, chart.log_x, whole), spots = [];
    if (ys === null) nothing(svg, box);
    for (const mark of chart.marks) {
      if (mark.axis === "x" && !usable(mark.at)) continue;
      const x = X(mark.at), y = Y(mark.at), upright = mark.axis === "x", late = x > (box.left + box.right) / 2;
      make("line", upright ? { class: "cut", x1: x, x2: x, y1: box.top, y2: box.bottom } : { class: "cut", x1: box.left, x2: box.right, y1: y, y2: y }, svg);
      make("text", upright ? { class: "on", x: x + (late ? -5 : 5), y: box.bottom - 8, "text-anchor": late ? "end" : "start" } : { class: "on", x: box.right - 3, y: y - 5, "text-anchor": "end" }, svg, mark.text);
    }
    for (const series of shown) {
      const points = series.x.map((x, i) => ({ x, y: series.y[i], low: series.low[i], high: series.high[i] })).filter(point => usable(point.x));
      for (const run of runs(points, point => isNumber(point.low) && isNumber(point.high))) {
        const path = [...run.map(point => [X(point.x), Y(point.high)]), ...run.reverse().map(point => [X(point.x), Y(point.low)])];
        make("polygon", { class: "band", points: path.map(place => place.join(",")).join(" ") }, svg).style.fill = colour(series.slot);
      }
      for (const run of runs(points, point => isNumber(point.y))) {
        const line = make("polyline", { class: "line", points: run.map(point => `${X(point.x)},${Y(point.y)}`).join(" "), "stroke-dasharray": dash(series.slot) }, svg);
        line.style.stroke = colour(series.slot);
      }
      const drawn = points.filter(point => isNumber(point.y)), every = Math.max(1, Math.ceil(drawn.length / Math.max(8, size / 22)));
      drawn.forEach((point, i) => {
        if (i % every === 0 || i === drawn.length - 1) stamp(svg, series.slot, X(point.x), Y(point.y));
        const band = isNumber(point.low) && isNumber(point.high) ? `\n${text(point.low, chart.digits)} to ${text(point.high, chart.digits)}` : "";
        spots.push({ x: X(point.x), y: Y(point.y), words: `${series.name}\n${chart.x_label}: ${label(point.x)}\n${chart.y_label}: ${text(point.y, chart.digits)}${band}` });
      });
    }
    return { full, spots, legend: chart.series.map((series, place) => ({ name: series.name, slot: series.slot ?? place, line: true })) };
  },

  bars(chart, svg, size, hidden) {
    const all = chart.series.map((series, place) => ({ ...series, slot: series.slot ?? place })), over = chart.line && !hidden.has(all.length) ? chart.line : null;
    const shown = all.filter((_, place) => !hidden.has(place)), n = chart.categories.length, spots = [];
    const reach = chart.stacked
      ? chart.categories.flatMap((_, i) => [shown.reduce((sum, s) => sum + Math.max(s.y[i] ?? 0, 0), 0), shown.reduce((sum, s) => sum + Math.min(s.y[i] ?? 0, 0), 0)])
      : shown.flatMap(series => [...series.y, ...series.low, ...series.high]);
    const limits = span(reach), wide = limits === null ? [0, 1] : [Math.min(limits[0], 0), Math.max(limits[1], 0)], more = (wide[1] - wide[0] || 1) * .05;
    const [low, high] = [wide[0] < 0 ? wide[0] - more : 0, wide[1] > 0 ? wide[1] + more : wide[0] < 0 ? 0 : 1];
    const lineSpan = over ? padded(span([...over.y, ...over.low, ...over.high]), .15) : null;
    const tall = Math.min(340, Math.max(250, size * .5)), left = room(low, high, tall - 52), right = over ? room(...lineSpan, tall - 52) + 6 : 14;
    const below = names(chart.categories, (size - left - right) / Math.max(n, 1)), full = tall + below.height;
    const box = area(full, left, right, 26, below.height + 26, size);
    box.shared = Boolean(over);
    const Y = yAxis(svg, box, low, high, chart.y_label, false, chart.digits === 0), step = (box.right - box.left) / Math.max(n, 1), X = place => box.left + (place + .5) * step;
    if (limits === null) nothing(svg, box);
    const share = chart.stacked ? 1 : Math.max(shown.length, 1), thick = Math.min(step * .8 / share, 60);
    chart.categories.forEach((category, i) => {
      let up = 0, down = 0;
      shown.forEach((series, k) => {
        const value = series.y[i];
        if (!isNumber(value)) return;
        const base = chart.stacked ? (value < 0 ? down : up) : 0, end = base + value;
        if (value < 0) down = end; else up = end;
        const x = X(i) + (chart.stacked ? -thick / 2 : (k - share / 2) * thick), y = Math.min(Y(base), Y(end)), h = Math.abs(Y(base) - Y(end));
        Object.assign(make("rect", { class: "bar", x, y, width: thick, height: h }, svg).style, paint(series.slot));
        if (isNumber(series.low[i]) && isNumber(series.high[i])) {
          const c = x + thick / 2, [a, b] = [Y(series.low[i]), Y(series.high[i])];
          make("path", { class: "whisker", d: `M${c},${a}V${b}M${c - 4},${a}h8M${c - 4},${b}h8` }, svg);
        }
        const band = isNumber(series.low[i]) && isNumber(series.high[i]) ? `\n${text(series.low[i], chart.digits)} to ${text(series.high[i], chart.digits)}` : "";
        spots.push({ x: x + thick / 2, y, left: x, top: y - 3, w: thick, h: h + 6, words: `${chart.x_label}: ${category}\n${series.name}: ${text(value, chart.digits)}${band}` });
      });
    });
    make("line", { class: "axis", x1: box.left, x2: box.right, y1: Y(0), y2: Y(0) }, svg);
    if (over) {
      const slot = over.slot ?? all.length, L = yAxis(svg, box, ...lineSpan, chart.line_label, true);
      for (const run of runs(over.y.map((y, i) => ({ i, y })), point => isNumber(point.y)))
        make("polyline", { class: "line", points: run.map(point => `${X(point.i)},${L(point.y)}`).join(" ") }, svg).style.stroke = colour(slot);
      over.y.forEach((y, i) => {
        if (!isNumber(y)) return;
        if (isNumber(over.low[i]) && isNumber(over.high[i])) make("path", { class: "whisker", d: `M${X(i)},${L(over.low[i])}V${L(over.high[i])}` }, svg);
        stamp(svg, slot, X(i), L(y), 5);
        const band = isNumber(over.low[i]) && isNumber(over.high[i]) ? `\n${text(over.low[i], chart.digits)} to ${text(over.high[i], chart.digits)}` : "";
        spots.unshift({ x: X(i), y: L(y), near: 12, words: `${chart.x_label}: ${chart.categories[i]}\n${over.name}: ${text(y, chart.digits)}${band}` });
      });
    }
    below.draw(svg, box, X);
    xName(svg, box, chart.x_label);
    const legend = all.map(series => ({ name: series.name, slot: series.slot, bar: true }));
    if (chart.line) legend.push({ name: chart.line.name, slot: chart.line.slot ?? all.length, line: true });
    return { full, spots, legend };
  },

  heatmap(chart, svg, size, hidden, plot) {
    const n = chart.rows.length, m = chart.columns.length, square = n === m;
    const left = Math.min(Math.max(0, ...chart.rows.map(width)), 110) + 12, across = Math.max(40, size - left - 8);
    const cell = { w: across / Math.max(m, 1) };
    if (square) cell.w = Math.min(cell.w, Math.max(3, 560 / n), n > 8 ? 40 : 64);
    cell.h = square ? cell.w : Math.min(n > 8 ? 26 : 36, Math.max(420 / Math.max(n, 1), 3));
    const below = names(chart.columns, cell.w), top = chart.row_label ? 24 : 8, full = top + n * cell.h + below.height + 26 + 62;
    const box = { width: size, full: full - 62, left, right: left + m * cell.w, top, bottom: top + n * cell.h };
    const range = chart.limits ?? span(chart.values.flat()) ?? [0, 1], share = value => range[1] > range[0] ? Math.min(1, Math.max(0, (value - range[0]) / (range[1] - range[0]))) : .5;
    const canvas = html("canvas", { width: Math.max(m, 1), height: Math.max(n, 1) });
    canvas.setAttribute("aria-hidden", "true");
    Object.assign(canvas.style, { left: `${left}px`, top: `${top}px`, width: `${m * cell.w}px`, height: `${n * cell.h}px` });
    plot.prepend(canvas);
    const context = canvas.getContext("2d"), picture = context.createImageData(Math.max(m, 1), Math.max(n, 1)), spots = [];
    let blank = false;
    chart.values.forEach((row, i) => row.forEach((value, j) => {
      if (isNumber(value)) picture.data.set([...viridis(share(value)), 255], 4 * (i * m + j)); else blank = true;
      spots.push({ x: left + (j + .5) * cell.w, y: top + (i + .5) * cell.h, left: left + j * cell.w, top: top + i * cell.h, w: cell.w, h: cell.h,
        words: `${chart.row_label || "row"} ${chart.rows[i]}, ${chart.column_label || "column"} ${chart.columns[j]}\n${chart.unit}: ${text(value, chart.digits)}` });
    }));
    context.putImageData(picture, 0, 0);
    make("rect", { class: "axis", x: left, y: top, width: m * cell.w, height: n * cell.h }, svg);
    if (n * m <= 100 && cell.h > 20) chart.values.forEach((row, i) => row.forEach((value, j) => {  // few: numbers in the cells
      const number = text(value, chart.digits);
      if (!isNumber(value) || width(number) + 8 > cell.w) return;
      const [r, g, b] = viridis(share(value)), node = make("text", { x: left + (j + .5) * cell.w, y: top + (i + .5) * cell.h + 4, "text-anchor": "middle" }, svg, number);
      node.style.fill = .2126 * (r / 255) ** 2.2 + .7152 * (g / 255) ** 2.2 + .0722 * (b / 255) ** 2.2 > .18 ? "#000" : "#fff";
    }));
    const every = Math.ceil(13 / cell.h);
    chart.rows.forEach((name, i) => { if (i % every === 0) make("text", { class: "soft", x: left - 6, y: top + (i + .5) * cell.h + 4, "text-anchor": "end" }, svg, shortened(name, 110)); });
    below.draw(svg, box, place => left + (place + .5) * cell.w);
    if (chart.row_label) make("text", { x: 0, y: 13 }, svg, chart.row_label);
    make("text", { x: (box.left + box.right) / 2, y: box.full - 5, "text-anchor": "middle" }, svg, shortened(chart.column_label, size));
    for (let start = 0, end; start < chart.groups.length; start = end) {
      end = start + 1;
      while (end < chart.groups.length && chart.groups[end] === chart.groups[start]) end++;
      const frame = { x: left + start * cell.w, y: top + start * cell.h, width: (end - start) * cell.w, height: (end - start) * cell.h };
      make("rect", { class: "frame under", ...frame }, svg);
      make("rect", { class: "frame", ...frame }, svg);
    }
    const bar = { left, width: Math.min(220, across - 20), top: full - 40 };
    for (let k = 0; k < 40; k++) make("rect", { x: bar.left + k * bar.width / 40, y: bar.top, width: bar.width / 40 + .6, height: 10, fill: `rgb(${viridis(k / 39)})` }, svg);
    for (const [at, anchor] of [[0, "start"], [1, "end"]]) make("text", { class: "soft", x: bar.left + at * bar.width, y: bar.top + 24, "text-anchor": anchor }, svg, text(range[at], chart.digits));
    make("text", { x: bar.left, y: bar.top - 5 }, svg, shortened(chart.unit + (blank ? "; blank: not measured" : ""), size - bar.left));
    return { full, spots, legend: [] };
  },

  scatter(chart, svg, size, hidden) {
    const shown = chart.points.filter(point => isNumber(point.x) && isNumber(point.y) && !hidden.has(point.group ?? chart.groups.length)), all = chart.points;
    let xs = padded(span(all.map(point => point.x)), .08), ys = padded(span(all.map(point => point.y)), .08);
    const full = chart.map ? Math.min(480, Math.max(300, size * .8)) : Math.min(380, Math.max(280, size * .6));
    const box = chart.map ? area(full, 8, 8, 8, 8, size) : area(full, room(...ys, full - 70), 14, 26, 44, size);
    let X, Y;
    if (chart.map) {  // one scale for both
      const unit = Math.max((xs[1] - xs[0]) / (box.right - box.left), (ys[1] - ys[0]) / (box.bottom - box.top));
      const middle = ([a, b]) => (a + b) / 2;
      X = x => (box.left + box.right) / 2 + (x - middle(xs)) / unit;
      Y = y => (box.top + box.bottom) / 2 - (y - middle(ys)) / unit;
      make("rect", { class: "axis", x: .5, y: .5, width: size - 1, height: full - 1 }, svg);
    } else { Y = yAxis(svg, box, ...ys, chart.y_label); X = xAxis(svg, box, ...xs, chart.x_label); }
    const spots = shown.map(point => {
      stamp(svg, chart.groups.length ? point.group : 0, X(point.x), Y(point.y), 5);
      const group = chart.groups.length ? `\n${point.group === null ? "in no group" : chart.groups[point.group]}` : "";
      const where = chart.map ? "" : `\n${chart.x_label}: ${text(point.x, chart.digits)}\n${chart.y_label}: ${text(point.y, chart.digits)}`;
      return { x: X(point.x), y: Y(point.y), words: point.name + group + where };
    });
    const taken = spots.map(spot => [spot.x - 6, spot.y - 6, spot.x + 6, spot.y + 6]);
    if (shown.length <= 60) shown.forEach((point, i) => {  // names where they touch nothing
      const w = width(point.name), { x, y } = spots[i];
      for (const [dx, dy] of [[8, 4], [-8 - w, 4], [-w / 2, -9], [-w / 2, 18]]) {
        const place = [x + dx, y + dy - 10, x + dx + w, y + dy + 2];
        if (place[0] < 2 || place[2] > size - 2 || place[1] < 2 || place[3] > full - 2) continue;
        if (taken.some((other, j) => j !== i && place[0] < other[2] && place[2] > other[0] && place[1] < other[3] && place[3] > other[1])) continue;
        taken.push(place);
        make("text", { class: "soft", x: x + dx, y: y + dy }, svg, point.name);
        break;
      }
    });
    if (!spots.length) nothing(svg, box);
    const legend = chart.groups.map((name, slot) => ({ name, slot }));
    if (chart.groups.length && chart.points.some(point => point.group === null)) legend.push({ name: "in no group", slot: null });
    return { full, spots, legend };
  },

  dendrogram(chart, svg, size) {
    const n = chart.names.length, high = Math.max(chart.cut ?? 0, ...chart.merges.map(merge => merge.height), 1e-12) * 1.08;
    const left = room(0, high, 250), step = (size - left - 14) / Math.max(n, 1), below = names(chart.names, step);
    const full = 300 + below.height, box = area(full, left, 14, 26, below.height + 42, size);
    const Y = yAxis(svg, box, 0, high, chart.unit), X = place => box.left + (place + .5) * step, spots = [];
    for (const merge of chart.merges) {
      const path = make("path", { class: "line", d: `M${X(merge.left)},${Y(merge.left_height)}V${Y(merge.height)}H${X(merge.right)}V${Y(merge.right_height)}` }, svg);
      path.style.stroke = colour(merge.group);
      spots.push({ x: X((merge.left + merge.right) / 2), y: Y(merge.height), words: `merge at ${text(merge.height, chart.digits)}\n${merge.group === null ? "between groups" : `inside ${chart.groups[merge.group]}`}` });
    }
    chart.names.forEach((name, place) => {
      const r = Math.min(4.2, Math.max(1.5, step * .45));
      stamp(svg, chart.leaf_groups[place], X(place), box.bottom + 7, r);
      spots.push({ x: X(place), y: box.bottom + 7, words: `${name}\n${chart.groups[chart.leaf_groups[place]]}` });
    });
    if (isNumber(chart.cut)) {
      make("line", { class: "cut", x1: box.left, x2: box.right, y1: Y(chart.cut), y2: Y(chart.cut) }, svg);
      make("text", { class: "on", x: box.right - 2, y: Y(chart.cut) - 5, "text-anchor": "end" }, svg, `cut: ${text(chart.cut, chart.digits)}`);
    }
    below.draw(svg, { ...box, bottom: box.bottom + 12 }, X);
    xName(svg, box, "clients, in the order of the tree");
    return { full, spots, legend: chart.groups.map((name, slot) => ({ name, slot, fixed: true })) };
  },

  distribution(chart, svg, size) {
    const shown = chart.samples;
    const range = padded(span(chart.samples.flatMap(sample => sample.values))), row = 84, full = Math.max(shown.length, 1) * row + 56;
    const box = area(full, 8, 14, 6, 44, size), X = xAxis(svg, box, ...range, chart.x_label), spots = [];
    shown.forEach((sample, place) => {
      const top = box.top + place * row, middle = top + 48, sorted = sample.values.map((value, i) => ({ value, i })).filter(entry => isNumber(entry.value)).sort((a, b) => a.value - b.value);
      make("text", { class: "on", x: box.left + 4, y: top + 15 }, svg, shortened(sample.name, size - 30));
      if (!sorted.length) { make("text", { class: "on", x: box.left + 4, y: middle }, svg, "not measured"); return; }
      const quartile = share => { const at = share * (sorted.length - 1), low = Math.floor(at), next = sorted[Math.min(low + 1, sorted.length - 1)].value; return sorted[low].value + (at - low) * (next - sorted[low].value); };
      const [a, b, c] = [.25, .5, .75].map(quartile), bad = Math.ceil(chart.worst * sorted.length - 1e-9), piles = new Map();
      sorted.forEach((entry, rank) => {
        const x = X(entry.value), pile = Math.round(x / 7), high = piles.get(pile) ?? 0;
        piles.set(pile, high + 1);
        const y = middle + (high % 2 ? 1 : -1) * Math.min(Math.ceil(high / 2) * 5, 24), worst = rank < bad;
        stamp(svg, worst ? 1 : 0, x, y, worst ? 5 : 3.4, worst ? 4 : 0).style.fillOpacity = worst ? 1 : .55;
        spots.push({ x, y, words: `${sample.names[entry.i] ?? ""}\n${sample.name}: ${text(entry.value, chart.digits)}${worst ? `\namong the worst ${100 * chart.worst} %` : ""}`.trim() });
      });
      make("path", { class: "box", d: `M${X(a)},${middle - 14}H${X(c)}V${middle + 14}H${X(a)}ZM${X(b)},${middle - 14}v28` }, svg);
      if (bad) {
        const mean = sorted.slice(0, bad).reduce((sum, entry) => sum + entry.value, 0) / bad;
        make("line", { class: "cut", x1: X(mean), x2: X(mean), y1: middle - 22, y2: middle + 26 }, svg);
        spots.push({ x: X(mean), y: middle + 26, words: `${sample.name}: mean of the worst ${100 * chart.worst} % (${bad})\n${text(mean, chart.digits)}` });
      }
    });
    const legend = [{ name: "box: the middle half, with the median", slot: 0, kind: 0, fixed: true }];
    if (chart.worst) legend.push({ name: `the worst ${100 * chart.worst} %; dashed: their mean`, slot: 1, kind: 4, fixed: true });
    return { full, spots, legend };
  },
};

function viridis(share) {
  const at = share * (VIRIDIS.length - 1), low = Math.min(Math.floor(at), VIRIDIS.length - 2);
  return VIRIDIS[low].map((value, k) => Math.round(value + (at - low) * (VIRIDIS[low + 1][k] - value)));
}

function runs(points, good) {  // consecutive points that are measured
  const segments = [];
  let run = [];
  for (const point of points) {
    if (good(point)) run.push(point);
    else if (run.length) { segments.push(run); run = []; }
  }
  return run.length ? [...segments, run] : segments;
}

const nothing = (svg, box) =>
  make("text", { class: "soft", x: (box.left + box.right) / 2, y: (box.top + box.bottom) / 2, "text-anchor": "middle" }, svg, "not measured");
