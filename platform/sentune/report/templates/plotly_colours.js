const dark = matchMedia("(prefers-color-scheme: dark)");
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const recolour = () => {
  for (const drawing of document.querySelectorAll(".js-plotly-plot")) {
    const change = {paper_bgcolor: colour("--paper"), plot_bgcolor: colour("--raised"),
      "font.color": colour("--ink")};
    for (const axis of Object.keys(drawing.layout).filter(key => /^[xy]axis/.test(key)))
      Object.assign(change, {[axis + ".gridcolor"]: colour("--line"),
        [axis + ".linecolor"]: colour("--line"), [axis + ".zerolinecolor"]: colour("--line")});
    Plotly.relayout(drawing, change);
  }
};
dark.addEventListener("change", recolour);
addEventListener("load", recolour);
