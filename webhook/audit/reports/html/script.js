"use strict";
// The table. Texts become text nodes and nothing else; state lives in the URL's fragment.
// What the table is about stands in the data beside its rows: `about` says the `noun` for a row, the `place` in the
// fragment, the `graded` column with its `grades` in order, the columns to choose by, those with numbers, and `details`.
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const CHUNK = 100; // rows that are made at a time

  function make(tag, properties = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  }

  function icon(name) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("class", "icon");
    svg.setAttribute("aria-hidden", "true");
    const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
    use.setAttribute("href", `#icon-${name}`);
    svg.append(use);
    return svg;
  }

  function readRows({ columns, texts, rows }) {
    return rows.map((places, index) => {
      const row = { index };
      columns.forEach((column, at) => { row[column] = texts[places[at]]; });
      row.owner = `${row.kind} ${row.name}`;
      row.words = columns.map((column) => row[column]).join("\n").toLowerCase();
      return row;
    });
  }

  // State: what is asked for. null means everything, "" stands for objects in no namespace.
  function readState(about) {
    const [place, query = ""] = location.hash.slice(1).split(/\?(.*)/s);
    const asked = new URLSearchParams(place === about.place ? query : "");
    const sort = asked.get("sort") || "";
    return {
      q: asked.get("q") || "",
      chosen: Object.fromEntries(about.choices.map((name) => [name, asked.get(name)])),
      grades: (asked.get(about.graded) || "").split(",").filter((grade) => about.grades.includes(grade)),
      isNew: asked.get("change") === "new",
      column: sort.replace(/^-/, ""),
      isDescending: sort.startsWith("-"),
    };
  }

  function stateAsFragment(state, about) {
    const asked = new URLSearchParams();
    if (state.q) asked.set("q", state.q);
    for (const [name, value] of Object.entries(state.chosen)) if (value !== null) asked.set(name, value);
    if (state.grades.length) asked.set(about.graded, state.grades.join(","));
    if (state.isNew) asked.set("change", "new");
    if (state.column) asked.set("sort", (state.isDescending ? "-" : "") + state.column);
    return `#${about.place}${asked.size ? "?" : ""}${asked}`;
  }

  function matching(rows, state, about) {
    const words = state.q.toLowerCase().split(/\s+/).filter(Boolean);
    return rows.filter((row) =>
      about.choices.every((name) => state.chosen[name] === null || row[name] === state.chosen[name]) &&
      (!state.grades.length || state.grades.includes(row[about.graded])) &&
      (!state.isNew || row.change === "new") &&
      words.every((word) => row.words.includes(word)));
  }

  const collator = new Intl.Collator("en", { numeric: true });

  function sorted(rows, { column, isDescending }, about) {
    if (!column) return rows;
    const isNumber = about.numbers.includes(column);
    const by = (row) => column === about.graded ? about.grades.indexOf(row[column]) : isNumber ? Number(row[column]) : row[column];
    const compare = (a, b) => typeof a === "number" ? a - b : collator.compare(a, b);
    const sign = isDescending ? -1 : 1;
    return rows.map((row) => [by(row), row])
      .sort(([a, one], [b, other]) => sign * compare(a, b) || one.index - other.index)
      .map(([, row]) => row);
  }

  function startTable() {
    const table = document.getElementById("table");
    if (!table) return;
    const data = JSON.parse(document.getElementById("data").textContent);
    const about = data.about;
    const rows = readRows(data);
    const body = table.tBodies[0];
    const form = document.getElementById("filter");
    const status = document.getElementById("status");
    const more = document.getElementById("more");
    const reset = document.getElementById("reset");
    const heads = [...table.querySelectorAll("[data-column]")];
    const columns = heads.map((head) => head.dataset.column);
    const choices = Object.fromEntries(about.choices.map((name) => [name, fill(name)]));
    const open = new Set(); // rows whose details are shown
    let state = readState(about);
    let shown = [];
    let made = 0;

    function fill(name) {
      const tally = new Map();
      for (const row of rows) tally.set(row[name], (tally.get(row[name]) || 0) + 1);
      const values = [...tally.keys()].sort(collator.compare);
      values.forEach((value, at) => form.elements[name].append(
        make("option", { value: at }, `${value || `no ${name}`} (${tally.get(value).toLocaleString("en")})`)));
      return values;
    }

    function summaryCell(row, column, toggle) {
      const cell = (name, ...children) => make("td", { role: "cell", class: name }, ...children);
      const text = row[column];
      if (column === about.graded) return cell("level", make("span", { class: `badge ${text}` }, icon(text), ` ${about.titles[text] || text}`));
      if (column === "owner") return make("th", { role: "rowheader", scope: "row", class: "owner" }, toggle);
      if (column === "rule") return cell("rule", make("code", {}, text));
      if (column === "message") return cell("message", make("span", {}, text), ...(row.remedy ? [make("div", { class: "remedy" }, `${row.remedy}.`)] : []));
      if (about.numbers.includes(column)) return cell("number", text ? Number(text).toLocaleString("en") : "");
      return cell(column, text);
    }

    function summaryRow(row) {
      const isOpen = open.has(row);
      const toggle = make("button", { type: "button", class: "toggle", "aria-expanded": isOpen, "aria-controls": `details-${row.index}` },
        make("span", {}, make("span", { class: "kind" }, row.kind), " ", row.name));
      const line = make("tr", { role: "row", class: "finding", "data-index": row.index },
        ...columns.map((column) => summaryCell(row, column, toggle)));
      if (row.change === "new") line.cells[0].append(" ", make("span", { class: "badge new" }, "new"));
      line.addEventListener("click", (event) => {
        const isSelecting = String(getSelection()) !== "" && !event.target.closest("button");
        if (!isSelecting) toggleDetails(row, line, toggle);
      });
      return line;
    }

    function detailsRow(row) {
      const list = make("dl");
      for (const [name, title] of about.details) {
        if (row[name]) list.append(make("div", { class: name }, make("dt", {}, title), make("dd", {}, row[name])));
      }
      return make("tr", { role: "row", class: "details", id: `details-${row.index}` },
        make("td", { role: "cell", colspan: columns.length }, list));
    }

    function toggleDetails(row, line, toggle) {
      if (open.delete(row)) line.nextElementSibling.remove();
      else { open.add(row); line.after(detailsRow(row)); }
      toggle.setAttribute("aria-expanded", open.has(row));
    }

    function makeRows(count) {
      const lines = document.createDocumentFragment();
      for (const row of shown.slice(made, made + count)) {
        lines.append(summaryRow(row));
        if (open.has(row)) lines.append(detailsRow(row));
      }
      made = Math.min(made + count, shown.length);
      body.append(lines);
      more.parentElement.hidden = made === shown.length;
    }

    function chosen() {
      return [
        state.grades.map((grade) => about.titles[grade] || grade).join(" or "),
        state.isNew && "newly refused",
        ...about.choices.toReversed().map((name) => state.chosen[name] !== null && (state.chosen[name] ? `${name} ${state.chosen[name]}` : `in no ${name}`)),
        state.q && `with “${state.q}”`,
      ].filter(Boolean);
    }

    function told(parts) {
      const all = `${rows.length.toLocaleString("en")} ${about.noun}${rows.length === 1 ? "" : "s"}`;
      if (parts.length) return `${shown.length.toLocaleString("en")} of ${all}: ${parts.join(", ")}`;
      return rows.length === 1 ? all : `All ${all}`;
    }

    function show() {
      shown = sorted(matching(rows, state, about), state, about);
      made = 0;
      body.replaceChildren();
      makeRows(CHUNK);
      if (!shown.length) {
        body.append(make("tr", { role: "row", class: "nothing" }, make("td", { role: "cell", colspan: columns.length }, `No ${about.noun} is like this.`)));
      }
      const parts = chosen();
      status.textContent = told(parts);
      reset.hidden = !parts.length;
      for (const head of heads) {
        const isSorted = head.dataset.column === state.column;
        if (isSorted) head.setAttribute("aria-sort", state.isDescending ? "descending" : "ascending");
        else head.removeAttribute("aria-sort");
      }
    }

    function showControls() {
      form.elements.q.value = state.q;
      for (const [name, values] of Object.entries(choices)) {
        const at = state.chosen[name] === null ? -1 : values.indexOf(state.chosen[name]);
        form.elements[name].value = at < 0 ? "" : String(at);
      }
      for (const box of form.querySelectorAll(`[name=${about.graded}]`)) box.checked = state.grades.includes(box.value);
      for (const box of form.querySelectorAll("[name=change][value=new]")) box.checked = state.isNew;
    }

    function readControls() {
      const choice = (name) => form.elements[name].value === "" ? null : choices[name][form.elements[name].value];
      return {
        ...state,
        q: form.elements.q.value.trim(),
        chosen: Object.fromEntries(about.choices.map((name) => [name, choice(name)])),
        grades: [...form.querySelectorAll(`[name=${about.graded}]:checked`)].map((box) => box.value),
        isNew: form.querySelector("[name=change][value=new]:checked") !== null,
      };
    }

    // Browsers limit how often the URL may be changed, so that it follows typing a little later.
    let writing = 0;
    function writeFragment() {
      clearTimeout(writing);
      writing = setTimeout(() => { try { history.replaceState(null, "", stateAsFragment(state, about)); } catch { /* not here */ } }, 200);
    }

    function change(to) {
      state = to;
      show();
      writeFragment();
    }

    function sortBy(column) {
      if (state.column !== column) change({ ...state, column, isDescending: about.numbers.includes(column) });
      else if (state.isDescending === about.numbers.includes(column)) change({ ...state, isDescending: !state.isDescending });
      else change({ ...state, column: "", isDescending: false });
    }

    function readFragment() {
      if (!location.hash.startsWith(`#${about.place}?`)) return;
      clearTimeout(writing);
      state = readState(about);
      if (!columns.includes(state.column)) state.column = "";
      showControls();
      show();
      document.getElementById(about.place).scrollIntoView();
    }

    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", () => change(readControls()));
    reset.addEventListener("click", () => {
      const chosen = Object.fromEntries(about.choices.map((name) => [name, null]));
      change({ ...state, q: "", chosen, grades: [], isNew: false });
      showControls();
      form.elements.q.focus();
    });
    heads.forEach((head) => head.firstElementChild.addEventListener("click", () => sortBy(head.dataset.column)));
    more.addEventListener("click", () => makeRows(CHUNK));
    addEventListener("hashchange", readFragment);
    addEventListener("beforeprint", () => makeRows(shown.length));
    show();
    showControls();
    readFragment();
  }

  document.addEventListener("DOMContentLoaded", startTable);
})();
