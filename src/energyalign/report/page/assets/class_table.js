// The table of classes: click a column's name to sort, type to search.

class ClassTable {
  constructor(table, search, status) {
    this.table = table;
    this.search = search;
    this.status = status;
    this.sorted = { column: null, down: true };
    search.addEventListener("input", () => this.draw());
  }

  // rows: arrays of strings and numbers; null for missing values.
  show(columns, rows) {
    this.rows = rows;
    if (JSON.stringify(columns) !== JSON.stringify(this.columns)) {
      this.columns = columns;
      this.sorted = { column: null, down: true };
      this.drawHead();
    }
    this.draw();
  }

  drawHead() {
    const row = element("tr");
    this.heads = this.columns.map(({ name }, i) => {
      const head = element("th", { scope: "col" });
      const button = element("button", { type: "button", textContent: name });
      button.addEventListener("click", () => this.sortBy(i));
      head.append(button);
      if (i === 0) head.className = "text";
      return head;
    });
    row.append(...this.heads);
    this.table.tHead.replaceChildren(row);
  }

  sortBy(column) {
    const again = this.sorted.column === column;
    // First click: numbers descending, names ascending.
    this.sorted = { column, down: again ? !this.sorted.down : column !== 0 };
    this.draw();
  }

  draw() {
    const { column, down } = this.sorted;
    const wanted = this.search.value.trim().toLowerCase();
    let rows = this.rows.filter((row) => String(row[0]).toLowerCase().includes(wanted));
    if (column !== null) {
      const sign = down ? -1 : 1;
      rows = [...rows].sort((a, b) => {
        const [x, y] = [a[column], b[column]];
        if (x === null || y === null) return (x === null) - (y === null); // missing values last
        return sign * (typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y);
      });
    }
    this.heads.forEach((head, i) => {
      if (i === column) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    this.table.tBodies[0].replaceChildren(...rows.map((row) => this.drawRow(row)));
    this.status.textContent = `${rows.length.toLocaleString("en")} of ${this.rows.length.toLocaleString("en")} classes`;
  }

  drawRow(row) {
    const line = element("tr");
    line.append(
      ...row.map((value, i) =>
        i === 0
          ? element("th", { scope: "row", className: "text", textContent: value })
          : element("td", { textContent: value === null ? "–" : this.columns[i].form(value) })
      )
    );
    return line;
  }
}

function element(name, properties = {}) {
  return Object.assign(document.createElement(name), properties);
}
