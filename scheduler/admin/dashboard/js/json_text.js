/**
 * JSON whose data keeps its source text: what users wrote is shown, copied and sent as it is.
 *
 * Numbers of JavaScript cannot hold every number of JSON: 3889108265204450031 would be rounded, and
 * 1.0 become 1. Everything but data is plain values.
 */

const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|[^\s{}[\],:"]+/g;
/** Members of the API's answers that hold what users wrote. */
const DATA = new Set(["data", "taskData"]);

/** A JSON value as its text. */
export class JsonText {
  constructor(text) {
    this.text = text;
  }
}

/** Read an answer: a member of data becomes a JsonText. */
export function readJson(text) {
  const found = [];
  let rest = "";
  let from = 0;
  for (const [start, end] of dataSpans(text)) {
    rest += `${text.slice(from, start)}${found.length}`;
    found.push(new JsonText(text.slice(start, end)));
    from = end;
  }
  rest += text.slice(from);
  if (!found.length) return JSON.parse(rest);
  return JSON.parse(rest, (name, value) => (DATA.has(name) ? found[value] : value));
}

/** A value as JSON, with each JsonText as it is. */
export function writeJson(value) {
  if (value instanceof JsonText) return value.text;
  if (Array.isArray(value)) return `[${value.map(writeJson).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  const members = Object.entries(value).filter(([, each]) => each !== undefined);
  return `{${members.map(([name, each]) => `${JSON.stringify(name)}:${writeJson(each)}`).join(",")}}`;
}

/** A value as JSON in lines, as a person reads and edits it. */
export function indented(value) {
  let shown = "";
  let depth = 0;
  let before = "";
  for (const [token] of writeJson(value).matchAll(TOKENS)) {
    const isEnd = token === "}" || token === "]";
    if (isEnd) depth -= 1;
    const isEmpty = isEnd && (before === "{" || before === "[");
    if (!isEmpty && (isEnd || before === "," || before === "{" || before === "["))
      shown += `\n${"  ".repeat(depth)}`;
    shown += token === ":" ? ": " : token;
    if (token === "{" || token === "[") depth += 1;
    before = token;
  }
  return shown;
}

/** Where each outermost member of data has its value: pairs of start and end. */
function dataSpans(text) {
  const spans = [];
  let name = null;
  let last = null;
  let start = -1;
  let depth = 0;
  for (const { 0: token, index } of text.matchAll(TOKENS)) {
    if (start < 0) {
      if (token === ":") name = last;
      else if (name !== null && DATA.has(name)) start = index;
      if (token !== ":") name = null;
      last = token[0] === '"' ? JSON.parse(token) : null;
      if (start < 0) continue;
    }
    if (token === "{" || token === "[") depth += 1;
    if (token === "}" || token === "]") depth -= 1;
    if (depth) continue;
    spans.push([start, index + token.length]);
    start = -1;
    last = null;
  }
  return spans;
}
