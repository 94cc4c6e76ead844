// What a person did wrong, in a sentence that says what to do next.
export class Refusal extends Error {}

export const quoted = (names, most = 8) =>
  names.slice(0, most).map((name) => `“${name}”`).join(", ") + (names.length > most ? ` and ${names.length - most} more` : "");
