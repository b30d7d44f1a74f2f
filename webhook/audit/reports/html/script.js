"use strict";
// The table. Texts become text nodes and nothing else; state lives in the URL's fragment.
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const CHUNK = 100; // rows that are made at a time
  const PLACE = "findings"; // id of the section, and the beginning of the fragment
  const CHOICES = ["namespace", "rule"]; // columns by which people choose
  const DETAILS = {
    field: "Field", message: "Found", remedy: "Remedy", pods: "Pods", object: "Seen in", names: "Running", line: "Policy", mode: "Mode",
    source: "Source",
  };

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
  function readState(levels) {
    const [place, query = ""] = location.hash.slice(1).split(/\?(.*)/s);
    const asked = new URLSearchParams(place === PLACE ? query : "");
    const sort = asked.get("sort") || "";
    return {
      q: asked.get("q") || "",
      chosen: Object.fromEntries(CHOICES.map((name) => [name, asked.get(name)])),
      grades: (asked.get("level") || "").split(",").filter((grade) => levels.includes(grade)),
      isNew: asked.get("change") === "new",
      column: sort.replace(/^-/, ""),
      isDescending: sort.startsWith("-"),
    };
  }

  function stateAsFragment(state) {
    const asked = new URLSearchParams();
    if (state.q) asked.set("q", state.q);
    for (const [name, value] of Object.entries(state.chosen)) if (value !== null) asked.set(name, value);
    if (state.grades.length) asked.set("level", state.grades.join(","));
    if (state.isNew) asked.set("change", "new");
    if (state.column) asked.set("sort", (state.isDescending ? "-" : "") + state.column);
    return `#${PLACE}${asked.size ? "?" : ""}${asked}`;
  }

  function matching(rows, state) {
    const words = state.q.toLowerCase().split(/\s+/).filter(Boolean);
    return rows.filter((row) =>
      CHOICES.every((name) => state.chosen[name] === null || row[name] === state.chosen[name]) &&
      (!state.grades.length || state.grades.includes(row.level)) &&
      (!state.isNew || row.change === "new") &&
      words.every((word) => row.words.includes(word)));
  }

  const collator = new Intl.Collator("en", { numeric: true });

  function sorted(rows, { column, isDescending }, levels) {
    if (!column) return rows;
    const isNumber = column === "running";
    const by = (row) => column === "level" ? levels.indexOf(row[column]) : isNumber ? Number(row[column]) : row[column];
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
    const rows = readRows(data);
    const body = table.tBodies[0];
    const form = document.getElementById("filter");
    const status = document.getElementById("status");
    const more = document.getElementById("more");
    const reset = document.getElementById("reset");
    const heads = [...table.querySelectorAll("[data-column]")].filter((head) => {
      head.hidden = !rows.some((row) => row[head.dataset.column]);
      return !head.hidden;
    });
    const columns = heads.map((head) => head.dataset.column);
    const choices = Object.fromEntries(CHOICES.map((name) => [name, fill(name)]));
    const open = new Set(); // rows whose details are shown
    let state = readState(data.levels);
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
      if (column === "level") return cell("level", make("span", { class: `badge ${text}` }, icon(text), ` ${data.words[text] || text}`));
      if (column === "owner") return make("th", { role: "rowheader", scope: "row", class: "owner" }, toggle);
      if (column === "rule") return cell("rule", make("a", { href: `#rule-${text}` }, make("code", {}, text)));
      if (column === "message") return cell("message", make("span", {}, data.words.refuse && row.field ? `${row.field}: ${text}` : text), ...(row.remedy ? [make("div", { class: "remedy" }, `${row.remedy}.`)] : []));
      if (column === "running") return cell("number", text ? Number(text).toLocaleString("en") : "");
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
        if (!isSelecting && !event.target.closest("a")) toggleDetails(row, line, toggle);
      });
      return line;
    }

    function detailsRow(row) {
      const list = make("dl");
      for (const [name, title] of Object.entries(DETAILS)) {
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
        state.grades.map((grade) => data.words[grade] || grade).join(" or "),
        state.isNew && "newly refused",
        ...["rule", "namespace"].map((name) => state.chosen[name] !== null && (state.chosen[name] ? `${name} ${state.chosen[name]}` : `in no ${name}`)),
        state.q && `with “${state.q}”`,
      ].filter(Boolean);
    }

    function told(parts) {
      const all = `${rows.length.toLocaleString("en")} finding${rows.length === 1 ? "" : "s"}`;
      const left = rows.length - shown.length;
      if (!parts.length && left) return `${shown.length.toLocaleString("en")} of ${all}: ${left.toLocaleString("en")} that run and would only be completed are folded away`;
      if (parts.length) return `${shown.length.toLocaleString("en")} of ${all}: ${parts.join(", ")}`;
      return rows.length === 1 ? all : `All ${all}`;
    }

    function show() {
      const parts = chosen();
      shown = sorted(matching(rows, state).filter((row) => parts.length || !data.folded.includes(row.level)), state, data.levels);
      made = 0;
      body.replaceChildren();
      makeRows(CHUNK);
      if (!shown.length) {
        body.append(make("tr", { role: "row", class: "nothing" }, make("td", { role: "cell", colspan: columns.length }, "No finding is like this.")));
      }
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
      for (const box of form.querySelectorAll("[name=level]")) box.checked = state.grades.includes(box.value);
      for (const box of form.querySelectorAll("[name=change][value=new]")) box.checked = state.isNew;
    }

    function readControls() {
      const choice = (name) => form.elements[name].value === "" ? null : choices[name][form.elements[name].value];
      return {
        ...state,
        q: form.elements.q.value.trim(),
        chosen: Object.fromEntries(CHOICES.map((name) => [name, choice(name)])),
        grades: [...form.querySelectorAll("[name=level]:checked")].map((box) => box.value),
        isNew: form.querySelector("[name=change][value=new]:checked") !== null,
      };
    }

    // Browsers limit how often the URL may be changed, so that it follows typing a little later.
    let writing = 0;
    function writeFragment() {
      clearTimeout(writing);
      writing = setTimeout(() => { try { history.replaceState(null, "", stateAsFragment(state)); } catch { /* not here */ } }, 200);
    }

    function change(to) {
      state = to;
      show();
      writeFragment();
    }

    function sortBy(column) {
      if (state.column !== column) change({ ...state, column, isDescending: column === "running" });
      else if (state.isDescending === (column === "running")) change({ ...state, isDescending: !state.isDescending });
      else change({ ...state, column: "", isDescending: false });
    }

    function readFragment() {
      if (!location.hash.startsWith(`#${PLACE}?`)) return;
      clearTimeout(writing);
      state = readState(data.levels);
      if (!columns.includes(state.column)) state.column = "";
      showControls();
      show();
      document.getElementById(PLACE).scrollIntoView();
    }

    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", () => change(readControls()));
    reset.addEventListener("click", () => {
      const chosen = Object.fromEntries(CHOICES.map((name) => [name, null]));
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
