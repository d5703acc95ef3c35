"""How the page looks and how its tables sort. Both stand in the page: it loads nothing."""

STYLE = """
:root { color-scheme: light dark;
  --paper: #ffffff; --raised: #f6f7f8; --ink: #1c2126; --muted: #5d656d; --line: #dfe3e7;
  --accent: #2f62a3; --best: #b8344a; --good: #1f6f4a; --warn: #8a5a00; --bad: #a8322a;
  --band: #c9d9ee; }
@media (prefers-color-scheme: dark) { :root {
  --paper: #14181c; --raised: #1d2329; --ink: #e6e9ec; --muted: #a0a9b2; --line: #343c44;
  --accent: #82b1ec; --best: #f2848f; --good: #74c69d; --warn: #e3b567; --bad: #f08c83;
  --band: #2c4362; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-padding-top: 3.5rem; }
body { margin: 0 auto; padding: 0 1.25rem 4rem; max-width: 72rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
  overflow-wrap: anywhere; }
header h1 { margin: 1.5rem 0 0; font-size: 1.75rem; line-height: 1.2; }
header p { margin: .25rem 0 .75rem; color: var(--muted); }
.state { display: inline-block; padding: .1em .6em; border: 1px solid currentColor;
  border-radius: 1em; font-size: .85rem; font-weight: 600; vertical-align: .3em;
  color: var(--muted); }
.state.complete { color: var(--good); } .state.failed { color: var(--bad); }
.state.stopped, .state.interrupted { color: var(--warn); } .state.running { color: var(--accent); }
nav { display: flex; gap: .25rem 1.1rem; overflow-x: auto; position: sticky; top: 0; z-index: 9;
  padding: .5rem 0; border-bottom: 1px solid var(--line); background: var(--paper); }
header { display: contents; }
nav a { color: var(--accent); text-decoration: none; white-space: nowrap; font-size: .9rem; }
nav a:hover { text-decoration: underline; }
section { margin-top: 2.25rem; min-width: 0; }
h2 { margin: 0 0 .6rem; font-size: 1.25rem; }
p { margin: .5rem 0; max-width: 50rem; }
p.lead { font-size: 1.15rem; font-weight: 600; } p.note { color: var(--muted); font-size: .9rem; }
p.warning { padding: .5rem .8rem; border-left: 4px solid var(--warn); background: var(--raised); }
.facts { display: flex; flex-wrap: wrap; gap: .6rem; margin: 1rem 0; }
.facts div { padding: .45rem .8rem; background: var(--raised); border-radius: .4rem; }
.facts dt { color: var(--muted); font-size: .8rem; }
.facts dd { margin: 0; font-weight: 600; font-variant-numeric: tabular-nums; }
.grid { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 27rem), 1fr)); }
figure { margin: 0; padding: .8rem; min-width: 0; border: 1px solid var(--line);
  border-radius: .5rem; }
figure.wide { margin: 1rem 0; }
figcaption { font-size: .85rem; color: var(--muted); margin-bottom: .5rem; }
figcaption b { display: block; color: var(--ink); font-size: .95rem; }
.drawing { overflow-x: auto; }
.drawing svg { display: block; width: 100%; height: auto; color: var(--ink); fill: currentColor; }
figure.wide .drawing svg { min-width: 40rem; }
.drawing svg * { stroke-linejoin: round; stroke-linecap: butt; }
.drawing text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, sans-serif !important; }
svg.parallel text { paint-order: stroke; stroke: var(--paper); stroke-width: 3px; }
.scroll { overflow: auto; max-height: 38rem; margin: .75rem 0; border: 1px solid var(--line);
  border-radius: .5rem; overflow-wrap: normal; }
.scroll { width: fit-content; max-width: 100%; }
.scroll.all { width: auto; } .scroll.all table { min-width: 100%; }
.grid .scroll { margin: 0; align-self: start; }
table { border-collapse: collapse; font-size: .87rem; font-variant-numeric: tabular-nums; }
caption { caption-side: bottom; text-align: left; padding: .4rem .7rem; color: var(--muted); }
th, td { padding: .3rem .7rem; text-align: left; vertical-align: top; white-space: nowrap; }
td.wide { white-space: normal; min-width: 13rem; overflow-wrap: anywhere; }
.scroll.all td.wide { min-width: 26rem; }
th.number, td.number { text-align: right; }
thead th { position: sticky; top: 0; background: var(--raised); color: var(--muted);
  font-weight: 600; }
tbody tr + tr td { border-top: 1px solid var(--line); }
th button { all: unset; cursor: pointer; } th button:focus-visible { outline: 2px solid; }
th button::after { content: " \\2195"; opacity: .45; }
th[aria-sort=ascending] button::after { content: " \\2191"; opacity: 1; }
th[aria-sort=descending] button::after { content: " \\2193"; opacity: 1; }
details { margin: .6rem 0; } summary { cursor: pointer; color: var(--accent); font-size: .9rem; }
pre { overflow-x: auto; padding: .7rem; background: var(--raised); border-radius: .4rem;
  font-size: .82rem; white-space: pre-wrap; }
@media (max-width: 40rem) { body { padding: 0 .8rem 3rem; } header h1 { font-size: 1.4rem; }
  figure { padding: .5rem; } .scroll.all td.wide { min-width: 14rem; } }
@media print { nav { display: none; } .scroll { max-height: none; } }
"""

SCRIPT = """
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
  const keyOf = (row, place) => {
    const cell = row.cells[place], text = cell.textContent.trim();
    if (cell.dataset.key !== undefined) return Number(cell.dataset.key);
    return text === "" || text === "-" ? null : text;
  };
  const compare = (a, b) => typeof a === "number" && typeof b === "number" ? a - b
    : String(a).localeCompare(String(b), "en", {numeric: true});
  heads.forEach((head, place) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      const keyed = [...body.rows].map(row => [keyOf(row, place), row]);
      keyed.sort(([a], [b]) => a === null || b === null ? (a === null) - (b === null)
        : sign * compare(a, b));
      body.append(...keyed.map(([, row]) => row));
    });
  });
}
"""
