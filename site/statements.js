// Shows the rows of the table of statements that match every filter.
const table = document.getElementById("statements");
const filters = [...table.querySelectorAll("thead input, thead select")];

function select() {
  let shown = 0;
  for (const row of table.tBodies[0].rows) {
    const matches = filters.every((filter, column) => {
      const text = row.cells[column].textContent;
      if (filter.tagName === "SELECT") return filter.value === "" || text === filter.value;
      return text.toLowerCase().includes(filter.value.toLowerCase());
    });
    row.hidden = !matches;
    shown += matches;
  }
  document.getElementById("shown").textContent = shown;
}

for (const filter of filters) filter.addEventListener("input", select);
