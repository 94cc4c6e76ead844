// A table as people have it: comma, semicolon or tab between cells, quotes, points or commas in numbers.
import { Refusal } from "./refusal.js";

export function delimiterOf(text) {
  const counts = { ";": 0, "\t": 0, ",": 0 };
  let inside = false;
  for (const letter of text) {
    if (letter === '"') inside = !inside;
    else if (!inside && (letter === "\n" || letter === "\r")) break;
    else if (!inside && letter in counts) counts[letter] += 1;
  }
  return Object.keys(counts).reduce((best, one) => (counts[one] > counts[best] ? one : best));
}

export function parseCsv(given) {
  const text = given.replace(/^\uFEFF/, "");
  const delimiter = delimiterOf(text);
  const rows = [];
  let row = [], at = 0;
  const end = text.length;
  while (at < end) {
    let cell = "";
    if (text[at] === '"') {
      at += 1;
      for (;;) {
        const close = text.indexOf('"', at);
        if (close < 0) throw new Refusal(`A quotation mark that is opened in row ${rows.length} (the heading is row 0) is never closed.`);
        cell += text.slice(at, close);
        at = close + 1;
        if (text[at] !== '"') break;
        cell += '"';
        at += 1;
      }
    }
    let stop = at;
    while (stop < end && text[stop] !== delimiter && text[stop] !== "\n" && text[stop] !== "\r") stop += 1;
    row.push(cell + text.slice(at, stop));
    at = stop;
    if (at < end && text[at] === delimiter) {
      at += 1;
      if (at < end) continue;
      row.push("");
    }
    if (text[at] === "\r" && text[at + 1] === "\n") at += 1;
    at += 1;
    if (row.length > 1 || row[0].trim() !== "") rows.push(row);
    row = [];
  }
  if (!rows.length) throw new Refusal("There are no rows yet. Paste a table with one line of headings and one line for each of your rows, or choose a file.");
  const [heading, ...body] = rows;
  const names = heading.map((name) => name.trim().replace(/^'(?=[=+\-@])/, "")); // as csvCell wrote it
  const twice = names.find((name, place) => names.indexOf(name) !== place);
  if (twice !== undefined) throw new Refusal(`The heading “${twice}” occurs twice. Rename or remove one of the columns.`);
  body.forEach((cells, number) => {
    if (cells.length !== names.length) {
      throw new Refusal(`Row ${number + 1} has ${cells.length} cells, and the heading has ${names.length}. Correct that row.`);
    }
  });
  return { names, rows: body, delimiter };
}

// A comma in a number is a decimal comma where it does not stand between cells; both marks in one table would be a riddle.
export function decimalComma(table, columns) {
  if (table.delimiter === ",") return false;
  const places = columns.filter((column) => column.kind === "number").map((column) => table.names.indexOf(column.name)).filter((at) => at >= 0);
  let commas = false, points = false;
  for (const row of table.rows) {
    for (const at of places) {
      const cell = row[at];
      if (/^\s*[-+]?[0-9]*,[0-9]+([eE][-+]?[0-9]+)?\s*$/.test(cell)) commas = true;
      else if (/^\s*[-+]?[0-9]*\.[0-9]+([eE][-+]?[0-9]+)?\s*$/.test(cell)) points = true;
    }
    if (commas && points) {
      throw new Refusal("Some numbers are written with a decimal comma and some with a decimal point. Write all of them in one way.");
    }
  }
  return commas;
}

const NUMBER = /^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$/;
export const numberIn = (cell, comma) => {
  const text = comma ? cell.trim().replace(",", ".") : cell.trim();
  return NUMBER.test(text) ? Number(text) : NaN;
};

// For a spreadsheet: a cell that would be taken for a formula is made text.
export const csvCell = (value) => {
  let text = String(value);
  const formula = typeof value === "string" && /^[=+\-@\t\r]/.test(text) && Number.isNaN(numberIn(text, true));
  if (formula) text = `'${text}`;
  return /[",;\n\r\t]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};
export const csvText = (rows) => rows.map((row) => row.map(csvCell).join(",")).join("\r\n") + "\r\n";
