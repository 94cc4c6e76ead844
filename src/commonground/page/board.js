// The billboard as it was published: its very bytes (safetensors), checked against the checksum in its statement.
import { Refusal } from "./refusal.js";
import { sha256 } from "./sha256.js";

const TYPES = { F64: Float64Array, F32: Float32Array };

function arraysIn(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const length = Number(view.getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length)));
  const found = {};
  for (const [name, entry] of Object.entries(header)) {
    if (name === "__metadata__") continue;
    const [from, to] = entry.data_offsets;
    const copy = bytes.slice(8 + length + from, 8 + length + to);
    if (!(entry.dtype in TYPES)) throw new Refusal(`The billboard holds numbers of the type ${entry.dtype}, which this page cannot read.`);
    found[name] = { shape: entry.shape, values: Float64Array.from(new TYPES[entry.dtype](copy.buffer)) };
  }
  return found;
}

export function openBoard(document) {
  const bytes = Uint8Array.from(atob(document.arrays), (letter) => letter.charCodeAt(0));
  const found = sha256(bytes);
  if (found !== document.sha256) {
    throw new Refusal("This page was changed or damaged: the billboard in it does not have the checksum that it names. Do not use it; get a fresh copy.");
  }
  const arrays = arraysIn(bytes);
  const [d, k] = arrays.embedding.shape;
  const names = document.feature_names ?? Array.from({ length: d }, (_, at) => `feature ${at}`);
  return {
    ...document, d, k, names,
    embedding: arrays.embedding.values, // (d, k), row by row
    mean: arrays.mean ? arrays.mean.values : new Float64Array(d),
    intercept: arrays.intercept.values[0],
    prior: arrays.prior ? arrays.prior.values : null, // (k, k)
    spread: arrays.spread ? arrays.spread.values : null, // (q, q), her own intercept first where people have one
    noise: arrays.noise ? arrays.noise.values[0] : null,
    logOdds: document.heads.loss === "logistic",
  };
}
