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
