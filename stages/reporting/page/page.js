for (const head of document.querySelectorAll("table.sortable th")) {
  head.addEventListener("click", () => {
    const table = head.closest("table"), column = head.cellIndex;
    const up = head.getAttribute("aria-sort") === "descending";
    for (const other of table.querySelectorAll("th")) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const text = (row) => row.cells[column].textContent.trim();
    const compare = (a, b) => {
      const [x, y] = [parseFloat(text(a)), parseFloat(text(b))];
      return Number.isNaN(x) || Number.isNaN(y) ? text(a).localeCompare(text(b)) : x - y;
    };
    const rows = [...table.tBodies[0].rows].sort(compare);
    table.tBodies[0].append(...(up ? rows : rows.reverse()));
  });
}
