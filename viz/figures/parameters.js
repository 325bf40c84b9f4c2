// The formulas of parameters.py, and the drawing that Python made brought to the numbers that they give.
function count({ layers: n, width: d, vocabulary, context }) {
  return { tokens: vocabulary * d, positions: context * d, attention: n * (4 * d * d + 4 * d), ffn: n * (8 * d * d + 5 * d), norms: n * 4 * d + 2 * d };
}

function redraw(root, settings) {
  const { layers, width, heads } = settings, parts = count(settings);
  const total = Object.values(parts).reduce((a, b) => a + b), blocks = total - parts.tokens - parts.positions - 2 * width;
  const comma = (number) => number.toLocaleString("en-US");
  const percent = (part) => (Math.floor((1000 * part) / total + 0.5) / 10).toFixed(1) + " %";
  const set = (name, ...words) => {
    const group = root.querySelector(`[data-part="${name}"]`), texts = [...group.querySelectorAll("text")].slice(-words.length);
    texts.forEach((text, i) => (text.textContent = words[i]));
    return group;
  };
  for (const [name, part] of Object.entries(parts)) {
    const [whole, bar] = set(name, comma(part), percent(part)).querySelectorAll("rect");
    bar.setAttribute("width", ((Number(whole.getAttribute("width")) * part) / total).toFixed(2));
  }
  set("total", comma(total));
  set("block", comma(blocks / layers));
  set("blocks", comma(blocks));
  set("12 N d²", comma(12 * layers * width * width));
  const split = width % heads === 0
    ? `${comma(heads)} heads of ${comma(width / heads)}: any other number of heads gives the same count.`
    : `${comma(heads)} heads do not divide ${comma(width)}, so no such model can be built; heads are in no formula.`;
  root.querySelector(".tf-words").textContent =
    `${comma(total)} parameters: ${comma(blocks)} (${percent(blocks)}) in ${comma(layers)} block${layers > 1 ? "s" : ""} of ` +
    `${comma(blocks / layers)}, and ${comma(total - blocks)} (${percent(total - blocks)}) outside. ${split}`;
}
