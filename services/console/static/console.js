"use strict";
// What the pages do beyond their forms: the theme, ticks of the server, charts, the lineage graph.
(() => {
  const root = document.documentElement;
  const saved = localStorage.getItem("theme");
  if (saved) root.dataset.theme = saved;

  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();

  function themeButton() {
    const button = document.getElementById("theme");
    if (!button) return;
    button.addEventListener("click", () => {
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
      localStorage.setItem("theme", root.dataset.theme);
      charts();
      answers();
    });
  }

  // Parts that say hx-trigger="tick from:body" are asked for again whenever the server ticks, while somebody looks.
  function live() {
    if (!document.querySelector("[data-live]")) return;
    const source = new EventSource("/live");
    source.addEventListener("tick", () => {
      // What somebody is filling in isn't taken from under their hands.
      const writing = document.activeElement && document.activeElement.closest("[data-live] form");
      if (!document.hidden && !writing) htmx.trigger(document.body, "tick");
    });
    addEventListener("pagehide", () => source.close());
  }

  const drawn = new Map();
  const lines = () => ({ stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } });
  // As wide as its longest label.
  const numbers = () => ({ ...lines(), size: (_, labels) => Math.max(50, 20 + 7.5 * Math.max(0, ...(labels || []).map((label) => label.length))) });
  // Moments as all pages say them: UTC, and the day first where there are several.
  const moments = (space) => ({ ...lines(), space, values: (_, at, axis, apart, step) => at.map((each) => {
    const iso = new Date(each * 1000).toISOString();
    return step >= 86400 ? iso.slice(0, 10) : step >= 60 ? iso.slice(11, 16) : iso.slice(11, 19);
  }) });
  const MINUTES = [1, 2, 5, 10, 15, 30, 60].map((each) => each * 60);
  const utc = { tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "UTC") };
  async function charts() {
    for (const place of document.querySelectorAll("[data-chart]")) {
      const answer = await fetch(place.dataset.chart);
      if (!answer.ok) { place.textContent = "Prometheus doesn't answer."; continue; }
      const data = await answer.json();
      if (drawn.has(place)) drawn.get(place).destroy();
      if (!data[0].length) { place.textContent = "No metrics of this time."; continue; }
      place.textContent = "";
      drawn.set(place, new uPlot({
        width: Math.max(260, place.clientWidth), height: 190, ...utc,
        series: [{ label: "UTC", value: (_, at) => at == null ? "–" : new Date(at * 1000).toISOString().slice(11, 19) }, { label: place.dataset.label, stroke: colour("--accent"), width: 1.5, spanGaps: false }],
        axes: [{ ...moments(45), incrs: MINUTES }, numbers()], scales: { y: { range: (u, min, max) => [0, Math.max(max, 1)] } },
      }, data, place));
    }
  }

  // Answers of queries: lines along times or numbers, bars of words. Each is drawn once, and again in another theme.
  function answers() {
    for (const place of document.querySelectorAll("[data-series]")) {
      const told = JSON.parse(place.dataset.series);
      const strokes = ["--accent", "--warn", "--good", "--bad", "--quiet"].map(colour);
      const words = told.words && { ...lines(), incrs: [1, 2, 5, 10, 20], values: (_, at) => at.map((each) => (told.words[each] ?? "").slice(0, 14)) };
      const bars = told.words ? { paths: uPlot.paths.bars({ size: [0.7, 60] }), points: { show: false } } : {};
      // A bar is as long as its number: it begins at nought.
      const whole = { range: (_, least, most) => [Math.min(0, least), Math.max(0, most) || 1] };
      if (drawn.has(place)) drawn.get(place).destroy();
      drawn.set(place, new uPlot({
        width: Math.max(260, place.clientWidth), height: 240, ...utc,
        series: [{ label: told.words ? "" : "at" }, ...Object.keys(told.lines).map((label, index) => ({
          label, stroke: strokes[index], fill: told.words ? strokes[index] : undefined, width: 1.5, ...bars,
        }))],
        axes: [words || (told.time ? moments(85) : lines()), numbers()],
        legend: { live: false },
        scales: {
          x: { time: told.time, ...(told.words ? { range: [-0.5, told.words.length - 0.5] } : {}) },
          ...(told.words ? { y: whole } : {}),
        },
      }, [told.at, ...Object.values(told.lines)], place));
    }
  }

  const svg = (name, attributes = {}) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };

  async function graph() {
    const place = document.getElementById("graph");
    if (!place) return;
    const answer = await fetch(place.dataset.graph);
    const told = await answer.json();
    const said = document.getElementById("graph-said");
    if (!answer.ok) { said.textContent = told.error; return; }
    for (const side of ["upstream", "downstream"]) {
      const list = document.getElementById(side);
      list.replaceChildren(...told[side].map((name) => { const item = document.createElement("li"); item.textContent = name; return item; }));
      if (!told[side].length) list.textContent = "nothing";
    }
    said.textContent = `${told.title}: ${told.nodes.length} nodes` + (told.left_out ? `, ${told.left_out} more aren't drawn` : "");
    const width = (label) => Math.min(420, 24 + label.length * 7.2);
    const layout = await new ELK({ workerUrl: undefined }).layout({
      id: "all",
      layoutOptions: { "elk.algorithm": "layered", "elk.direction": "RIGHT", "elk.layered.spacing.nodeNodeBetweenLayers": "46", "elk.spacing.nodeNode": "14" },
      children: told.nodes.map((node) => ({ id: node.id, width: width(node.label), height: 30 })),
      edges: told.edges.map(([from, to], index) => ({ id: `e${index}`, sources: [from], targets: [to] })),
    });
    // Made smaller to fit, as long as it can be read; what is still wider is shown from what was asked for.
    const [wide, high] = [layout.width + 20, layout.height + 20];
    const scale = Math.min(1, Math.max(0.75, (place.clientWidth - 4) / wide));
    const drawing = svg("svg", { width: wide * scale, height: high * scale, viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": said.textContent });
    const marker = svg("marker", { id: "end", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" });
    marker.append(svg("path", { d: "M0,0 L8,4 L0,8 z" }));
    const defs = svg("defs");
    defs.append(marker);
    drawing.append(defs);
    for (const edge of layout.edges) {
      for (const part of edge.sections || []) {
        const points = [part.startPoint, ...(part.bendPoints || []), part.endPoint];
        drawing.append(svg("path", { d: "M" + points.map((at) => `${at.x + 10},${at.y + 10}`).join(" L"), "marker-end": "url(#end)" }));
      }
    }
    const known = new Map(told.nodes.map((node) => [node.id, node]));
    for (const at of layout.children) {
      const node = known.get(at.id);
      const group = svg("g", { class: `${node.kind}${node.root ? " root" : ""}`, transform: `translate(${at.x + 10},${at.y + 10})` });
      group.append(svg("rect", { width: at.width, height: at.height, rx: 5 }));
      const text = svg("text", { x: 10, y: 19 });
      text.textContent = node.label.length > 56 ? node.label.slice(0, 55) + "…" : node.label;
      const title = svg("title");
      title.textContent = node.label;
      group.append(text, title);
      if (node.table) {
        const link = svg("a", { href: `/lineage?at=${encodeURIComponent(node.table)}` });
        link.append(group);
        drawing.append(link);
      } else drawing.append(group);
    }
    place.replaceChildren(drawing);
    const root = layout.children.find((at) => known.get(at.id).root);
    if (root) place.scrollTo((root.x + root.width / 2) * scale - place.clientWidth / 2, root.y * scale - place.clientHeight / 2);
  }

  addEventListener("DOMContentLoaded", () => { themeButton(); if (window.htmx) live(); charts(); graph(); });
  addEventListener("htmx:afterSettle", answers);
})();
