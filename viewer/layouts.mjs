// Measures the layout of the page beside those of elkjs, dagre and d3-dag, in milliseconds of processor time:
//
//   npm install --no-save elkjs@0.12.1 @dagrejs/dagre@3.1.3 d3-dag@1.2.2 && node layouts.mjs
import { build } from "esbuild";

const { layered } = await imported("src/layout.ts");
const dagre = (await import("@dagrejs/dagre")).default;
const d3dag = await import("d3-dag");
const ELK = (await import("elkjs/lib/elk.bundled.js")).default;

/** A module of the sources. */
async function imported(file) {
  const made = await build({ entryPoints: [file], bundle: true, format: "esm", write: false });
  return import(`data:text/javascript,${encodeURIComponent(made.outputFiles[0].text)}`);
}

/** A network: every operator reads an early one of the last three, some also one of the last twelve. */
function network(count) {
  let state = 7;
  const next = () => (state = (state * 1103515245 + 12345) & 0x7fffffff) / 0x7fffffff;
  const links = [];
  for (let to = 1; to < count; to++) {
    links.push([Math.max(0, to - 1 - Math.floor(next() * 3)), to]);
    if (next() < 0.4) links.push([Math.max(0, to - 1 - Math.floor(next() * 12)), to]);
  }
  return links;
}

const LAYOUTS = {
  own: (count, links) => {
    const boxes = Array.from({ length: count }, () => ({ w: 100, h: 30, side: 0, partner: -1, pin: null }));
    layered(boxes, links.map(([from, to]) => ({ from, to, value: from, isBack: false, fromAt: 0, toAt: 0 })));
  },
  dagre: (count, links) => {
    const graph = new dagre.graphlib.Graph({ multigraph: true }).setGraph({}).setDefaultEdgeLabel(() => ({}));
    for (let i = 0; i < count; i++) graph.setNode(i, { width: 100, height: 30 });
    links.forEach(([from, to], i) => graph.setEdge(from, to, {}, i));
    dagre.layout(graph);
  },
  "d3-dag": (_, links) => {
    const graph = d3dag.graphConnect()(links.map(([from, to]) => [String(from), String(to)]));
    d3dag.sugiyama().decross(d3dag.decrossTwoLayer()).coord(d3dag.coordGreedy()).layering(d3dag.layeringSimplex())(graph);
  },
  elkjs: (count, links) =>
    new ELK().layout({
      id: "root",
      layoutOptions: { "elk.algorithm": "layered", "elk.direction": "DOWN" },
      children: Array.from({ length: count }, (_, i) => ({ id: `n${i}`, width: 100, height: 30 })),
      edges: links.map(([from, to], i) => ({ id: `e${i}`, sources: [`n${from}`], targets: [`n${to}`] })),
    }),
};

for (const [name, layout] of Object.entries(LAYOUTS)) {
  const times = [];
  for (const count of [200, 500, 1000, 2000]) {
    const links = network(count);
    let least = Infinity;
    for (let round = 0; round < (count < 1000 ? 3 : 1); round++) {
      const start = process.cpuUsage();
      await layout(count, links);
      const used = process.cpuUsage(start);
      least = Math.min(least, (used.user + used.system) / 1e3);
    }
    times.push(least.toFixed(0).padStart(7));
    if (least > 20_000) break; // the next one would take minutes
  }
  console.log(name.padEnd(8), ...times);
}
