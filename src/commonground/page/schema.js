// Cells to numbers by the board's public schema, as training did it; without one, every feature is a number.
import { numberIn } from "./csv.js";
import { Refusal, quoted } from "./refusal.js";

const MISSING = new Set(["", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null"]);
const YES = ["yes", "true", "y", "t", "1", "1.0", "on"], NO = ["no", "false", "n", "f", "0", "0.0", "off"];
const UNITS = { seconds: 1, minutes: 60, hours: 3600, days: 86400, weeks: 7 * 86400, years: 365.25 * 86400 };
const NOT_OF_KIND = {
  number: "is not a number",
  category: "is none of the values that the model knows",
  "yes/no": "is none of yes, no, true, false, 1, 0",
  date: "is not a date such as 2020-01-31 or 2020-01-31T12:00",
};

export function secondsSince1970(text) {
  const parts = /^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?(Z|[+-]\d{2}:?\d{2})?)?$/.exec(text.trim());
  if (!parts) return NaN;
  const [year, month, day, hour, minute, second] = parts.slice(1, 7).map((part) => Number(part ?? 0));
  const days = new Date(0);
  days.setUTCFullYear(year, month - 1, day);
  const exists = year >= 1 && days.getUTCMonth() === month - 1 && days.getUTCDate() === day && hour < 24 && minute < 60 && second < 60;
  if (!exists) return NaN;
  let offset = 0;
  if (parts[8] && parts[8] !== "Z") {
    const size = Number(parts[8].slice(1, 3)) * 3600 + Number(parts[8].slice(-2)) * 60;
    offset = parts[8][0] === "-" ? -size : size;
  }
  return days.getTime() / 1000 + hour * 3600 + minute * 60 + second + Number(`0.${parts[7] ?? 0}`) - offset;
}

const scaled = (column, value) => {
  if (column.range) {
    const [low, high] = column.range;
    const inside = Math.min(Math.max(value, low), high);
    return column.role === "feature" ? ((inside - low) / (high - low)) * 2 - 1 : inside;
  }
  return column.scale ? value / column.scale : value;
};

// The numbers of one cell, or null where it cannot be read.
const READERS = {
  number: (column, text, comma) => { const x = numberIn(text, comma); return Number.isFinite(x) ? [scaled(column, x)] : null; },
  category: (column, text) => {
    const place = column.values.indexOf(text);
    if (column.role === "label") return place >= 0 ? [place] : null;
    return column.values.map((_, at) => (at === place ? 1 : 0));
  },
  "yes/no": (column, text) => {
    const word = text.toLowerCase();
    return YES.includes(word) ? [1] : NO.includes(word) ? [0] : null;
  },
  date: (column, text) => {
    const seconds = secondsSince1970(text);
    return Number.isFinite(seconds) ? [scaled(column, (seconds - secondsSince1970(column.origin ?? "1970-01-01")) / UNITS[column.unit ?? "days"])] : null;
  },
};

const width = (column) => (column.kind === "category" && column.role === "feature" ? column.values.length : 1);

// What else counts as empty, by the schema: numbers, or texts.
const isEmpty = (column, text, comma) => MISSING.has(text) || (column.empty ?? []).some((one) => one === text ||
  (typeof one === "number" ? numberIn(text, comma) === one : column.kind === "date" && secondsSince1970(text) === secondsSince1970(one)));

export function encodeCell(column, cell, comma) {
  const text = cell.trim();
  const told = column.role === "feature" && column.missing === "indicator";
  let numbers;
  if (isEmpty(column, text, comma)) {
    if (column.missing === undefined || column.missing === null) return { wrong: "is empty, and the model does not say what that means" };
    if (told) numbers = new Array(width(column)).fill(0);
    else {
      const word = typeof column.missing === "boolean" ? (column.missing ? "yes" : "no") : String(column.missing);
      numbers = READERS[column.kind](column, word, false);
    }
    return { numbers: told ? [...numbers, 1] : numbers };
  }
  numbers = READERS[column.kind](column, text, comma);
  if (numbers === null) return { wrong: NOT_OF_KIND[column.kind] };
  return { numbers: told ? [...numbers, 0] : numbers };
}

// The columns that a person fills in: of the schema, or one number for each feature.
export function columnsOf(board) {
  if (board.schema) {
    const all = Object.entries(board.schema.columns).map(([name, column]) => ({ name, kind: "number", ...column }));
    const one = (role) => all.filter((column) => column.role === role);
    return { features: one("feature"), label: one("label")[0], person: one("person")[0].name };
  }
  const features = board.names.map((name) => ({ name, role: "feature", kind: "number" }));
  return { features, label: { name: board.label ?? "y", role: "label", kind: "number" }, person: "user_id" };
}

const nearest = (name, others) => others.find((other) => other.trim().toLowerCase() === name.trim().toLowerCase());

export function placesOf(table, wanted) {
  const absent = wanted.filter((name) => !table.names.includes(name));
  if (absent.length) {
    const close = absent.map((name) => nearest(name, table.names)).find((name) => name !== undefined);
    const hint = close === undefined ? "" : ` Did you mean “${close}”?`;
    throw new Refusal(`The columns ${quoted(absent)} are missing; your table has ${quoted(table.names)}.${hint} Headings must be spelled as the model knows them.`);
  }
  return wanted.map((name) => table.names.indexOf(name));
}

// Everything that does not fit is told at once, by column; cells are not repeated.
export function encodeColumns(table, columns, comma) {
  const places = placesOf(table, columns.map((column) => column.name));
  const widths = columns.map((column) => width(column) + (column.role === "feature" && column.missing === "indicator" ? 1 : 0));
  const d = widths.reduce((sum, one) => sum + one, 0);
  const values = new Float64Array(table.rows.length * d);
  const wrong = new Map();
  table.rows.forEach((row, number) => {
    let at = number * d;
    columns.forEach((column, c) => {
      const read = encodeCell(column, row[places[c]], comma);
      if (read.wrong) {
        const key = `“${column.name}”: row ${"$"} ${read.wrong}`;
        const before = wrong.get(key) ?? { first: number + 1, count: 0 };
        wrong.set(key, { first: before.first, count: before.count + 1 });
      } else values.set(read.numbers, at);
      at += widths[c];
    });
  });
  if (wrong.size) {
    const lines = [...wrong].map(([key, { first, count }]) => key.replace("$", String(first)) + (count > 1 ? ` (and ${count - 1} more rows)` : ""));
    throw new Refusal(`The table does not fit in ${wrong.size} place${wrong.size > 1 ? "s" : ""}: ${lines.join("; ")}.`);
  }
  return { values, d, n: table.rows.length };
}
