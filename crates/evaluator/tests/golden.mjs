// The golden vectors of rules, asked of the WebAssembly module: node golden.mjs <module.wasm> <golden folder>.
import { readFileSync } from "node:fs";
import { join } from "node:path";

const [path, folder] = process.argv.slice(2);
const { instance } = await WebAssembly.instantiate(readFileSync(path), {});
const evaluator = instance.exports;

/** Writes the input, calls, reads the answer. */
function call(bytes, name, ...rest) {
  const at = evaluator.cadastre_input(bytes.length);
  new Uint8Array(evaluator.memory.buffer, at, bytes.length).set(bytes);
  const number = evaluator[name](...rest);
  const output = new Uint8Array(evaluator.memory.buffer, evaluator.cadastre_output(), evaluator.cadastre_output_length());
  return [number, Buffer.from(output).toString("utf8")];
}

const rules = new Map();
let records = 0;
for (const line of readFileSync(join(folder, "rules.tsv"), "utf8").split("\n")) {
  if (line === "") continue;
  const cells = line.split("\t");
  if (cells[0] === "rule") {
    const text = readFileSync(join(folder, "rules", `${cells[1]}.rule`));
    const [handle, hash] = call(text, "cadastre_open");
    if (handle < 0 || hash !== cells[2]) throw new Error(`${cells[1]}: ${hash} instead of ${cells[2]}`);
    rules.set(cells[1], handle);
    continue;
  }
  const record = Buffer.from(cells.slice(1, -1).join("\t"));
  const [, answer] = call(record, "cadastre_evaluate", rules.get(cells[0]));
  if (answer !== cells.at(-1)) throw new Error(`${line}: the module answers ${answer}`);
  records += 1;
}
console.log(`${rules.size} rules, ${records} records`);
