// What stands in the way of people who cannot see, or not well, or use no mouse: a list of texts, empty where nothing does.
const faults = [];
const all = (selector) => [...document.querySelectorAll(selector)];
const told = (node) => `${node.tagName.toLowerCase()}${node.id ? `#${node.id}` : ""}.${node.getAttribute("class") || ""} ${(node.textContent || "").trim().slice(0, 40)}`;

// Every id is there once, and what is referred to is there.
const ids = all("[id]").map((node) => node.id);
for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) faults.push(`id ${id} is there twice`);
for (const name of ["aria-labelledby", "aria-describedby"]) {
  for (const node of all(`[${name}]`)) {
    for (const id of node.getAttribute(name).split(" ")) if (!document.getElementById(id)) faults.push(`${told(node)}: no element ${id}`);
  }
}

// Landmarks and headings.
for (const tag of ["main", "h1", "header.top", "footer", "title"]) {
  if (all(tag).length !== 1) faults.push(`${all(tag).length} of ${tag}`);
}
if (!document.documentElement.lang) faults.push("no language");
let level = 0;
for (const heading of all("h1, h2, h3, h4, h5, h6")) {
  const next = Number(heading.tagName[1]);
  if (next > level + 1) faults.push(`h${level} is followed by h${next}: ${told(heading)}`);
  level = next;
}
for (const section of all("section, nav, form")) {
  if (!section.getAttribute("aria-labelledby") && !section.getAttribute("aria-label")) faults.push(`no name: ${told(section)}`);
}

// Controls have names, pictures have none because they say nothing that text does not.
for (const node of all("input, select")) if (!node.labels.length || !node.labels[0].textContent.trim()) faults.push(`no label: ${told(node)}`);
for (const node of all("button, a, summary")) if (!node.textContent.trim()) faults.push(`no name: ${told(node)}`);
for (const node of all("fieldset")) if (!node.querySelector("legend")) faults.push(`no legend: ${told(node)}`);
for (const node of all("svg")) if (node.getAttribute("aria-hidden") !== "true") faults.push(`not hidden: ${told(node)}`);
for (const node of all("[tabindex]")) if (node.tabIndex > 0) faults.push(`out of order: ${told(node)}`);

// Tables have names, and heads that say of what.
for (const table of all("table")) {
  if (!table.caption && !table.getAttribute("aria-labelledby")) faults.push(`no caption: ${told(table)}`);
  for (const head of table.querySelectorAll("th")) if (!head.scope) faults.push(`no scope: ${told(head)}`);
}

// Contrast of text as it is seen: 4.5 to 1, or 3 to 1 where it is large.
const channels = (text) => {
  const numbers = text.match(/[\d.]+/g).map(Number);
  return { rgb: numbers.slice(0, 3), alpha: numbers.length > 3 ? numbers[3] : 1 };
};
const over = (top, below) => top.rgb.map((value, at) => value * top.alpha + below[at] * (1 - top.alpha));
const luminance = (rgb) => {
  const [r, g, b] = rgb.map((value) => value / 255).map((value) => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const background = (node) => {
  if (!node) return [255, 255, 255];
  const colour = channels(getComputedStyle(node).backgroundColor);
  return colour.alpha === 1 ? colour.rgb : over(colour, background(node.parentElement));
};
let measured = 0;
for (const node of all("body *")) {
  const isText = [...node.childNodes].some((child) => child.nodeType === Node.TEXT_NODE && child.data.trim());
  if (!isText || !node.checkVisibility() || node.closest("script, .unseen, option")) continue;
  const style = getComputedStyle(node);
  const behind = background(node);
  const [light, dark] = [luminance(over(channels(style.color), behind)), luminance(behind)].sort((a, b) => b - a);
  const ratio = (light + 0.05) / (dark + 0.05);
  const size = parseFloat(style.fontSize);
  const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
  measured += 1;
  if (ratio < (isLarge ? 3 : 4.5)) faults.push(`contrast ${ratio.toFixed(2)}: ${told(node)}`);
}
if (measured < 20) faults.push(`only ${measured} texts were measured`);
return faults;
