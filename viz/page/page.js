// One figure: the steps forward and backward, the words for each, and the keys.
const PAUSE = 1100; // milliseconds between steps while playing

function start(root) {
  const find = (selector) => root.querySelector(selector);
  const data = JSON.parse(find(".viz-data").textContent);
  const stage = find(".viz-stage"), slider = find(".viz-slider"), last = data.steps.length;
  const motion = window.matchMedia("(prefers-reduced-motion: reduce)");
  const picture = makePicture(stage, find(".viz-canvas"), data, () => motion.matches);
  const movable = makeMovable(stage, picture);
  const place = new Map(data.nodes.map((node, i) => [node.id, i]));
  let at = 0, picked = null, timer = null;

  const element = (name, text, kind) => {
    const made = document.createElement(name);
    made.textContent = text; // never markup: all of it may be the reader's own words
    if (kind) made.className = kind;
    return made;
  };
  const counted = () => `${at} / ${last}, ${at ? data.steps[at - 1].phase : "start"}`;

  function tell() {
    const step = at ? data.steps[at - 1] : data.start;
    find(".viz-what").textContent = step.title;
    find(".viz-where").textContent = step.where;
    find(".viz-text").replaceChildren(...step.lines.map(([kind, text, numbers]) => {
      const line = element("p", numbers ? `${text}: ` : text, kind);
      if (numbers) line.append(element("span", numbers, "numbers"));
      return line;
    }));
    find(".viz-count").textContent = counted();
    slider.value = String(at);
    slider.setAttribute("aria-valuetext", `${counted()}: ${step.title}`);
    root.classList.toggle("forward", step.phase === "forward");
    root.classList.toggle("backward", step.phase === "backward");
    for (const name of ["first", "back"]) find(`[data-do=${name}]`).disabled = at === 0;
    for (const name of ["next", "last"]) find(`[data-do=${name}]`).disabled = at === last;
  }
  function describe(id) {
    const box = find(".viz-about"), i = place.get(id), node = i === undefined ? data.levels[picture.at()].nodes[id] : data.nodes[i];
    box.hidden = !node;
    if (!node) return;
    box.querySelector("h3").textContent = picked ? `Details of ${node.name}` : "Details";
    box.querySelector("dl").replaceChildren(...node.rows.flatMap(([term, text]) => [element("dt", term), element("dd", text)]));
    const jumps = data.steps.flatMap((step, number) => (step.node === i ? [[step.phase, number + 1]] : []));
    box.querySelector(".viz-jumps").replaceChildren(...jumps.map(([phase, number]) => {
      const button = element("button", `${phase} step ${number}`);
      button.type = "button";
      button.addEventListener("click", () => go(number));
      return button;
    }));
  }
  function draw(following) {
    const step = at ? data.steps[at - 1] : null, g = picture.mark(step, picked);
    picture.tabStop(picked ? picture.nodeOf(picked) : g);
    if (following) picture.follow(g);
  }
  function go(number) {
    at = Math.min(last, Math.max(0, number));
    picked = null;
    tell();
    describe(at ? data.nodes[data.steps[at - 1].node].id : "");
    draw(true);
  }
  function choose(id) {
    picked = id;
    describe(id);
    draw(false);
    const terms = find(".viz-about h3").textContent;
    find("[role=status]").textContent = `${terms}: ${[...root.querySelectorAll(".viz-about dd")].slice(0, 4).map((dd) => dd.textContent).join(", ")}`;
  }
  function stop() {
    clearTimeout(timer);
    timer = null;
    root.classList.remove("playing");
    find("[data-do=play]").setAttribute("aria-label", "play");
  }
  function play() {
    if (timer !== null) return stop();
    if (at === last) go(0);
    go(at + 1);
    if (motion.matches || at === last) return; // nothing runs by itself for a reader who asked for no motion
    const tick = () => {
      go(at + 1);
      if (at === last) stop();
      else timer = setTimeout(tick, PAUSE);
    };
    timer = setTimeout(tick, PAUSE);
    root.classList.add("playing");
    find("[data-do=play]").setAttribute("aria-label", "pause");
  }
  function show(number) {
    if (number >= data.levels.length) return;
    picture.show(number);
    root.querySelectorAll(".viz-depths button").forEach((b, i) => b.setAttribute("aria-pressed", String(i === number)));
    if (picked && !picture.nodeOf(picked)) picked = null;
    draw(at > 0);
  }
  function walk(by) {
    const ids = picture.ids(), current = ids.indexOf(document.activeElement.dataset.id);
    const next = picture.nodeOf(ids[Math.min(ids.length - 1, Math.max(0, current + by))]);
    picture.tabStop(next);
    picture.follow(next);
    next.focus({ preventScroll: true });
  }
  function theme() {
    root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
  }

  const hand = (action) => () => (stop(), action());
  const actions = {
    first: hand(() => go(0)), back: hand(() => go(at - 1)), next: hand(() => go(at + 1)), last: hand(() => go(last)), play,
    in: () => picture.zoomBy(1.25), out: () => picture.zoomBy(0.8), fit: picture.fit, theme,
  };
  root.addEventListener("click", (event) => {
    const button = event.target.closest("[data-do]"), depth = event.target.closest("[data-depth]");
    const node = event.target.closest("g[data-id]");
    if (button) actions[button.dataset.do]();
    else if (depth) show(Number(depth.dataset.depth));
    else if (node && !movable.wasDrag()) choose(node.dataset.id);
  });
  slider.addEventListener("input", hand(() => go(Number(slider.value))));

  const keys = { ArrowRight: actions.next, ArrowLeft: actions.back, Home: actions.first, End: actions.last,
    "+": actions.in, "=": actions.in, "-": actions.out, "−": actions.out, 0: actions.fit };
  const moves = { ArrowRight: [-60, 0], ArrowLeft: [60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
  document.addEventListener("keydown", (event) => {
    const focus = document.activeElement, node = focus && focus.closest && focus.closest("g[data-id]");
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    let action = null;
    if (event.shiftKey && moves[event.key]) action = () => picture.pan(...moves[event.key]);
    else if (focus === slider && event.key !== " " && !/^[0-9+=−-]$/.test(event.key)) return; // the slider's own keys do the same
    else if (event.key === " ") action = focus && focus.tagName === "BUTTON" ? null : play;
    else if (node && event.key === "Enter") action = () => choose(node.dataset.id);
    else if (node && event.key === "ArrowDown") action = () => walk(1);
    else if (node && event.key === "ArrowUp") action = () => walk(-1);
    else if (/^[1-9]$/.test(event.key)) action = () => show(Number(event.key) - 1);
    else action = keys[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });

  if (root.dataset.theme === "auto") {
    const dark = window.matchMedia("(prefers-color-scheme: dark)"), follow = () => (root.dataset.theme = dark.matches ? "dark" : "light");
    follow();
    dark.addEventListener("change", follow);
  }
  motion.addEventListener("change", stop);
  new ResizeObserver(picture.refit).observe(stage);
  root.classList.add("ready");
  picture.show(0);
  go(0);
}

for (const root of document.querySelectorAll("main.viz")) start(root);
