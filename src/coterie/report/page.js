// Puts the charts onto a page, and makes its controls work.

const CHARTS = JSON.parse(document.getElementById("charts").textContent);

// ---- a chart on the page: drawing, pointing, keys, legend --------------------------------------------------

function show(plot) {
  const chart = CHARTS[Number(plot.dataset.chart)], hidden = new Set();
  const legend = html("ul", { className: "legend" }), tip = html("div", { className: "tip", hidden: true });
  tip.setAttribute("role", "status");
  plot.after(legend);
  let spots = [], current = -1, last = 0, svg = null, ring = null;

  function draw() {
    const size = plot.clientWidth;
    if (!size) return;
    last = size;
    const focused = svg !== null && document.activeElement === svg;
    plot.replaceChildren();
    svg = make("svg", { role: "img", tabindex: "0" }, plot);
    svg.setAttribute("aria-label", `${chart.title}. ${chart.note} Arrow keys go through the values; a table with the numbers follows.`);
    const drawn = painters[chart.kind](chart, svg, size, hidden, plot);
    svg.setAttribute("height", drawn.full);
    svg.setAttribute("viewBox", `0 0 ${size} ${drawn.full}`);
    spots = drawn.spots;
    ring = make("circle", { class: "here", r: 8, visibility: "hidden" }, svg);
    plot.append(tip);
    tip.hidden = true;
    if (!legend.childElementCount) fill(drawn.legend);
    svg.addEventListener("pointermove", point);
    svg.addEventListener("pointerdown", point);
    svg.addEventListener("pointerleave", leave);
    svg.addEventListener("blur", leave);
    svg.addEventListener("keydown", key);
    if (focused) svg.focus();
    plot.dataset.drawn = "yes";
  }

  function tell(place) {
    current = place;
    const spot = spots[place];
    ring.setAttribute("cx", spot.x);
    ring.setAttribute("cy", spot.y);
    ring.setAttribute("visibility", "visible");
    tip.textContent = spot.words;
    tip.hidden = false;
    const room = plot.clientWidth - tip.offsetWidth;
    tip.style.left = `${Math.max(0, Math.min(room, spot.x + 12))}px`;
    tip.style.top = `${spot.y - tip.offsetHeight - 12 < -20 ? spot.y + 14 : spot.y - tip.offsetHeight - 12}px`;
  }

  function leave() {
    tip.hidden = true;
    ring.setAttribute("visibility", "hidden");
  }

  function point(event) {
    const frame = svg.getBoundingClientRect(), x = event.clientX - frame.left, y = event.clientY - frame.top;
    let best = -1, nearest = 30;
    spots.forEach((spot, place) => {
      const inside = spot.w !== undefined && x >= spot.left && x <= spot.left + spot.w && y >= spot.top && y <= spot.top + spot.h;
      const far = inside ? 10 : spot.w !== undefined ? Infinity : Math.hypot(spot.x - x, spot.y - y);
      if (far < nearest && far < (spot.near ?? Infinity)) { nearest = far; best = place; }
    });
    if (best < 0) leave(); else tell(best);
  }

  function key(event) {
    if (event.key === "Escape") return leave();
    const go = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const to = event.key === "Home" ? 0 : event.key === "End" ? spots.length - 1 : go === undefined ? null : (current + go + spots.length) % spots.length;
    if (to === null || !spots.length) return;
    event.preventDefault();
    tell(current < 0 && go === -1 ? spots.length - 1 : to);
  }

  function fill(entries) {
    let place = 0;
    for (const entry of entries) {
      const number = place++;
      const button = html(entry.fixed || entries.length < 2 ? "span" : "button", {}, html("li", {}, legend));
      const icon = make("svg", { viewBox: "0 0 26 14", "aria-hidden": "true" }, button);
      if (entry.line) {
        const line = make("line", { class: "line", x1: 0, x2: 26, y1: 7, y2: 7, "stroke-dasharray": dash(entry.slot) }, icon);
        line.style.stroke = colour(entry.slot);
      }
      if (entry.bar) Object.assign(make("rect", { class: "bar", x: 6, y: 1, width: 14, height: 12 }, icon).style, paint(entry.slot));
      else stamp(icon, entry.slot, 13, 7, 4.6, entry.kind);
      button.append(entry.name);
      if (button.tagName !== "BUTTON") continue;
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      button.addEventListener("click", () => {
        if (!hidden.delete(number)) hidden.add(number);
        button.setAttribute("aria-pressed", String(!hidden.has(number)));
        current = -1;
        draw();
      });
    }
  }

  new ResizeObserver(() => { if (plot.clientWidth !== last) requestAnimationFrame(draw); }).observe(plot);
  draw();
}

// ---- the page's controls -----------------------------------------------------------------------------------

function switches() {
  for (const block of document.querySelectorAll(".switch")) {
    const variants = [...block.querySelectorAll(":scope > .variant")], radios = [...block.querySelectorAll(":scope > .choice input")];
    const choose = () => variants.forEach((variant, place) => { variant.hidden = !radios[place].checked; });
    radios.forEach(radio => radio.addEventListener("change", choose));
    choose();
  }
}

function theme() {
  const field = html("fieldset", { className: "choice theme" });
  html("legend", { textContent: "Theme" }, field);
  for (const name of ["auto", "light", "dark"]) {
    const box = html("label", {}, field);
    const radio = html("input", { type: "radio", name: "theme", value: name, checked: name === "auto" }, box);
    html("span", { textContent: name }, box);
    radio.addEventListener("change", () => {
      if (name === "auto") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = name;
    });
  }
  document.querySelector("header").append(field);
}

function sortable(table) {
  const heads = [...table.querySelectorAll("thead th")], body = table.tBodies[0];
  heads.forEach((head, column) => {
    const button = html("button", { type: "button" });
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const of = row => { const cell = row.cells[column], value = cell.dataset.value; return value !== undefined ? Number(value) : cell.querySelector(".none") ? null : cell.textContent; };
      const rows = [...body.rows].sort((a, b) => {
        const [x, y] = [of(a), of(b)];
        if (x === null || y === null) return (x === null) - (y === null);  // what was not measured stays at the end
        return (up ? 1 : -1) * (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true }));
      });
      body.append(...rows);
    });
  });
}

function copying(code) {
  const button = html("button", { type: "button", className: "copy", textContent: "Copy" });
  button.addEventListener("click", () => {
    const chosen = document.createRange();
    chosen.selectNodeContents(code);
    getSelection().removeAllRanges();
    getSelection().addRange(chosen);
    button.textContent = document.execCommand("copy") ? "Copied" : "Selected";
  });
  code.after(button);
}

document.documentElement.classList.add("live");
theme();
switches();
document.querySelectorAll("table").forEach(sortable);
document.querySelectorAll("pre").forEach(copying);
document.querySelectorAll(".plot").forEach(show);
