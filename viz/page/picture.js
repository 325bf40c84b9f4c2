// The picture: which depth is shown, where it is moved and zoomed to, what is marked in it.
const SVG = "http://www.w3.org/2000/svg";
const READABLE = 0.6; // the zoom below which labels are too small to follow a step by

function makePicture(stage, canvas, data, calm) {
  const levels = [...canvas.children].map((box) => {
    const svg = box.querySelector("svg"), view = svg.viewBox.baseVal;
    const nodes = new Map([...svg.querySelectorAll("g[data-id]")].map((g) => [g.dataset.id, g]));
    const edges = [...svg.querySelectorAll("g[data-source]")];
    svg.style.width = view.width + "px";
    svg.style.height = view.height + "px";
    svg.setAttribute("role", "group"); // its nodes can be chosen, so it is no longer one image
    for (const g of nodes.values()) {
      const told = g.querySelector("title");
      g.setAttribute("role", "button");
      g.setAttribute("tabindex", "-1");
      g.setAttribute("aria-label", told ? told.textContent : g.dataset.id);
    }
    return { box, svg, nodes, edges, mark: null, width: view.width, height: view.height };
  });
  let level = levels[0], at = 0, x = 0, y = 0, zoom = 1, fitted = true, chosen = false;

  const place = (moving) => {
    canvas.classList.toggle("moving", Boolean(moving) && !calm());
    canvas.style.transform = `translate(${x}px, ${y}px) scale(${zoom})`;
  };
  const fit = () => {
    const margin = 18, w = stage.clientWidth, h = stage.clientHeight;
    zoom = Math.min((w - 2 * margin) / level.width, (h - 2 * margin) / level.height, 1.6);
    zoom = Math.max(zoom, 0.02);
    [x, y] = [(w - zoom * level.width) / 2, (h - zoom * level.height) / 2];
    fitted = true;
    place();
  };
  const zoomBy = (factor, px = stage.clientWidth / 2, py = stage.clientHeight / 2) => {
    const next = Math.min(8, Math.max(0.02, zoom * factor)), ratio = next / zoom;
    [x, y, zoom, fitted, chosen] = [px - (px - x) * ratio, py - (py - y) * ratio, next, false, true];
    place();
  };
  const pan = (dx, dy) => {
    [x, y, fitted] = [x + dx, y + dy, false];
    place();
  };

  // the node of this depth that stands for node i of the full graph, or undefined
  const seen = (i) => {
    const inside = data.levels[at].inside[i];
    return inside === undefined ? data.nodes[i].id : inside;
  };
  const draw = (parent, name, attributes, text) => {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    return parent.appendChild(element);
  };
  // a small sign with its middle at (cx, cy); with `side`, its left (1) or right (-1) end at cx
  const sign = (parent, text, cx, cy, side) => {
    const box = draw(parent, "rect", { class: side ? "flag" : "chip", rx: 4 });
    const words = draw(parent, "text", { class: side ? "on" : "", y: cy + 3.5 }, text);
    const width = words.getBBox().width + 10;
    cx += (side || 0) * (width / 2);
    words.setAttribute("x", cx);
    for (const [key, value] of Object.entries({ x: cx - width / 2, y: cy - 8, width, height: 16 })) box.setAttribute(key, value);
  };
  // where along its edge each sign lies clear of the others
  const apart = (chips) => {
    const placed = [];
    for (const { halo, text } of chips) {
      const length = halo.getTotalLength(), half = 3.1 * text.length + 7;
      const points = [0.5, 0.3, 0.7, 0.15, 0.85].map((part) => halo.getPointAtLength(length * part));
      const clear = (p) => placed.every((other) => Math.abs(p.x - other.x) > half + other.half || Math.abs(p.y - other.y) > 17);
      let point = points.find(clear);
      if (!point) {
        point = { x: points[0].x, y: points[0].y };
        while (!clear(point)) point.y -= 18;
      }
      placed.push({ x: point.x, y: point.y, half, text });
    }
    return placed;
  };
  const ring = (parent, g, name, pad) => {
    const b = g.getBBox();
    draw(parent, "rect", { class: name, x: b.x - pad, y: b.y - pad, width: b.width + 2 * pad, height: b.height + 2 * pad, rx: 9 });
    return b;
  };
  const marked = [];
  const mark = (step, picked) => {
    for (const each of marked.splice(0)) each.remove();
    for (const g of level.nodes.values()) g.removeAttribute("aria-current");
    const layer = draw(level.svg.querySelector("g"), "g", { class: "viz-mark", "aria-hidden": "true" });
    marked.push(layer);
    const other = picked && level.nodes.get(picked);
    if (other) ring(layer, other, "picked", 9);
    const g = step && level.nodes.get(seen(step.node));
    if (!g) return null;
    const halos = draw(layer, "g", {}), chips = [];
    for (const [from, to, slot, text, skip] of step.edges) {
      const source = seen(from), target = seen(to);
      if (source === target) continue;
      const whole = source === data.nodes[from].id && target === data.nodes[to].id;
      const same = level.edges.filter((edge) => edge.dataset.source === source && edge.dataset.target === target);
      const alike = (edge) => (whole ? edge.dataset.slot === String(slot) : edge.classList.contains("skip") === skip);
      const edge = same.find(alike) || same[0], path = edge && edge.querySelector("path");
      if (!path || chips.some((chip) => chip.path === path)) continue;
      chips.push({ path, text, halo: draw(halos, "path", { class: "halo", d: path.getAttribute("d") }) });
    }
    const box = ring(layer, g, "ring", 5);
    for (const chip of apart(chips)) sign(layer, chip.text, chip.x, chip.y);
    const plus = level.svg.querySelector("g.sum"), spine = plus && plus.getBBox(); // the sign stands on the side away from the spine
    const side = spine && box.x + box.width / 2 < spine.x ? -1 : 1;
    const flag = seen(step.node) === data.nodes[step.node].id ? step.flag : `${step.title}: ${step.flag}`;
    sign(layer, flag, side < 0 ? box.x - 7 : box.x + box.width + 7, box.y + box.height / 2, side);
    g.setAttribute("aria-current", "step");
    return g;
  };
  // bring a node into view, large enough to read unless the reader chose the zoom
  const follow = (g) => {
    if (!g) return;
    const s = stage.getBoundingClientRect(), b = g.getBBox(), m = level.svg.querySelector("g").getCTM();
    const cx = m.a * (b.x + b.width / 2) + m.e, cy = m.d * (b.y + b.height / 2) + m.f; // in the picture's own pixels
    const small = zoom < READABLE && !chosen;
    const px = x + zoom * cx, py = y + zoom * cy;
    if (!small && px > 90 && py > 70 && px < s.width - 90 && py < s.height - 60) return;
    if (small) zoom = 0.9;
    const kept = (room, size, middle) => // the node in the middle, but no empty room beside the picture
      size + 36 < room ? (room - size) / 2 : Math.min(18, Math.max(room - size - 18, room / 2 - middle));
    [x, y] = [kept(s.width, zoom * level.width, zoom * cx), kept(s.height, zoom * level.height, zoom * cy)];
    fitted = false;
    place(true);
  };
  const show = (number) => {
    at = number;
    level = levels[number];
    levels.forEach((each, i) => (each.box.hidden = i !== number));
    fit();
  };
  const tabStop = (g) => {
    for (const each of level.nodes.values()) each.setAttribute("tabindex", "-1");
    const first = g || level.nodes.values().next().value;
    if (first) first.setAttribute("tabindex", "0");
  };
  const nodeOf = (id) => level.nodes.get(id);
  const ids = () => [...level.nodes.keys()];
  const showAll = () => {
    chosen = true; // asked for: steps do not zoom in again
    fit();
  };
  return { show, fit: showAll, refit: () => fitted && fit(), zoomBy, pan, mark, follow, tabStop, nodeOf, ids, seen, at: () => at };
}

