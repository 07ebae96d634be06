// Builds the program of the page and its style into graphad/viewing, or with --tests the tests into build/.
import { build } from "esbuild";
import { copyFileSync, mkdirSync } from "node:fs";

const target = process.argv[2] === "--tests" ? null : (process.argv[2] ?? "../graphad/viewing");
if (target === null) {
  await build({ entryPoints: ["tests/inflate.test.ts", "tests/layout.test.ts", "tests/model.test.ts"], outdir: "build", bundle: true, platform: "node", format: "esm", outExtension: { ".js": ".test.mjs" } });
} else {
  mkdirSync(target, { recursive: true });
  const options = { bundle: true, minify: true, target: "es2022", charset: "utf8", legalComments: "none" };
  await build({ ...options, entryPoints: ["src/main.ts"], outfile: `${target}/viewer.js`, format: "iife" });
  await build({ ...options, entryPoints: ["src/style.css"], outfile: `${target}/viewer.css` });
  copyFileSync("src/viewer.html", `${target}/viewer.html`);
}
