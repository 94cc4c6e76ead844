// The page itself: what she does, and what she is shown. Text is only ever set as text, never as HTML.
import { openBoard } from "./board.js";
import { csvText, decimalComma, parseCsv } from "./csv.js";
import { personalize, predict, refuseUnknownKind } from "./heads.js";
import { Refusal } from "./refusal.js";
import { columnsOf, encodeCell, encodeColumns, placesOf } from "./schema.js";

const MOST_FIELDS = 60; // with more, what-if values are given as a table
const MOST_SHOWN = 30;
const LONG_PASTE = 2_000; // characters; below, the browser's own way keeps undo
const byId = (id) => document.getElementById(id);
const shown = (x) => (Number.isInteger(x) && Math.abs(x) < 1e6 ? String(x) : Number(x).toPrecision(4));

function make(name, text = "", attributes = {}) {
  const node = document.createElement(name);
  node.textContent = text;
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
}

const row = (cells, name = "td") => {
  const line = document.createElement("tr");
  cells.forEach((cell, at) => line.append(make(at ? name : "th", cell, at ? { class: "number" } : { scope: "row" })));
  return line;
};

// Runs what she asked for; her mistakes become a sentence, and nothing that she typed is touched.
function tell(place, work) {
  place.textContent = "";
  try {
    work();
    return true;
  } catch (problem) {
    if (!(problem instanceof Refusal)) console.error(problem);
    place.textContent = problem instanceof Refusal ? problem.message : `This page has made a mistake of its own (${problem.message}). What you typed is still there.`;
    return false;
  }
}

