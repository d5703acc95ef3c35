const charts = [...document.querySelectorAll(".chart")];
for (const chart of charts) {
  const {data, layout} = JSON.parse(chart.nextElementSibling.textContent);
  Plotly.newPlot(chart, data, layout, {responsive: true, displayModeBar: false});
}
// for printing: open collapsed tables and draw charts at the width of the paper
const folded = [...document.querySelectorAll("section > details:not([open])")];
addEventListener("beforeprint", () => {
  for (const table of folded) table.open = true;
  for (const chart of charts) Plotly.relayout(chart, {autosize: false, width: 620});
});
addEventListener("afterprint", () => {
  for (const table of folded) table.open = false;
  for (const chart of charts) Plotly.relayout(chart, {autosize: true, width: null});
});
