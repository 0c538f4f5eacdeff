"use strict";
// A click on a heading sorts its table: numbers descending and words ascending first, then the reverse.
const order = (a, b) => {
  const [x, y] = [Number(a), Number(b)];
  if (a !== "" && b !== "" && !Number.isNaN(x) && !Number.isNaN(y)) return x - y;
  return a.localeCompare(b, undefined, { numeric: true });
};
for (const table of document.querySelectorAll("table")) {
  const heads = [...table.querySelectorAll("thead tr:last-child th")];
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const first = head.classList.contains("number") ? "descending" : "ascending";
    const other = first === "ascending" ? "descending" : "ascending";
    const direction = head.getAttribute("aria-sort") === first ? other : first;
    heads.forEach((each) => each.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", direction);
    const sign = direction === "ascending" ? 1 : -1;
    const value = (row) => row.cells[column].dataset.value;
    const rows = [...table.tBodies[0].rows];
    const blank = (row) => value(row) === "";
    rows.sort((a, b) => blank(a) - blank(b) || sign * order(value(a), value(b)));  // blanks are always last
    table.tBodies[0].append(...rows);
  }));
}
