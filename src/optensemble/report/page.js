"use strict";
// A click on a heading sorts its table: numbers descending and words ascending first, then the reverse.
const order = (a, b) => {
  const [x, y] = [Number(a), Number(b)];
  if (a !== "" && b !== "" && !Number.isNaN(x) && !Number.isNaN(y)) return x - y;
  return a.localeCompare(b, undefined, { numeric: true });
};
const headsOf = (table) => [...table.querySelectorAll("thead tr:last-child th")];
const sortTable = (table, column, direction) => {
  headsOf(table).forEach((head, at) => {
    if (at === column) head.setAttribute("aria-sort", direction);
    else head.removeAttribute("aria-sort");
  });
  const sign = direction === "ascending" ? 1 : -1;
  const value = (row) => row.cells[column].dataset.value;
  const rows = [...table.tBodies[0].rows];
  const blank = (row) => value(row) === "";
  rows.sort((a, b) => blank(a) - blank(b) || sign * order(value(a), value(b)));  // blanks are always last
  table.tBodies[0].append(...rows);
};
document.addEventListener("click", (event) => {
  const head = event.target.closest("thead button")?.closest("th");
  if (!head) return;
  const first = head.classList.contains("number") ? "descending" : "ascending";
  const other = first === "ascending" ? "descending" : "ascending";
  sortTable(head.closest("table"), head.cellIndex, head.getAttribute("aria-sort") === first ? other : first);
});
