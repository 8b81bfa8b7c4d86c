// src/ -> dist/report.html: script and style inside one page, in ASCII, with a place for the data. The same input gives the
// same bytes.
import { build } from "esbuild";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const output = process.argv[2] ?? join(here, "dist", "report.html");

async function bundled(entry) {
  const result = await build({
    entryPoints: [join(here, "src", entry)],
    absWorkingDir: here,
    bundle: true,
    minify: true,
    write: false,
    charset: "ascii",
    format: "iife",
    target: ["chrome109", "firefox115", "safari16"],
    legalComments: "none",
  });
  return result.outputFiles[0].text.trim();
}

const script = (await bundled("main.ts")).replaceAll("</script", "<\\/script");
const style = await bundled("style.css");
let page = readFileSync(join(here, "src", "page.html"), "utf8");
for (const [place, text] of [["/*STYLE*/", style], ["/*SCRIPT*/", script]]) {
  if (page.split(place).length !== 2) throw new Error(`page.html must have ${place} once`);
  page = page.replace(place, () => text);
}
if (/[^\x00-\x7f]/.test(page)) throw new Error("the page must be ASCII");
if (page.split("@@PYCANDLE_REPORT@@").length !== 2) throw new Error("the page must have one place for the data");
mkdirSync(dirname(output), { recursive: true });
writeFileSync(output, page);
console.log(`${output}: ${(page.length / 1000).toFixed(0)} kB`);