function offer(name, type, text) {
  const link = make("a", "", { download: name, href: URL.createObjectURL(new Blob([text], { type })) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

async function textOf(file) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    throw new Refusal(`“${file.name}” is not text in UTF-8. Save it as CSV in UTF-8 and choose it again.`);
  }
}

const published = JSON.parse(byId("board-data").textContent);
let board = null;
let columns = null;
let model = null;
let rated = new Map(); // item → her label

// ---- her rows ---------------------------------------------------------------------------------------------------

const labelName = () => byId("label-column").value.trim() || columns.label.name;

function readTable(text, withLabels) {
  const table = parseCsv(text);
  if (!table.rows.length) throw new Refusal("There are headings, but no rows below them.");
  const label = { ...columns.label, name: labelName() };
  const comma = decimalComma(table, [...columns.features, label]), person = table.names.indexOf(columns.person);
  if (withLabels && person >= 0) {
    const people = new Set(table.rows.map((cells) => cells[person].trim()));
    if (people.size > 1) throw new Refusal(`The table has rows of ${people.size} people (column “${columns.person}”). A model is one person's: keep only your own rows.`);
  }
  const labels = withLabels ? encodeColumns(table, [label], comma).values : null;
  if (published.item === null) return { rows: encodeColumns(table, columns.features, comma), labels, table };
  const [place] = placesOf(table, [published.item]);
  const items = Int32Array.from(table.rows, (cells, number) => {
    const at = board.names.indexOf(cells[place].trim());
    if (at < 0) throw new Refusal(`Row ${number + 1} names an item that the model does not know.`);
    return at;
  });
  return { rows: { n: items.length, d: board.d, items }, labels, table };
}

function ratedRows() {
  const items = Int32Array.from(rated.keys()), labels = Float64Array.from(rated.values());
  if (!items.length) throw new Refusal("Nothing is rated yet. Write a number beside one item or more, or paste a table.");
  return { rows: { n: items.length, d: board.d, items }, labels };
}

function fit() {
  const text = byId("rows").value;
  const { rows, labels } = published.item !== null && !text.trim() ? ratedRows() : readTable(text, true);
  const started = performance.now();
  model = personalize(board, rows, labels);
  model.rows = rows;
  showModel(rows.n, performance.now() - started);
}

// ---- her model --------------------------------------------------------------------------------------------------

const KEPT = {
  head: "It is the shared model, corrected by your own rows.",
  shared: "Your rows say that the shared prediction serves you best, so it is kept as it is.",
  own: "Your own rows alone serve you clearly better than what is shared, so your model is made from them alone.",
};

function showModel(n, milliseconds) {
  byId("made").textContent = `Your model is made, from ${n.toLocaleString("en")} of your rows, in ${Math.max(1, Math.round(milliseconds))} ms. ${KEPT[model.kept]}`;
  const order = [...model.coef.keys()].sort((a, b) => Math.abs(model.coef[b]) - Math.abs(model.coef[a])).slice(0, MOST_SHOWN);
  byId("coefficients").replaceChildren(
    ...order.map((at) => row([board.names[at], shown(model.coef[at]), shown(board.mean[at])])),
    row(["(intercept)", shown(model.intercept), shown(board.intercept)]),
  );
  byId("more").textContent = board.d > MOST_SHOWN ? `The ${MOST_SHOWN} largest of ${board.d.toLocaleString("en")} are shown; the file has all of them.` : "";
  byId("model").hidden = false;
  byId("ask").hidden = false;
  if (published.item !== null) showItems();
  else if (columns.features.length <= MOST_FIELDS) showAnswer();
  byId("model-heading").focus();
}

function downloadHead() {
  const document_ = {
    format: "commonground head", version: 1, billboard: board.sha256, kind: board.heads.kind, kept: model.kept, feature_names: board.names,
    coef: [...model.coef], intercept: model.intercept, weights: [...model.weights], posterior: model.posterior,
  };
  offer("my-model.json", "application/json", JSON.stringify(document_, null, 1));
}

// ---- what if ----------------------------------------------------------------------------------------------------

function inWords(answer, std = 0) {
  const { label } = columns, names = label.kind === "category" ? label.values : ["no", "yes"];
  if (board.logOdds) { // averaged over what is not known of her (heads/table.py, probabilities)
    const middle = answer / Math.sqrt(1 + (Math.PI / 8) * std ** 2);
    const yes = 1 / (1 + Math.exp(-Math.min(Math.max(middle, -700), 700)));
    return `${names[answer > 0 ? 1 : 0]} (${names[1]}: ${(100 * yes).toPrecision(3)} %)`;
  }
  if (board.heads.kind === "signs") return names[answer > 0 ? 1 : 0];
  if (label.kind === "category" || label.kind === "yes/no") {
    return names[Math.min(Math.max(Math.round(answer), 0), names.length - 1)];
  }
  return shown(answer);
}

const span = (found, i) => (found.low && columns.label.kind === "number" && !board.logOdds ? `${shown(found.low[i])} to ${shown(found.high[i])}` : "–");

function field(column, at) {
  const id = `what-if-${at}`, line = make("div", "", { class: "field" });
  line.append(make("label", column.name, { for: id }));
  let input;
  if (column.kind === "category" || column.kind === "yes/no") {
    input = make("select", "", { id });
    const values = column.kind === "category" ? column.values : ["no", "yes"];
    if (column.missing !== undefined && column.missing !== null) input.append(make("option", "(empty)", { value: "" }));
    values.forEach((value) => input.append(make("option", value, { value })));
  } else {
    const first = column.kind === "date" ? column.origin ?? "1970-01-01" : column.range ? String((column.range[0] + column.range[1]) / 2) : "0";
    input = make("input", "", { id, type: "text", inputmode: column.kind === "date" ? "text" : "decimal", value: first, autocomplete: "off" });
    if (column.range && column.kind === "number") line.append(make("small", `${column.range[0]} to ${column.range[1]}`));
  }
  input.addEventListener("input", showAnswer);
  line.append(input);
  return line;
}

function showAnswer() {
  if (!model) return;
  tell(byId("ask-error"), () => {
    const numbers = columns.features.flatMap((column, at) => {
      const typed = byId(`what-if-${at}`).value, read = encodeCell(column, typed, /^[-+]?[0-9]*,[0-9]+$/.test(typed.trim()));
      if (read.wrong) throw new Refusal(`“${column.name}” ${read.wrong}.`);
      return read.numbers;
    });
    const found = predict(board, model, { n: 1, d: board.d, values: Float64Array.from(numbers) }, columns.label);
    const between = found.low && columns.label.kind === "number" && !board.logOdds ? ` In nine cases of ten it lies between ${shown(found.low[0])} and ${shown(found.high[0])}.` : "";
    byId("answer").textContent = `${labelName()}: ${inWords(found.answers[0], found.std?.[0])}.${between}`;
  });
}

function predictTable() {
  const { rows, table } = readTable(byId("new-rows").value, false);
  const found = predict(board, model, rows, columns.label);
  const extra = found.std ? ["standard deviation", "low (5 %)", "high (95 %)"] : [];
  const body = table.rows.map((cells, i) => [...cells, ...[found.answers[i], ...(found.std ? [found.std[i], found.low[i], found.high[i]] : [])]]);
  offer("predictions.csv", "text/csv", csvText([[...table.names, "prediction", ...extra], ...body]));
  byId("predicted").textContent = `${rows.n.toLocaleString("en")} predictions are in the file that was offered to you. The first: ${inWords(found.answers[0], found.std?.[0])}.`;
}

// ---- items ------------------------------------------------------------------------------------------------------

function showItems() {
  const wanted = byId("rest-filter").value.trim().toLowerCase();
  const had = new Set(model.rows.items);
  const items = Int32Array.from([...board.names.keys()].filter((at) => !had.has(at)));
  if (!items.length) return;
  const found = predict(board, model, { n: items.length, d: board.d, items }, columns.label);
  const order = [...items.keys()].sort((a, b) => found.answers[b] - found.answers[a]).filter((at) => board.names[items[at]].toLowerCase().includes(wanted));
  byId("rest").replaceChildren(...order.slice(0, MOST_SHOWN).map((at) => row([board.names[items[at]], inWords(found.answers[at], found.std?.[at]), span(found, at)])));
  byId("rest-count").textContent = `${Math.min(order.length, MOST_SHOWN)} of ${order.length.toLocaleString("en")} items that you have not rated, best first.`;
}

function listItems() {
  const wanted = byId("item-filter").value.trim().toLowerCase();
  const found = [...board.names.keys()].filter((at) => board.names[at].toLowerCase().includes(wanted));
  byId("items").replaceChildren(...found.slice(0, MOST_SHOWN).map((at) => {
    const line = make("li"), id = `item-${at}`;
    const input = make("input", "", { id, type: "text", inputmode: "decimal", size: "5", autocomplete: "off" });
    input.value = rated.has(at) ? String(rated.get(at)) : "";
    input.addEventListener("change", () => rate(at, input));
    line.append(make("label", board.names[at], { for: id }), input);
    return line;
  }));
  byId("item-count").textContent = `${Math.min(found.length, MOST_SHOWN)} of ${found.length.toLocaleString("en")} items are listed; ${rated.size} rated.`;
}

function rate(at, input) {
  tell(byId("error"), () => {
    if (!input.value.trim()) rated.delete(at);
    else {
      const read = encodeCell({ ...columns.label, missing: null }, input.value, /^[-+]?[0-9]*,[0-9]+$/.test(input.value.trim()));
      if (read.wrong) throw new Refusal(`What you wrote beside “${board.names[at]}” ${read.wrong}.`);
      rated.set(at, read.numbers[0]);
    }
  });
  byId("item-count").textContent = `${rated.size} items are rated.`;
}

// A browser takes seconds to type a pasted table of a thousand lines, letter by letter; set as a whole it is there at once.
function pasteAtOnce(event) {
  const text = event.clipboardData?.getData("text/plain") ?? "";
  if (text.length < LONG_PASTE) return;
  event.preventDefault();
  event.target.setRangeText(text, event.target.selectionStart, event.target.selectionEnd, "end");
}

// ---- beginning --------------------------------------------------------------------------------------------------

function example() {
  const features = published.item !== null ? [published.item] : columns.features.map((column) => column.name);
  offer("my-rows.csv", "text/csv", csvText([[...features, labelName()]]));
}

function begin() {
  board = openBoard(published);
  columns = columnsOf(board);
  byId("checksum").textContent = board.sha256;
  byId("checked").textContent = "Checked: the billboard in this page has this checksum.";
  refuseUnknownKind(board);
  byId("label-column").value = columns.label.name;
  const items = published.item !== null;
  byId("needs").textContent = items
    ? `A table needs the columns “${published.item}” and “${columns.label.name}”, one line for each item that you rated.`
    : `A table needs the columns ${columns.features.slice(0, 40).map((column) => `“${column.name}”`).join(", ")}${columns.features.length > 40 ? ` and ${columns.features.length - 40} more` : ""}, and what is to be predicted: “${columns.label.name}”. One line for each of your rows; other columns are passed over.`;
  byId("item-choice").hidden = !items;
  byId("what-if-items").hidden = !items;
  byId("what-if-fields").hidden = items || columns.features.length > MOST_FIELDS;
  if (items) listItems();
  else if (columns.features.length <= MOST_FIELDS) byId("fields").replaceChildren(...columns.features.map(field));
  byId("fit").addEventListener("click", () => tell(byId("error"), fit));
  byId("example").addEventListener("click", example);
  byId("download-head").addEventListener("click", downloadHead);
  byId("predict").addEventListener("click", () => tell(byId("table-error"), predictTable));
  byId("item-filter").addEventListener("input", listItems);
  byId("rest-filter").addEventListener("input", showItems);
  for (const [chooser, target, place] of [["file", "rows", "error"], ["new-file", "new-rows", "table-error"]]) {
    byId(target).addEventListener("paste", pasteAtOnce);
    byId(chooser).addEventListener("change", async (event) => {
      const [file] = event.target.files;
      if (!file) return;
      byId(place).textContent = "";
      try {
        byId(target).value = await textOf(file);
        byId(`${target}-status`).textContent = `“${file.name}” is read; it stays in this browser.`;
      } catch (problem) {
        byId(place).textContent = problem.message;
      }
    });
  }
  byId("work").hidden = false;
}

if (!tell(byId("start-error"), begin)) byId("checked").textContent = "";
