// Looks up the frames of the settings that the reader chose. Every frame was computed by the engine.
const data = JSON.parse(document.getElementById("data").textContent);
const chosen = data.controls.map((control) => control.at);
const here = () => {
  const index = data.controls.reduce((sum, control, i) => sum * control.count + chosen[i], 0);
  return texts(data.states[index], data.pool);
};
const walker = walk(document.getElementById("walk"), here(), 0, () => {});
for (const input of document.querySelectorAll("[data-control]")) {
  const i = Number(input.dataset.control);
  input.addEventListener("input", () => {
    chosen[i] = input.type === "checkbox" ? Number(input.checked) : Number(input.value);
    const told = input.parentElement.querySelector("output");
    if (told) told.textContent = data.controls[i].words[chosen[i]];
    walker.replace(here());
  });
}
