// Sliders that take any whole number, each with a field beside it; the figure's own script redraws.
const data = JSON.parse(document.getElementById("data").textContent), stage = document.getElementById("walk");
const settings = { ...data.settings };
stage.innerHTML = data.first;
for (const box of document.querySelectorAll("[data-name]")) {
  box.addEventListener("input", () => {
    const asked = Math.round(Number(box.value));
    if (box.value === "" || !(asked >= Number(box.min) && asked <= Number(box.max))) return;
    for (const other of box.parentElement.querySelectorAll("input")) if (other !== box) other.value = asked;
    settings[box.dataset.name] = asked;
    redraw(stage, settings);
  });
}
