// The texts of frames that are kept as the numbers of their lines in a pool.
const texts = (frames, pool) => frames.map((lines) => lines.map((line) => pool[line]).join("\n"));

// Walks through the frames of a figure: buttons, a range, arrow keys, play, and a click on what carries data-step.
// frames: a list of HTML texts that the engine made. Returns {show(i), replace(frames)}.
function walk(root, frames, start, moved) {
  let at = Math.min(start, frames.length - 1), timer = null;
  const bar = document.createElement("div"), stage = document.createElement("div");
  bar.className = "tf-walk";
  bar.setAttribute("role", "group");
  bar.setAttribute("aria-label", "Steps");
  const button = (text, label, act) => {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = text;
    made.setAttribute("aria-label", label);
    made.title = label;
    made.addEventListener("click", act);
    bar.append(made);
    return made;
  };
  const first = button("|←", "First step (Home)", () => go(0));
  const back = button("←", "Back (left arrow)", () => go(at - 1));
  const play = button("▶", "Play (space)", () => (timer === null ? run() : stop()));
  const next = button("→", "Next (right arrow)", () => go(at + 1));
  const range = document.createElement("input");
  range.type = "range";
  range.min = 0;
  range.setAttribute("aria-label", "Step");
  range.addEventListener("input", () => go(Number(range.value)));
  const told = document.createElement("output");
  const place = document.createElement("span"); // on a phone it stands below the buttons, as a whole
  place.className = "tf-place";
  place.append(range, told);
  bar.append(place);
  stage.setAttribute("aria-live", "polite");
  root.append(bar, stage);
  root.tabIndex = 0;

  function draw() {
    stage.innerHTML = frames[at];
    range.max = frames.length - 1;
    range.value = at;
    told.textContent = `${at + 1} of ${frames.length}`;
    // Not `disabled`: a button that is disabled while it has the focus takes the keyboard with it.
    for (const each of [first, back]) each.setAttribute("aria-disabled", String(at === 0));
    next.setAttribute("aria-disabled", String(at === frames.length - 1));
    bar.hidden = frames.length < 2;
  }
  function go(to) {
    stop();
    show(to);
  }
  function show(to) {
    const inside = Math.max(0, Math.min(frames.length - 1, to));
    if (inside === at) return;
    at = inside;
    draw();
    moved(at);
  }
  function run() {
    if (at === frames.length - 1) show(0);
    play.textContent = "❚❚";
    timer = setInterval(() => (at === frames.length - 1 ? stop() : show(at + 1)), 900);
  }
  function stop() {
    if (timer !== null) clearInterval(timer);
    timer = null;
    play.textContent = "▶";
  }
  root.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const inControl = event.target.matches("input, select, button, textarea");
    const act = { ArrowRight: () => go(at + 1), ArrowLeft: () => go(at - 1), Home: () => go(0), End: () => go(frames.length - 1) }[event.key];
    if (act && !(inControl && event.target.matches("input, select, textarea"))) {
      event.preventDefault();
      act();
    } else if (event.key === " " && !inControl) {
      event.preventDefault();
      play.click();
    }
  });
  stage.addEventListener("click", (event) => {
    const mark = event.target.closest("[data-step]");
    if (mark) go(Number(mark.dataset.step));
  });
  draw();
  return {
    show,
    replace(others) {
      stop();
      frames = others;
      at = Math.min(at, frames.length - 1);
      draw();
    },
  };
}
