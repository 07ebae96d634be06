// What tests/benchmarks/drawing_peers.py runs in the browser.
({
  // Labels, their sizes, those that overlap another one or are crossed by a line that is not below their box, and the extent of the drawing.
  measure: (svg) => {
    const grid = new Map(), cell = 64, hidden = (e) => e.closest("defs, marker") !== null;
    const boxes = [...svg.querySelectorAll("text")].filter((e) => !hidden(e) && e.textContent.trim().length > 1).map((e) => {
        const box = e.getBoundingClientRect(), scale = Math.abs(e.getScreenCTM().a);
        let [cover, around] = [undefined, e.parentNode];
        for (let k = 0; k < 4 && cover === undefined && around !== svg; k++, around = around.parentNode)
            cover = [...around.children].find((each) => /^(rect|ellipse|circle|polygon|path)$/.test(each.tagName) && getComputedStyle(each).fill !== "none");
        return { box, size: parseFloat(getComputedStyle(e).fontSize) * scale, cover, bad: false };
    }).filter(({ box }) => box.width > 0);
    const cells = (l, t, r, b) => {
        const found = [];
        for (let x = Math.floor(l / cell); x <= Math.floor(r / cell); x++) for (let y = Math.floor(t / cell); y <= Math.floor(b / cell); y++) found.push(`${x},${y}`);
        return found;
    };
    for (const each of boxes) {
        const { left, top, right, bottom } = each.box, [dx, dy] = [0.06 * each.size, 0.22 * each.size];
        [each.l, each.t, each.r, each.b] = [left + dx, top + dy, right - dx, bottom - dy];
        for (const key of cells(each.l, each.t, each.r, each.b)) {
            const others = grid.get(key) ?? grid.set(key, []).get(key);
            for (const other of others) if (each.l < other.r && other.l < each.r && each.t < other.b && other.t < each.b) each.bad = other.bad = true;
            others.push(each);
        }
    }
    let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
    for (const e of svg.querySelectorAll("path, polygon, ellipse, rect, text, circle, line, polyline")) {
        const box = e.getBoundingClientRect();
        if (hidden(e) || (!box.width && !box.height) || e.getAttribute("fill") === "white" && e.getAttribute("stroke") === "transparent") continue;
        if (e.tagName === "rect" && e.parentNode === svg) continue;
        [left, top, right, bottom] = [Math.min(left, box.left), Math.min(top, box.top), Math.max(right, box.right), Math.max(bottom, box.bottom)];
    }
    const isBelow = (line, cover) => cover !== undefined && (line.compareDocumentPosition(cover) & Node.DOCUMENT_POSITION_FOLLOWING) !== 0;
    for (const e of svg.querySelectorAll("path")) {
        if (hidden(e)) continue;
        const matrix = e.getScreenCTM(), length = e.getTotalLength(), step = Math.max(2, length / 400);
        for (let at = step; at < length - step; at += step) {
            const { x, y } = e.getPointAtLength(at).matrixTransform(matrix);
            for (const each of grid.get(`${Math.floor(x / cell)},${Math.floor(y / cell)}`) ?? []) if (x > each.l && x < each.r && y > each.t && y < each.b && !isBelow(e, each.cover)) each.bad = true;
        }
    }
    const sizes = boxes.map((each) => each.size).sort((a, b) => a - b);
    return { left, top, width: right - left, height: bottom - top, labels: boxes.length, size: sizes[Math.floor(sizes.length / 2)], bad: boxes.filter((each) => each.bad).length };
},

  // How many labels there are, and where the first, the middle and the last one are; nothing as long as two of these lie upon one another.
  progress: (selector) => {
    const all = [...document.querySelectorAll(selector)];
    const some = [0, all.length >> 1, all.length - 1].map((i) => all[i]?.getBoundingClientRect()).map((box) => `${box?.left} ${box?.top}`);
    return all.length < 3 || new Set(some).size < 3 ? "" : `${all.length} ${some.join()}`;
},

  // The drawing alone as an SVG: the style of the page written into its elements.
  standalone: (svg, found) => {
    const copy = svg.cloneNode(true), names = ["fill", "stroke", "stroke-width", "opacity", "stroke-opacity", "fill-opacity", "visibility", "font-family", "font-size", "font-weight", "text-anchor", "display", "dominant-baseline"];
    const [old, now] = [svg.querySelectorAll("*"), copy.querySelectorAll("*")];
    old.forEach((e, i) => { const style = getComputedStyle(e); for (const name of names) now[i].style.setProperty(name, style.getPropertyValue(name)); });
    const inverse = svg.getScreenCTM().inverse(), corner = (x, y) => new DOMPoint(x, y).matrixTransform(inverse);
    const [a, b] = [corner(found.left - 4, found.top - 4), corner(found.left + found.width + 4, found.top + found.height + 4)];
    for (const name of copy.getAttributeNames()) copy.removeAttribute(name);
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    copy.setAttribute("viewBox", `${a.x} ${a.y} ${b.x - a.x} ${b.y - a.y}`);
    copy.setAttribute("width", found.width + 8);
    copy.setAttribute("height", found.height + 8);
    return new XMLSerializer().serializeToString(copy);
},
})