// Drag, wheel and pinch.
function makeMovable(stage, picture) {
  const fingers = new Map();
  let moved = 0, apart = 0;
  const place = (event) => {
    const box = stage.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const distance = () => {
    const [[ax, ay], [bx, by]] = [...fingers.values()];
    return Math.hypot(ax - bx, ay - by);
  };
  stage.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || event.target.closest(".viz-zoom")) return;
    fingers.set(event.pointerId, place(event));
    if (fingers.size === 1) moved = 0;
    if (fingers.size === 2) apart = distance();
  });
  stage.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId);
    if (!before) return;
    const now = place(event), [dx, dy] = [now[0] - before[0], now[1] - before[1]];
    moved += Math.abs(dx) + Math.abs(dy);
    if (moved < 5) return; // a click, not yet a drag
    fingers.set(event.pointerId, now);
    stage.setPointerCapture(event.pointerId);
    stage.classList.add("dragging");
    picture.pan(dx / fingers.size, dy / fingers.size);
    if (fingers.size === 2) {
      const [a, b] = [...fingers.values()], next = distance();
      if (apart > 0) picture.zoomBy(next / apart, (a[0] + b[0]) / 2, (a[1] + b[1]) / 2);
      apart = next;
    }
  });
  const end = (event) => {
    fingers.delete(event.pointerId);
    if (!fingers.size) stage.classList.remove("dragging");
  };
  for (const name of ["pointerup", "pointercancel"]) stage.addEventListener(name, end);
  stage.addEventListener("wheel", (event) => {
    if (window.parent !== window && !event.ctrlKey && !document.hasFocus()) return; // inside a notebook: do not hold up its scrolling
    event.preventDefault();
    const [px, py] = place(event), unit = event.deltaMode === 1 ? 16 : 1;
    if (event.ctrlKey || event.metaKey) picture.zoomBy(Math.exp(-event.deltaY * unit * 0.008), px, py);
    else picture.pan(-(event.shiftKey && !event.deltaX ? event.deltaY : event.deltaX) * unit, event.shiftKey && !event.deltaX ? 0 : -event.deltaY * unit);
  }, { passive: false });
  return { wasDrag: () => moved >= 5 };
}
