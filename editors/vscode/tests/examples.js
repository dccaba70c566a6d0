// Colours every example with the engine of Visual Studio Code: each word, string and comment has to have a scope.
"use strict";

const fs = require("fs");
const path = require("path");
const oniguruma = require("vscode-oniguruma");
const { INITIAL, Registry, parseRawGrammar } = require("vscode-textmate");

const ROOT = path.resolve(__dirname, "../../..");
const GRAMMAR = path.join(__dirname, "../syntaxes/tfdeploy.tmLanguage.json");
const SCOPE = "source.tfdeploy";

function specs(folder) {
  return fs
    .readdirSync(folder, { recursive: true })
    .filter((name) => name.endsWith(".tfdeploy"))
    .sort()
    .map((name) => path.join(folder, name));
}

function uncoloured(grammar, text) {
  const found = [];
  let state = INITIAL;
  text.split(/\r?\n/).forEach((line, number) => {
    const read = grammar.tokenizeLine(line, state);
    state = read.ruleStack;
    for (const token of read.tokens) {
      const written = line.slice(token.startIndex, token.endIndex);
      if (token.scopes.length === 1 && /[\w#"]/.test(written)) {
        found.push(`${number + 1}: ${JSON.stringify(written)} in ${JSON.stringify(line)}`);
      }
    }
  });
  return found;
}

async function main() {
  const wasm = fs.readFileSync(require.resolve("vscode-oniguruma/release/onig.wasm"));
  await oniguruma.loadWASM(wasm.buffer);
  const registry = new Registry({
    onigLib: Promise.resolve({
      createOnigScanner: (patterns) => new oniguruma.OnigScanner(patterns),
      createOnigString: (text) => new oniguruma.OnigString(text),
    }),
    loadGrammar: async (scope) =>
      scope === SCOPE ? parseRawGrammar(fs.readFileSync(GRAMMAR, "utf8"), GRAMMAR) : null,
  });
  const grammar = await registry.loadGrammar(SCOPE);
  const found = specs(path.join(ROOT, "examples"));
  const wrong = found.flatMap((spec) =>
    uncoloured(grammar, fs.readFileSync(spec, "utf8")).map((each) => `${path.relative(ROOT, spec)}:${each}`),
  );
  if (found.length === 0 || wrong.length > 0) {
    console.error(found.length === 0 ? "no examples were found" : wrong.join("\n"));
    process.exit(1);
  }
  console.log(`every word of ${found.length} examples has a scope`);
}

main();
