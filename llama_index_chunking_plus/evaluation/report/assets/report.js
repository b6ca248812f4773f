/* Draws the report from the data in the page. Text becomes text nodes only, never markup.
   Words come from labels.json; ranges count code points, as Python does. */
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const labels = JSON.parse(document.getElementById("labels").textContent);
const QUESTIONS_A_PAGE = 20;
const GROUPS_A_PAGE = 25;
const CHARACTERS_A_PAGE = 3000;
const SNIPPET = 240; // characters of a result
const ROUNDS = 4; // of placing names in the chart
const MANY = 5; // strategies, from which headings are turned
const state = {
  language: data.language,
  measure: data.deciding,
  sort: null, // {column, descending}; null: the order of the selection
  allMeasures: false,
  groups: { by: null, page: 0 },
  questions: { text: "", failed: false, cut: false, strategy: -1, section: "", tag: "", page: 0, open: new Set() },
  probes: { page: 0 },
  viewer: { document: -1, question: -1, strategies: null, returned: false, page: 0, cut: -1 },
};
const sections = {}; // name -> function that draws what is in the section
const isEvaluation = data.page === "evaluation"; // else chunks and probes alone, with no question asked
const order = isEvaluation ? ["winner", "strategies", "scatter", "heatmap", "signals", "probes", "questions", "viewer", "notes", "method"]
  : data.documents.length === 1 ? ["summary", "viewer", "probes", "notes"] : ["summary", "probes", "viewer", "notes"];

// ------------------------------------------------------------------------------------------------ making elements

function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function button(text, onclick, properties = {}) {
  return el("button", { type: "button", onclick, ...properties }, text);
}

function select(label, options, value, onchange, id) {
  const list = el("select", { id, onchange: (event) => onchange(event.target.value) });
  for (const [key, text] of options) list.append(el("option", { value: key, selected: String(key) === String(value) }, text));
  return el("label", {}, label, list);
}

function checkbox(label, checked, onchange, id) {
  return el("label", { class: "check" }, el("input", { type: "checkbox", id, checked, onchange: (event) => onchange(event.target.checked) }), label);
}

function pager(page, pages, go) {
  if (pages < 2) return null;
  return el("div", { class: "pager" },
    button(t("previous"), () => go(page - 1), { disabled: page === 0 }),
    el("span", {}, t("page", { page: page + 1, pages })),
    button(t("next"), () => go(page + 1), { disabled: page >= pages - 1 }));
}

// ------------------------------------------------------------------------------------------------ words and numbers

/** The words of a label in the page's language, with {name} filled in; null if there are none, or a value is missing. */
function words(key, values = {}) {
  const text = labels[key]?.[state.language];
  if (!text) return null;
  let complete = true;
  const filled = text.replace(/\{([\w]+)(%?)\}/g, (_, name, percent) => {
    const value = values[name];
    if (value === undefined || value === null) complete = false;
    if (percent) return share(value);
    return typeof value === "number" ? number(value, Number.isInteger(value) ? 0 : 2) : value;
  });
  return complete ? filled : null;
}

const t = (key, values) => words(key, values) ?? key;
const number = (value, digits = 3) => (value === null || value === undefined ? "" :
  value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }));
const share = (value) => `${Math.round(value * 100)}%`;
const confidence = () => share(data.selection?.confidence ?? data.run.confidence);

/** What a measure is called: Chinese names keep what follows "@". */
function measureLabel(name) {
  const info = data.measures.find((each) => each.name === name);
  const own = words(`measure.${name.replace(/_budget$/, "")}`);
  const at = info?.label.includes("@") ? info.label.slice(info.label.indexOf("@")).replace("tokens", "token") : "";
  return own ? own + at : info?.label ?? t(name);
}

const questionMeasures = () => data.measures.filter((each) => each.of === "question").map((each) => each.name);

/** A sentence of the evaluation itself is English; in a Chinese page it says so to whoever reads it aloud. */
const english = (text) => (state.language === "en" ? text : el("span", { lang: "en" }, text));

function reason(strategy) {
  const row = data.selection?.rows.find((each) => each.name === strategy.name);
  if (state.language === "en" || !row?.value) return english(strategy.reason);
  const values = { label: measureLabel(data.selection.measure), value: number(row.value.mean), n: row.value.n };
  const behind = row.difference && { ...values, behind: number(Math.abs(row.difference.mean)), p: number(row.p_value) };
  if (row.status === "selected") return behind ? words("reason.cheaper", behind) : words("reason.selected", values);
  if (row.status === "tied") return words(behind ? "reason.tied" : "reason.best", behind || values);
  if (row.status === "worse" && behind) return words("reason.behind", behind);
  return brokenLimits(strategy).join("") || english(strategy.reason);
}

function brokenLimits(strategy) {
  const limits = data.selection.limits;
  const found = {
    max_inflation: ["reason.inflation", strategy.inflation], min_chunk_tokens: ["reason.min_tokens", strategy.sizes?.median],
    max_chunk_tokens: ["reason.max_tokens", strategy.sizes?.largest], max_chunks: ["reason.chunks", strategy.sizes?.n_chunks],
    max_context_tokens: ["reason.context", strategy.cost?.context_tokens],
  };
  return Object.entries(found)
    .filter(([name, [, value]]) => value != null && limits[name] != null && (name.startsWith("min") ? value < limits[name] : value > limits[name]))
    .map(([name, [key, value]]) => words(key, { found: value, limit: limits[name] }));
}

function headline() {
  const selection = data.selection;
  if (!selection) return t("no_selection", { n: data.strategies.filter((each) => each.status !== "failed").length });
  const row = selection.rows.find((each) => each.name === selection.selected_strategy);
  if (state.language === "en" || !row?.value) return english(selection.reason);
  const limit = selection.limits.max_inflation;
  const { mean, low, high, n } = row.value;
  return words("headline", {
    name: row.name, label: measureLabel(selection.measure), value: number(mean), n, all: selection.rows.length,
    interval: low === null ? "" : words("headline.interval", { confidence: confidence(), low: number(low), high: number(high) }),
    inflation: row.inflation === null ? "" : words("headline.inflation", { found: number(row.inflation, 2) }) + (limit == null ? "" : words("headline.limit", { limit: String(limit) })),
    out: selection.rows.filter((each) => each.status === "eliminated").length,
    failed: selection.rows.filter((each) => each.status === "failed").length,
  });
}

// ------------------------------------------------------------------------------------------------ the winner

sections.winner = () => {
  const winner = data.strategies.find((each) => each.status === "selected");
  const eyebrow = winner ? t("winner") : t("no_winner");
  const facts = winner ? [
    [measureLabel(data.deciding), number(winner.measures[data.deciding]?.mean), intervalText(winner.measures[data.deciding])],
    [t("inflation"), number(winner.inflation, 2), limitText()],
    [t("chunks"), number(winner.sizes?.n_chunks, 0)],
    [t("median_tokens"), number(winner.sizes?.median, 0)],
    [t("context_tokens"), number(winner.cost?.context_tokens, 0)],
  ].filter(([, value]) => value) : [];
  return [
    el("p", { class: "eyebrow" }, eyebrow),
    winner && el("h2", { class: "name" }, winner.name),
    el("p", { class: "why" }, headline()),
    tie() && el("p", { class: "tie" }, tie()),
    el("dl", { class: "figures" }, facts.map(([name, value, below]) =>
      el("div", {}, el("dt", {}, name), el("dd", {}, value, below && el("small", {}, below))))),
    routes(),
  ];
};

/** A sentence if another strategy has the better figure, which the winner only ties with; unless the headline says so. */
function tie() {
  const rows = data.selection?.rows ?? [], won = rows.find((each) => each.status === "selected");
  const best = rows.find((each) => each.status === "tied" && each.value && !each.difference);
  if (!won?.difference?.mean || !best) return null;
  if (state.language === "en" && data.selection.reason.includes(`'${best.name}'`)) return null;
  return t("winner.tie", { name: won.name, best: best.name, label: measureLabel(data.selection.measure),
    own: number(won.value.mean), top: number(best.value.mean), p: number(won.p_value) });
}

function intervalText(figure) {
  return figure?.low == null ? "" : t("interval", { confidence: confidence(), low: number(figure.low), high: number(figure.high) });
}

function limitText() {
  const limit = data.selection?.limits.max_inflation;
  return limit == null ? "" : t("scatter.limit", { limit: String(limit) });
}

function routes() {
  const selection = data.selection;
  if (!selection?.routes.length) return null;
  const heads = [t(`questions.${selection.per}`), t("questions.title"), t("strategy"), measureLabel(selection.measure)];
  return el("div", { class: "routes" },
    el("h3", {}, t("routes", { per: t(`per.${selection.per}`) })),
    el("div", { class: "wide" }, el("table", {},
      el("thead", {}, el("tr", {}, heads.map((head, i) => el("th", { scope: "col", class: i % 2 ? "number" : "" }, head)))),
      el("tbody", {}, selection.routes.map((route) => {
        const value = route.rows.find((row) => row.name === route.strategy)?.value;
        return el("tr", {}, el("th", { scope: "row" }, route.kind), el("td", { class: "number" }, number(route.n_questions, 0)),
          el("td", {}, route.strategy ?? "—"), el("td", { class: "number" }, number(value?.mean)));
      })))));
}

// ------------------------------------------------------------------------------------------------ chunks alone

/** Strategies of probes: in the order of the selection; without one, those that leave most whole first. */
function probedStrategies() {
  const places = new Map(data.strategies.map((each, i) => [each.name, i]));
  const place = (each) => places.get(each.strategy) ?? places.size;
  return [...(data.probes?.strategies ?? [])].sort((a, b) => (isEvaluation || a.score === b.score ? place(a) - place(b) : b.score - a.score));
}

/** Whether there is nothing to cut. */
const isEmpty = !isEvaluation && data.documents.every((each) => each.characters === 0 || each.text?.trim() === "");

sections.summary = () => {
  if (isEmpty) return null;
  const byName = new Map(data.strategies.map((each) => [each.name, each]));
  const names = data.documents.length === 1 ? [...byName.keys()] : probedStrategies().map((each) => each.strategy);
  const heads = ["strategy", "chunks", "summary.mean", "summary.largest", "inflation", "summary.cut"];
  return [el("div", { class: "wide" }, el("table", {},
    el("thead", {}, el("tr", {}, heads.map((head, i) => el("th", { scope: "col", class: i % 5 ? "number" : "" }, t(head))))),
    el("tbody", {}, names.map((each) => byName.get(each)).map(({ name, sizes, inflation }) => el("tr", {},
      el("th", { scope: "row" }, name), el("td", { class: "number" }, number(sizes?.n_chunks, 0)), el("td", { class: "number" }, number(sizes?.mean, 0)),
      el("td", { class: "number" }, number(sizes?.largest, 0)), el("td", { class: "number" }, number(inflation, 2)), el("td", {}, whatIsCut(name)))))))];
};

function whatIsCut(name) {
  const probed = data.probes?.strategies.find((each) => each.strategy === name);
  if (!probed?.total) return t("probes.none");
  if (probed.whole === probed.total) return t("summary.whole", { all: probed.total });
  const kinds = probed.kinds.filter((each) => each.whole < each.total).map((each) => `${t(`kind.${each.kind}`)} ${each.total - each.whole}`);
  return t("summary.cut_some", { cut: probed.total - probed.whole, all: probed.total, kinds: kinds.join(t("comma")) });
}

/** The probes as questions that the viewer can show. */
function probesAsked() {
  const places = new Map(data.documents.map((each, i) => [each.id, i]));
  return (data.probes?.probes ?? []).map((probe, i) => ({
    id: String(i + 1), text: probe.question, kind: probe.kind, document: places.get(probe.document_id) ?? -1, document_id: probe.document_id, gold: probe.gold,
    answers: data.strategies.map(({ name }) => ({ cuts: probe.cuts[name] ? [[...probe.gold[0], probe.cuts[name].at]] : [], how: probe.cuts[name]?.how })),
  }));
}

const asked = isEvaluation ? data.questions : probesAsked();

function title() {
  if (isEvaluation) return t("title");
  return data.documents.length === 1 ? data.documents[0].title : t("probes.page");
}

function subtitle() {
  const run = data.run, [first] = data.documents;
  const values = { documents: data.documents.length, questions: run.n_questions, strategies: data.strategies.length, model: run.embed_model,
    k: run.k, date: run.date.slice(0, 10), probes: data.probes?.strategies[0]?.total ?? 0, tokens: first?.tokens, characters: first?.characters };
  if (isEvaluation) return t("subtitle", { ...values, documents: run.n_documents });
  return t(data.documents.length === 1 ? "subtitle.document" : "subtitle.probes", values);
}

// ------------------------------------------------------------------------------------------------ strategies

function strategyColumns() {
  const shown = state.allMeasures ? data.measures.map((each) => each.name).filter((name) => name !== "inflation") : data.main;
  return [
    ...shown.map((name) => ({ id: name, label: measureLabel(name), of: (each) => each.measures[name]?.mean, figure: (each) => each.measures[name] })),
    { id: "#inflation", label: t("inflation"), of: (each) => each.inflation, digits: 2 },
    { id: "#chunks", label: t("chunks"), of: (each) => each.sizes?.n_chunks, digits: 0 },
    { id: "#median", label: t("median_tokens"), of: (each) => each.sizes?.median, digits: 0 },
    { id: "#context", label: t("context_tokens"), of: (each) => each.cost?.context_tokens, digits: 0 },
  ];
}

sections.strategies = () => {
  const columns = strategyColumns();
  const sorted = [...data.strategies];
  const column = columns.find((each) => each.id === state.sort?.column);
  if (column) {
    const sign = state.sort.descending ? -1 : 1;
    sorted.sort((a, b) => (column.of(a) == null) - (column.of(b) == null) || sign * ((column.of(a) ?? 0) - (column.of(b) ?? 0)));
  }
  return [
    el("h2", {}, t("nav.strategies")),
    el("p", { class: "quiet small" }, t("strategies.note", { confidence: share(data.run.confidence) })),
    el("div", { class: "controls" }, checkbox(t("all_measures"), state.allMeasures, (on) => { state.allMeasures = on; draw("strategies"); }, "all-measures")),
    el("div", { class: "wide" }, el("table", { class: "strategy-table" },
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, t("strategy")), columns.map(sortableHead))),
      el("tbody", {}, sorted.map((each) => strategyRow(each, columns))))),
  ];
};

function sortableHead(column) {
  const isSorted = state.sort?.column === column.id;
  const order = isSorted ? (state.sort.descending ? "descending" : "ascending") : null;
  const sort = () => {
    state.sort = isSorted && !state.sort.descending ? null : { column: column.id, descending: !isSorted };
    draw("strategies");
  };
  return el("th", { scope: "col", class: "number", "aria-sort": order }, button(column.label, sort, { title: t("sort_by", { label: column.label }) }));
}

function strategyRow(strategy, columns) {
  return el("tr", { class: strategy.status },
    el("th", { scope: "row" },
      el("span", { class: "label" }, strategy.name), el("span", { class: `badge ${strategy.status}` }, t(`status.${strategy.status}`)),
      el("span", { class: "reason" }, reason(strategy)), configuration(strategy)),
    columns.map((column) => el("td", { class: "number" }, number(column.of(strategy), column.digits ?? 3), column.figure && interval(column.figure(strategy)))));
}

function interval(figure) {
  if (figure?.low == null) return null;
  const range = el("i"), mean = el("b");
  range.style.left = `${figure.low * 100}%`;
  range.style.width = `${Math.max(0, figure.high - figure.low) * 100}%`;
  mean.style.left = `calc(${figure.mean * 100}% - 1px)`;
  return el("span", { class: "interval", title: intervalText(figure), role: "img", "aria-label": intervalText(figure) }, range, mean);
}

function configuration(strategy) {
  if (!Object.keys(strategy.configuration).length && !strategy.cost) return null;
  const { alignment, cost } = strategy;
  return el("details", {}, el("summary", {}, t("configuration")),
    alignment && el("p", { class: "reason" }, t("aligned", { exact: alignment.exact, recovered: alignment.recovered, lost: alignment.lost, left: alignment.characters_left_out })),
    cost && el("p", { class: "reason" }, t("cost", { seconds: number(cost.chunking_seconds, 1), tokens: number(cost.index_tokens, 0) || "—" })),
    el("pre", {}, JSON.stringify(strategy.configuration, null, 1)));
}

// ------------------------------------------------------------------------------------------------ recall and inflation

function measureControl(id) {
  const options = data.measures.filter((each) => each.name !== "inflation").map((each) => [each.name, measureLabel(each.name)]);
  return select(t("measure"), options, state.measure, (name) => { state.measure = name; draw("scatter"); draw("heatmap"); document.getElementById(id)?.focus(); }, id);
}

sections.scatter = () => {
  if (!state.measure) return null;
  const label = measureLabel(state.measure);
  const drawn = data.strategies.filter((each) => each.inflation !== null && each.measures[state.measure]);
  const others = data.strategies.filter((each) => !drawn.includes(each)).map((each) => each.name);
  return [
    el("h2", {}, t("scatter.title", { label })),
    el("p", { class: "quiet small" }, t("scatter.note", { confidence: share(data.run.confidence) })),
    el("div", { class: "controls" }, measureControl("scatter-measure")),
    drawn.length ? scatter(drawn, label) : el("p", {}, t("scatter.empty")),
    others.length > 0 && el("p", { class: "quiet small" }, t("scatter.without", { names: others.join(t("comma")) })),
  ];
};

function scatter(strategies, label) {
  const frame = { left: 56, right: 830, top: 16, bottom: 372 };
  const limit = data.selection?.limits.max_inflation ?? null;
  const figures = strategies.map((each) => each.measures[state.measure]);
  const xs = strategies.map((each) => each.inflation).concat(limit ?? []);
  const ys = figures.flatMap((each) => [each.low ?? each.mean, each.mean, each.high ?? each.mean]);
  const scaleX = scale(xs, frame.left, frame.right, 0.12), scaleY = scale(ys, frame.bottom, frame.top, 0.06, 1);
  const summary = strategies.map((each, i) => `${each.name}: ${number(each.inflation, 2)}, ${number(figures[i].mean)}`).join("; ");
  const chart = svg("svg", { viewBox: "0 0 860 420", role: "img", "aria-label": `${t("scatter.title", { label })}. ${summary}` });
  for (const value of scaleX.ticks) chart.append(
    svg("line", { class: "grid", x1: scaleX(value), x2: scaleX(value), y1: frame.top, y2: frame.bottom }),
    svg("text", { x: scaleX(value), y: frame.bottom + 18, "text-anchor": "middle" }, tickText(value)));
  for (const value of scaleY.ticks) chart.append(
    svg("line", { class: "grid", x1: frame.left, x2: frame.right, y1: scaleY(value), y2: scaleY(value) }),
    svg("text", { x: frame.left - 8, y: scaleY(value) + 4, "text-anchor": "end" }, tickText(value)));
  chart.append(svg("text", { x: (frame.left + frame.right) / 2, y: 412, "text-anchor": "middle" }, t("scatter.x")),
    svg("text", { transform: `translate(14 ${(frame.top + frame.bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, label));
  if (limit !== null) chart.append(
    svg("rect", { class: "beyond", x: scaleX(limit), y: frame.top, width: Math.max(0, frame.right - scaleX(limit)), height: frame.bottom - frame.top }),
    svg("line", { class: "limit", x1: scaleX(limit), x2: scaleX(limit), y1: frame.top, y2: frame.bottom }),
    svg("text", { class: "limit-label", x: scaleX(limit) + 6, y: frame.bottom - 8 }, t("scatter.limit", { limit: String(limit) })));
  const points = strategies.map((each, i) => ({ strategy: each, figure: figures[i], x: scaleX(each.inflation), y: scaleY(figures[i].mean) }));
  const boxes = [...points.map(({ strategy, x, y }) => around(x, y, strategy.status === "selected" ? 13 : 8)), ...points.filter(({ figure }) => figure.low !== null).map(({ figure, x }) =>
    ({ left: x - 2, right: x + 2, top: scaleY(figure.high), bottom: scaleY(figure.low) }))];
  const places = placedNames(points, boxes, frame);
  chart.append(...places.filter((each) => each.leader).map(drawLeader), ...points.map((point) => drawPoint(point, scaleY)), ...places.map(drawName));
  return chart;
}

function drawLeader({ x, y, leader }) {
  return svg("line", { class: "leader", x1: x, y1: y, x2: leader.x, y2: leader.y });
}

function drawName({ strategy, box }) {
  return svg("g", { class: strategy.status }, svg("text", { class: "name", x: box.left, y: box.bottom - 4 }, shortened(strategy.name)));
}

function drawPoint({ strategy, figure, x, y }, scaleY) {
  const group = svg("g", { class: strategy.status }, svg("title", {}, `${strategy.name}: ${number(figure.mean)}, ${t("inflation")} ${number(strategy.inflation, 2)}. ${t(`status.${strategy.status}`)}`));
  if (figure.low !== null) group.append(svg("line", { class: "whisker", x1: x, x2: x, y1: scaleY(figure.low), y2: scaleY(figure.high) }));
  if (strategy.status === "selected") group.append(svg("circle", { class: "halo", cx: x, cy: y, r: 14 }));
  if (strategy.status === "eliminated") group.append(svg("path", { class: "point", d: `M${x - 5} ${y - 5}L${x + 5} ${y + 5}M${x + 5} ${y - 5}L${x - 5} ${y + 5}` }));
  else group.append(svg("circle", { class: "point", cx: x, cy: y, r: strategy.status === "selected" ? 7 : 5 }));
  return group;
}

const shortened = (name) => (name.length > 34 ? `${name.slice(0, 33)}…` : name);

const around = (x, y, radius) => ({ left: x - radius, right: x + radius, top: y - radius, bottom: y + radius });

const overlap = (a, b) => Math.max(0, Math.min(a.right, b.right) - Math.max(a.left, b.left)) * Math.max(0, Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top));

const distance = (box, { x, y }) => Math.hypot(Math.max(box.left - x, 0, x - box.right), Math.max(box.top - y, 0, y - box.bottom));

/** The points with the places of their names: each is placed anew, knowing the others, until all have had their say. */
function placedNames(points, boxes, frame) {
  const places = points.map(() => ({ covers: [] }));
  for (let round = 0; round < ROUNDS; round++) {
    for (const [i, point] of points.entries()) {
      const others = places.filter((_, j) => j !== i).flatMap((each) => each.covers);
      places[i] = { ...point, ...labelPlace(point, points, [...boxes, ...others], frame) };
    }
  }
  return places;
}

/** Where a name covers the least of dots, whiskers and other names: beside its point, or further off at the end of a line. */
function labelPlace({ strategy, x, y }, points, taken, frame) {
  const width = [...shortened(strategy.name)].reduce((sum, char) => sum + (char > "\u2e7f" ? 12.5 : 7), 0);
  const gap = strategy.status === "selected" ? 18 : 12; // it has a halo
  const near = [[gap, 4], [-gap - width, 4], [gap, -10], [gap, 18], [-gap - width, -10], [-gap - width, 18], [-width / 2, -gap - 2], [-width / 2, gap + 12]];
  const steps = Array.from({ length: 21 }, (_, i) => (i - 10) * 17);
  const far = [30, 60, 100, 150].flatMap((step) => steps.flatMap((dy) => [[step, dy], [-step - width, dy]]));
  const [best] = [...near, ...far].map(([dx, dy], i) => {
    const box = { left: x + dx, right: x + dx + width, top: y + dy - 11, bottom: y + dy + 4 };
    const leader = i < near.length ? null : { x: dx > 0 ? box.left - 3 : box.right + 3, y: box.bottom - 8 };
    const outside = Math.max(0, frame.left - box.left) + Math.max(0, box.right - frame.right - 20) + Math.max(0, frame.top - box.top) + Math.max(0, box.bottom - frame.bottom);
    const covered = taken.reduce((sum, other) => sum + overlap(box, other), 0);
    const crossed = leaderBoxes(x, y, leader).reduce((sum, dot) => sum + taken.reduce((all, other) => all + overlap(dot, other), 0), 0);
    const isMistaken = !leader && points.some((other) => (other.x !== x || other.y !== y) && distance(box, other) < distance(box, { x, y }) + 2); // it seems to be another's
    return { box, leader, cost: covered * 4 + crossed + outside * 50 + isMistaken * 60 + (leader ? 12 + Math.hypot(leader.x - x, leader.y - y) / 4 : i) };
  }).sort((a, b) => a.cost - b.cost);
  return { ...best, covers: [best.box, ...leaderBoxes(x, y, best.leader)] };
}

/** What a line to a name covers, beyond the point that it comes from. */
function leaderBoxes(x, y, leader) {
  if (!leader) return [];
  const length = Math.hypot(leader.x - x, leader.y - y), count = Math.ceil(length / 6);
  return Array.from({ length: count }, (_, i) => (i + 1) / count).filter((part) => part * length > 12)
    .map((part) => around(x + (leader.x - x) * part, y + (leader.y - y) * part, 2));
}

/** A function from values to places, with round ticks. */
function scale(values, from, to, margin, most = Infinity) {
  const span = Math.max(...values) - Math.min(...values) || 0.2;
  const low = Math.max(0, Math.min(...values) - span * margin), high = Math.min(most + 0.02, Math.max(...values) + span * margin * 1.5);
  const place = (value) => from + ((value - low) / (high - low || 1)) * (to - from);
  const raw = (high - low) / 6, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= raw);
  place.ticks = [];
  for (let tick = Math.ceil(low / step); tick * step <= Math.min(high, most); tick++) place.ticks.push(tick * step);
  return place;
}

const tickText = (value) => String(Number(value.toPrecision(4)));

// ------------------------------------------------------------------------------------------------ heat map

sections.heatmap = () => {
  if (!state.measure) return null;
  const kinds = ["by_section", "by_tag", "by_document"].filter((kind) => data.strategies.some((each) => each[kind].length));
  const by = kinds.includes(state.groups.by) ? state.groups.by : kinds[0];
  const label = measureLabel(state.measure);
  const strategies = data.strategies.filter((each) => each.status !== "failed");
  const title = [el("h2", {}, t("heatmap.title")), el("p", { class: "quiet small" }, t("heatmap.note", { label }))];
  if (!by) return null;
  const sizes = new Map(strategies.flatMap((each) => each[by].map((group) => [group.name, group.n_questions])));
  const names = [...sizes.keys()], pages = Math.ceil(names.length / GROUPS_A_PAGE), page = Math.min(state.groups.page, pages - 1);
  const shown = names.slice(page * GROUPS_A_PAGE, (page + 1) * GROUPS_A_PAGE);
  const groups = strategies.map((each) => new Map(each[by].map((group) => [group.name, group.measures[state.measure]?.mean])));
  const rows = shown.map((name) => [`${name} (${sizes.get(name)})`, groups.map((each) => each.get(name))]);
  const choose = (value) => { state.groups = { by: value, page: 0 }; draw("heatmap"); document.getElementById("heat-by")?.focus(); };
  return [
    ...title,
    el("div", { class: "controls" }, select(t("group_by"), kinds.map((kind) => [kind, t(kind)]), by, choose, "heat-by"), measureControl("heat-measure")),
    el("div", { class: "wide" }, el("table", { class: strategies.length > MANY ? "heat many" : "heat" },
      el("thead", {}, el("tr", {}, el("td", { class: "nothing" }), strategies.map(turnedHead))),
      el("tbody", {}, [[t("all"), strategies.map((each) => each.measures[state.measure]?.mean)], ...rows].map(([name, values]) =>
        el("tr", {}, el("th", { scope: "row", title: name }, name), values.map(heatCell)))))),
    pager(page, pages, (to) => { state.groups.page = to; draw("heatmap"); }),
  ];
};

function turnedHead(strategy) {
  return el("th", { scope: "col", class: `turned ${strategy.status}`, title: strategy.name }, el("span", {}, strategy.name));
}

function heatCell(value) {
  if (value == null) return el("td", { class: "nothing" }, "–");
  const cell = el("td", {}, number(value, 2));
  cell.style.setProperty("--value", Math.max(0, Math.min(1, value)));
  return cell;
}

// ------------------------------------------------------------------------------------------------ signals and probes

sections.signals = () => [
  el("h2", {}, t("signals.title")),
  data.signals.length ? el("div", { class: "cards" }, data.signals.map(signalCard)) : el("p", {}, t("signals.none")),
];

function signalCard(signal) {
  const values = { ...signal.figures, section: signal.section };
  return el("article", { class: "card signal" },
    el("h3", {}, t(`signal.${signal.kind}`)), el("p", { class: "eyebrow" }, signal.strategy),
    el("p", {}, words(`signal.${signal.kind}.message`, values) ?? english(signal.message)),
    el("p", { class: "remedy" }, el("strong", {}, t("remedy") + t("colon")), words(`signal.${signal.kind}.remedy`) ?? english(signal.remedy)));
}

sections.probes = () => {
  const probed = probedStrategies();
  if (!probed.length || isEmpty) return null;
  if (!isEvaluation && !probed[0].total) return [el("h2", {}, t("probes.title")), el("p", {}, t("probes.nothing"))];
  const kinds = [...new Set(probed.flatMap((each) => each.kinds.map((kind) => kind.kind)))];
  const good = data.probes.good_enough;
  return [
    el("h2", {}, t("probes.title")), el("p", { class: "quiet small" }, t("probes.note", { good: String(good) })),
    el("div", { class: "wide" }, el("table", { class: "heat" },
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, t("strategy")), el("th", { scope: "col" }, t("probes.score")), kinds.map((kind) => el("th", { scope: "col" }, t(`kind.${kind}`))))),
      el("tbody", {}, probed.map((each) => el("tr", {}, el("th", { scope: "row" }, each.strategy), heatCell(each.score),
        kinds.map((kind) => heatCell(each.kinds.find((score) => score.kind === kind)?.score))))))),
    el("div", { class: "cards" }, probed.filter((each) => each.score !== null && each.score < good).map(probeCard)),
    !isEvaluation && probeList(),
  ];
};

/** Every probe, and what each strategy does to it. */
function probeList() {
  const pages = Math.ceil(asked.length / QUESTIONS_A_PAGE), page = Math.min(state.probes.page, pages - 1);
  const shown = asked.slice(page * QUESTIONS_A_PAGE, (page + 1) * QUESTIONS_A_PAGE);
  return [
    el("h3", { class: "list-head" }, t("probes.all", { n: asked.length })),
    el("div", { class: "wide" }, el("table", { class: "question-table probe-list" },
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, t("probe")), probedStrategies().map((each) => el("th", { scope: "col" }, each.strategy)))),
      el("tbody", {}, shown.map(probeRow)))),
    pager(page, pages, (to) => { state.probes.page = to; draw("probes"); }),
  ];
}

function probeRow(probe) {
  const broken = Math.max(0, probe.answers.findIndex((each) => each.cuts.length));
  const chips = [t(`kind.${probe.kind}`), data.documents.length > 1 && data.documents[probe.document]?.title].filter(Boolean);
  const opener = charactersOf(probe.document) === null ? el("span", {}, probe.text) : button(probe.text, () => showInViewer(probe, broken), { class: "opener", title: t("view") });
  return el("tr", {}, el("th", { scope: "row" }, opener, el("div", { class: "chips" }, chips.map((each) => el("span", {}, each)))),
    probedStrategies().map((each) => probe.answers[data.strategies.findIndex(({ name }) => name === each.strategy)]).map(({ how }) => el("td", { class: how ? "value zero" : "value full" }, how ? "✂" : "●",
      how ? el("span", { class: "reason" }, howBroken({ kind: probe.kind, how })) : el("span", { class: "unseen" }, t("probes.whole")))));
}

function probeCard(probed) {
  const totals = Object.fromEntries(probed.kinds.map((kind) => [kind.kind, kind.total]));
  return el("article", { class: "card" },
    el("h3", {}, `${probed.strategy}${t("colon")}${number(probed.score, 2)}`),
    el("p", { class: "eyebrow" }, t("probes.breaks")),
    el("ul", { class: "small" }, probed.breakages.map((each) => el("li", {},
      `${t("probes.n", { n: each.n_probes, total: totals[each.kind], kind: t(`kind.${each.kind}`) })}${t("colon")}`, howBroken(each)))),
    el("details", {}, el("summary", {}, t("probes.worst")), probed.cuts.map(worstCut)));
}

function worstCut(cut) {
  return el("div", { class: "small" },
    el("p", {}, el("strong", {}, cut.question), el("span", { class: "quiet" }, ` ${cut.document_id}`)),
    el("p", {}, howBroken(cut), t("semicolon") + t("probes.cut", { pieces: cut.pieces, partial: share(cut.partial) })),
    cut.places.slice(0, 3).map((place) => el("div", { class: "cut-text" }, place.before, el("span", { class: "scissors", role: "img", "aria-label": t("viewer.cut_here") }, " ✂ "), place.after)));
}

/** What happened to a probe, in the page's language where its sentence is known. */
function howBroken({ kind, how }) {
  const part = (name) => t(labels[`part.${name}`] ? `part.${name}` : `kind.${name}`);
  const forms = [
    ["how.missing", /^(.+) missing, in whole or in part$/], ["how.longer", /^(.+) longer than the largest chunk$/],
    ["how.cut", /^(.+) cut up$/], ["how.apart", /^(.+) and (.+) in different chunks$/], ["how.same", /^(.+)s in different chunks$/],
  ];
  for (const [key, form] of forms) {
    const found = state.language === "en" ? null : how.match(form);
    if (found) return words(key, { a: part(found[1]), b: found[2] ? part(found[2]) : "" });
  }
  return english(how);
}

// ------------------------------------------------------------------------------------------------ questions

/** The value of the deciding measure, and whether it is as good as can be. */
function verdict(question, strategy) {
  const value = question.answers[strategy]?.values[questionMeasures().indexOf(data.deciding)];
  if (value == null) return null;
  const isHigherBetter = data.measures.find((each) => each.name === data.deciding).higher_is_better;
  return { value, good: isHigherBetter ? value : 1 - value };
}

function chosenStrategies() {
  if (state.questions.strategy >= 0) return [state.questions.strategy];
  return data.strategies.flatMap((each, i) => (each.status === "failed" ? [] : [i]));
}

function filteredQuestions() {
  const { text, failed, cut, section, tag } = state.questions;
  const strategies = chosenStrategies(), wanted = text.trim().toLowerCase();
  return data.questions.filter((question) =>
    (!wanted || [question.text, question.id, question.document_id].some((each) => each.toLowerCase().includes(wanted))) &&
    (!section || question.section === section) && (!tag || question.tags.includes(tag)) &&
    (!failed || strategies.some((i) => (verdict(question, i)?.good ?? 1) < 1)) &&
    (!cut || strategies.some((i) => question.answers[i]?.cuts.length)));
}

sections.questions = () => (data.questions.length ? [
  el("h2", {}, t("questions.title")),
  data.deciding && el("p", { class: "quiet small" }, t("questions.note", { label: measureLabel(data.deciding) })),
  questionFilters(),
  el("p", { class: "small quiet", id: "question-count", role: "status" }, questionCount(filteredQuestions())),
  el("div", { id: "question-list" }, questionList(filteredQuestions())),
] : null);

function questionFilters() {
  const filter = (name) => (value) => { state.questions[name] = value; state.questions.page = 0; redrawQuestions(); };
  const distinct = (values) => [["", t("any")], ...[...new Set(values)].filter(Boolean).sort().map((each) => [each, each])];
  const search = el("input", { type: "search", id: "question-search", value: state.questions.text, oninput: (event) => filter("text")(event.target.value) });
  const sectionNames = distinct(data.questions.map((each) => each.section)), tags = distinct(data.questions.flatMap((each) => each.tags));
  const strategies = [[-1, t("any")], ...data.strategies.map((each, i) => [i, each.name]).filter(([i]) => data.strategies[i].status !== "failed")];
  return el("div", { class: "controls", role: "search" },
    el("label", {}, t("questions.search"), search),
    select(t("questions.strategy"), strategies, state.questions.strategy, (value) => filter("strategy")(Number(value)), "question-strategy"),
    sectionNames.length > 1 && select(t("questions.section"), sectionNames, state.questions.section, filter("section"), "question-section"),
    tags.length > 1 && select(t("questions.tag"), tags, state.questions.tag, filter("tag"), "question-tag"),
    checkbox(t("questions.failed"), state.questions.failed, filter("failed"), "question-failed"),
    checkbox(t("questions.cut"), state.questions.cut, filter("cut"), "question-cut"));
}

const questionCount = (found) => t("questions.count", { n: found.length, all: data.questions.length });

function redrawQuestions() {
  const found = filteredQuestions();
  document.getElementById("question-count").textContent = questionCount(found);
  document.getElementById("question-list").replaceChildren(...questionList(found).filter(Boolean));
}

function questionList(found) {
  const strategies = chosenStrategies();
  if (!found.length) return [el("p", {}, t("questions.none"))];
  const pages = Math.ceil(found.length / QUESTIONS_A_PAGE), page = Math.min(state.questions.page, pages - 1);
  const shown = found.slice(page * QUESTIONS_A_PAGE, (page + 1) * QUESTIONS_A_PAGE);
  return [
    el("div", { class: "wide" }, el("table", { class: strategies.length > MANY ? "question-table many" : "question-table" },
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, t("question")), strategies.map((i) => turnedHead(data.strategies[i])))),
      el("tbody", {}, shown.flatMap((question) => questionRows(question, strategies))))),
    pager(page, pages, (to) => { state.questions.page = to; redrawQuestions(); }),
  ];
}

function questionRows(question, strategies) {
  const isOpen = state.questions.open.has(question.id);
  const detail = el("tr", { class: "detail", hidden: !isOpen }, el("td", { colspan: strategies.length + 1 }, isOpen ? questionDetail(question, strategies) : ""));
  const toggle = (event) => {
    const open = detail.hidden;
    if (open) state.questions.open.add(question.id); else state.questions.open.delete(question.id);
    if (open) detail.firstChild.replaceChildren(...questionDetail(question, strategies));
    detail.hidden = !open;
    event.currentTarget.setAttribute("aria-expanded", open);
  };
  const opener = button(question.text, toggle, { class: "opener", "aria-expanded": String(isOpen) });
  const chips = [question.id, question.document_id, question.section, ...question.tags].filter(Boolean);
  return [el("tr", { class: "question" }, el("th", { scope: "row" }, opener, el("div", { class: "chips" }, chips.map((each) => el("span", {}, each)))),
    strategies.map((i) => valueCell(verdict(question, i)))), detail];
}

function valueCell(found) {
  if (!found) return el("td", { class: "value" }, "–");
  const [kind, mark] = found.good >= 1 ? ["full", "●"] : found.good > 0 ? ["half", "◐"] : ["zero", "○"];
  return el("td", { class: `value ${kind}` }, `${mark} ${number(found.value, 2)}`);
}

function questionDetail(question, strategies) {
  const characters = charactersOf(question.document);
  return [
    el("p", { class: "eyebrow" }, t("gold.count", { n: question.gold.length })),
    ...(characters ? question.gold.map(([start, end]) => el("blockquote", { class: "gold-text" }, characters.slice(start, end))) : [el("p", { class: "quiet" }, t("no_text"))]),
    el("div", { class: "cards" }, strategies.map((i) => answerCard(question, i))),
  ];
}

function answerCard(question, strategy) {
  const answer = question.answers[strategy], { name, kind } = data.strategies[strategy];
  if (!answer) return el("article", { class: "card" }, el("h3", {}, name), el("p", {}, t("no_answer")));
  const names = questionMeasures();
  const values = data.main.filter((each) => names.includes(each)).map((each) => [each, answer.values[names.indexOf(each)]]);
  const places = answer.cuts.flatMap(([, , at]) => at).join(", ");
  return el("article", { class: "card" },
    el("h3", {}, name),
    el("p", { class: "small quiet" }, values.filter(([, value]) => value !== null).map(([each, value]) => `${measureLabel(each)} ${number(value, 2)}`).join(" · ")),
    kind === "parser" && el("p", {}, el("span", { class: answer.cuts.length ? "badge cutting" : "badge whole" }, answer.cuts.length ? `✂ ${t("cut.some", { places })}` : t("cut.none"))),
    charactersOf(question.document) && kind === "parser" && button(t("view"), () => showInViewer(question, strategy)),
    answer.hits.length ? el("ol", { class: "hits" }, answer.hits.map((hit, i) => hitItem(question, hit, i + 1))) : el("p", { class: "small" }, t("no_hits")));
}

function hitItem(question, [place, start, end, score], rank) {
  if (start === null) return el("li", {}, `${rank}. `, el("span", { class: "badge" }, t("hit.unknown")));
  const gold = place === question.document ? question.gold : [];
  const touched = gold.filter(([from, to]) => from < end && start < to);
  const kind = touched.some(([from, to]) => start <= from && to <= end) ? "whole" : touched.length ? "part" : "none";
  const characters = charactersOf(place);
  return el("li", {},
    `${rank}. ${data.documents[place]?.id ?? "?"} ${start}–${end} `, score !== null && el("span", { class: "quiet" }, `${number(score, 3)} `),
    el("span", { class: `badge ${kind}` }, t(`hit.${kind}`)),
    characters && snippet(characters, start, end, touched));
}

/** The beginning of a result, or what is around its gold. */
function snippet(characters, start, end, gold) {
  const from = end - start > SNIPPET && gold.length ? Math.max(start, Math.min(gold[0][0] - SNIPPET / 4, end - SNIPPET)) : start;
  const to = Math.min(end, from + SNIPPET);
  return el("span", { class: "snippet" }, from > start && "…", marked(characters, from, to, gold), to < end && "…");
}

/** A piece of a document as text nodes, the ranges in <mark>. */
function marked(characters, start, end, ranges) {
  const edges = [...new Set([start, end, ...ranges.flat()])].filter((edge) => start <= edge && edge <= end).sort((a, b) => a - b);
  return edges.slice(1).map((edge, i) => {
    const piece = characters.slice(edges[i], edge);
    return ranges.some(([from, to]) => from <= edges[i] && edge <= to) ? el("mark", {}, piece) : piece;
  });
}

function showInViewer(question, strategy) {
  const second = state.viewer.strategies.find((each) => each !== strategy) ?? -1;
  const page = pageOf(question.document, question.gold[0]?.[0] ?? 0);
  Object.assign(state.viewer, { document: question.document, question: asked.indexOf(question), strategies: [strategy, second], page, cut: -1 });
  draw("viewer");
  document.getElementById("viewer").scrollIntoView();
  scrollPanes(question.gold[0]?.[0] ?? 0);
}

/** Scrolls both panes to a character of the page that they show. */
function scrollPanes(at) {
  for (const box of document.querySelectorAll("#viewer .text")) {
    const there = [...box.querySelectorAll("[data-at]")].findLast((piece) => Number(piece.dataset.at) <= at);
    if (there) box.scrollTop += there.getBoundingClientRect().top - box.getBoundingClientRect().top - box.clientHeight / 3;
  }
}

// ------------------------------------------------------------------------------------------------ chunk viewer

const texts = new Map();

/** The text of a document, cut by code points; null if the page does not hold it. */
function charactersOf(place) {
  const text = data.documents[place]?.text;
  if (text === null || text === undefined) return null;
  if (!texts.has(place)) texts.set(place, /[\ud800-\udbff]/.test(text) ? new CodePoints(text) : text);
  return texts.get(place);
}

class CodePoints {
  constructor(text) { this.points = Array.from(text); this.length = this.points.length; }
  slice(start, end) { return this.points.slice(start, end).join(""); }
}

/** Where the pages of a document begin: after a line's end if there is one near. */
function pageStarts(place) {
  const characters = charactersOf(place), starts = [0];
  while (characters.length - starts.at(-1) > CHARACTERS_A_PAGE * 1.25) {
    const from = starts.at(-1) + CHARACTERS_A_PAGE;
    const newline = characters.slice(from, from + CHARACTERS_A_PAGE / 5).indexOf("\n");
    starts.push(from + newline + 1);
  }
  return starts;
}

const pageOf = (place, position) => (charactersOf(place) ? Math.max(0, pageStarts(place).findLastIndex((start) => start <= position)) : 0);

/** What can be chosen: documents with text; strategies with chunks. */
const shownDocuments = () => data.documents.flatMap((each, i) => (each.text === null ? [] : [i]));
const shownStrategies = () => data.strategies.flatMap((each, i) => (Object.keys(each.chunks).length ? [i] : []));

/** The chunks of a strategy in a document, as pairs. */
function chunksOf(strategy, place) {
  const { chunks, returned } = data.strategies[strategy];
  const flat = (state.viewer.returned && returned[place]) || chunks[place] || [];
  return Array.from({ length: flat.length / 2 }, (_, i) => [flat[2 * i], flat[2 * i + 1]]);
}

/** The questions, or probes, whose gold is shown: the chosen one, or all of the document. */
function viewedQuestions() {
  const { document: place, question } = state.viewer;
  return question >= 0 ? [asked[question]] : asked.filter((each) => each.document === place);
}

function cutsOf(strategy) {
  const cuts = viewedQuestions().flatMap((question) => question.answers[strategy]?.cuts ?? []);
  return [...new Set(cuts.flatMap(([, , at]) => at))].sort((a, b) => a - b);
}

sections.viewer = () => {
  const shown = shownDocuments(), capped = shown.length < data.documents.length;
  const head = [el("h2", {}, t("viewer.title")), el("p", { class: "quiet small" }, t(isEvaluation ? "viewer.note" : asked.length ? "viewer.note_probes" : "viewer.note_chunks")),
    capped && el("p", { class: "small", id: "capped" }, t("viewer.capped", { shown: shown.length, all: data.documents.length, limit: number(data.max_characters, 0) }))];
  if (!shown.length) return [...head, el("p", {}, t("viewer.empty"))];
  const view = state.viewer;
  if (!shown.includes(view.document)) view.document = shown.find((i) => asked.some((each) => each.document === i)) ?? shown[0];
  view.strategies ??= [0, 1].map((i) => shownStrategies()[i] ?? -1);
  if (!data.documents[view.document].text.trim()) return [...head.slice(0, 1), shown.length > 1 && viewerControls(shown), el("p", { class: "empty" }, t("viewer.empty_document"))];
  const starts = pageStarts(view.document), page = Math.min(view.page, starts.length - 1);
  const go = (to) => { view.page = to; view.cut = -1; draw("viewer"); };
  return [
    ...head, viewerControls(shown), legend(),
    el("div", { class: "panes" }, view.strategies.filter((each) => each >= 0).map((strategy, i) =>
      pane(strategy, i, starts[page], starts[page + 1] ?? charactersOf(view.document).length))),
    pager(page, starts.length, go),
  ];
};

function viewerControls(shown) {
  const view = state.viewer;
  const change = (values, id) => { Object.assign(view, { cut: -1, ...values }); draw("viewer"); document.getElementById(id)?.focus(); };
  const strategies = shownStrategies().map((i) => [i, data.strategies[i].name]);
  const side = (i, value) => view.strategies.map((each, j) => (i === j ? Number(value) : each));
  const questions = asked.flatMap((each, i) => (each.document === view.document ? [[i, shortened(`${each.id}: ${each.text}`)]] : []));
  return el("div", { class: "controls" },
    data.documents.length > 1 && select(t("viewer.document"), shown.map((i) => [i, data.documents[i].title]), view.document, (value) => change({ document: Number(value), question: -1, page: 0 }, "viewer-document"), "viewer-document"),
    questions.length > 0 && select(t(isEvaluation ? "viewer.gold" : "probe"), [[-1, t(isEvaluation ? "viewer.all_gold" : "viewer.all_probes")], ...questions], view.question, (value) => change({ question: Number(value), page: value < 0 ? view.page : pageOf(view.document, asked[value].gold[0]?.[0] ?? 0) }, "viewer-question"), "viewer-question"),
    select(t("viewer.left"), strategies, view.strategies[0], (value) => change({ strategies: side(0, value) }, "viewer-left"), "viewer-left"),
    select(t("viewer.right"), [[-1, t("viewer.nothing")], ...strategies], view.strategies[1], (value) => change({ strategies: side(1, value) }, "viewer-right"), "viewer-right"),
    data.strategies.some((each) => Object.keys(each.returned).length) && checkbox(t("viewer.returned"), view.returned, (on) => change({ returned: on }, "viewer-returned"), "viewer-returned"));
}

function legend() {
  const swatch = (background, name = "swatch") => { const box = el("span", { class: name }); box.style.background = background; return box; };
  return el("ul", { class: "legend" },
    el("li", {}, [0, 1, 2, 3].map((i) => swatch(`var(--c${i})`)), t("legend.chunk")),
    el("li", {}, swatch(stripes([0, 1])), t("legend.overlap")),
    el("li", {}, swatch("none", "swatch gap-swatch"), t("legend.gap")),
    asked.length > 0 && el("li", {}, el("mark", {}, t(isEvaluation ? "legend.gold" : "legend.probe"))),
    asked.length > 0 && el("li", {}, el("span", { class: "scissors" }, "✂ "), t(isEvaluation ? "legend.cut" : "legend.probe_cut")));
}

function pane(strategy, side, start, end) {
  const place = state.viewer.document, chunks = chunksOf(strategy, place), cuts = cutsOf(strategy);
  const gold = viewedQuestions().flatMap((question) => question.gold);
  const torn = viewedQuestions().reduce((sum, question) => sum + (question.answers[strategy]?.cuts.length ?? 0), 0);
  const average = chunks.reduce((sum, [from, to]) => sum + to - from, 0) / (chunks.length || 1);
  const stats = isEvaluation ? "viewer.stats" : gold.length ? "viewer.stats_probes" : "viewer.stats_chunks";
  return el("div", { class: "pane" },
    el("div", { class: "pane-head" }, el("p", {}, el("strong", {}, data.strategies[strategy].name), el("br"),
      chunks.length ? t(stats, { n: chunks.length, characters: Math.round(average), cut: torn, gold: isEvaluation ? gold.length : viewedQuestions().length }) : t("viewer.no_chunks")),
      asked.length > 0 && button(t("viewer.next_cut"), () => nextCut(strategy, side), { disabled: !cuts.length })),
    el("div", { class: "text", tabindex: 0, role: "group", "aria-label": data.strategies[strategy].name }, ...viewedText(charactersOf(place), chunks, gold, cuts, start, end)));
}

/** The next cut of a pane, on whichever page it is. */
function nextCut(strategy, side) {
  const cuts = cutsOf(strategy);
  state.viewer.cut = cuts.find((at) => at > state.viewer.cut) ?? cuts[0];
  state.viewer.page = pageOf(state.viewer.document, state.viewer.cut - 1);
  draw("viewer");
  scrollPanes(state.viewer.cut);
  document.querySelectorAll("#viewer .pane-head button")[side].focus();
}

/** The characters from start to end: a piece for every stretch that the same chunks and gold ranges cover. */
function viewedText(characters, chunks, gold, cuts, start, end) {
  const near = chunks.map(([from, to], i) => ({ from, to, i })).filter(({ from, to }) => from < end && start < to);
  const inside = (edge) => start < edge && edge < end;
  const edges = [...new Set([start, end, ...near.flatMap(({ from, to }) => [from, to]).filter(inside), ...gold.flat().filter(inside), ...cuts.filter(inside)])].sort((a, b) => a - b);
  const begins = new Map(near.map(({ from, i }) => [from, i]));
  const pieces = [];
  for (let i = 0; i + 1 < edges.length; i++) {
    const at = edges[i];
    if (cuts.includes(at)) pieces.push(el("span", { class: at === state.viewer.cut ? "cut current" : "cut", role: "img", "aria-label": t("viewer.cut_here"), title: `${t("viewer.cut_here")}: ${at}` }, "✂"));
    const covering = near.filter(({ from, to }) => from <= at && at < to);
    if (begins.has(at)) pieces.push(tick(near, at, covering));
    const isGold = gold.some(([from, to]) => from <= at && at < to);
    pieces.push(piece(characters.slice(at, edges[i + 1]), at, covering, isGold, chunks.length > 0));
  }
  return pieces;
}

function tick(near, at, covering) {
  const begun = near.filter(({ from }) => from === at);
  const mark = el("span", { class: "tick", "data-n": begun.map(({ i }) => i + 1).join("·"), title: begun.map(({ from, to, i }) => t("viewer.chunk", { n: i + 1, start: String(from), end: String(to) })).join("\n") });
  mark.style.background = stripes(covering.map(({ i }) => i % 4));
  return mark;
}

function piece(text, at, covering, isGold, hasChunks) {
  const numbers = covering.map(({ i }) => i + 1);
  const title = covering.length > 1 ? t("viewer.overlap", { list: numbers.join(", ") }) : covering.length ? t("viewer.chunk", { n: numbers[0], start: String(covering[0].from), end: String(covering[0].to) }) : t("viewer.gap");
  const element = el(isGold ? "mark" : "span", { title, "data-at": at, class: covering.length > 1 ? "overlap" : covering.length ? "one" : hasChunks && text.trim() ? "none" : "" }, text);
  if (covering.length) element.style.background = stripes(covering.map(({ i }) => i % 4));
  return element;
}

/** One colour, or stripes of several. */
function stripes(colours) {
  const distinct = [...new Set(colours)];
  if (distinct.length < 2) return `var(--c${distinct[0] ?? 0})`;
  const stops = distinct.map((colour, i) => `var(--c${colour}) ${i * 7}px ${(i + 1) * 7}px`);
  return `repeating-linear-gradient(135deg, ${stops.join(", ")})`;
}

// ------------------------------------------------------------------------------------------------ the rest

sections.notes = () => (data.notes.length ? [
  el("h2", {}, t("notes.title")),
  el("ul", {}, data.notes.map((note) => el("li", {}, `${t(`about.${note.about}`)} `, el("strong", {}, note.name), t("colon"), english(note.message)))),
] : null);

sections.method = () => {
  const run = data.run;
  const limits = Object.entries(data.selection?.limits ?? {}).map(([name, value]) => `${t(`limit.${name}`)} ${value}`).join(t("semicolon"));
  const facts = [
    ["model", run.embed_model], ["search", t(`search.${run.search}`)], ["k", String(run.k)], ["budget", number(run.budget, 0)],
    ["confidence", share(run.confidence)], ["limits", limits], ["embedded", `${number(run.n_embedded, 0)} / ${number(run.n_cached, 0)}`],
    ["date", run.date], ["seconds", t("seconds", { n: number(run.seconds, 1) })], ["machine", run.machine],
    ["versions", Object.entries(run.versions).map(([name, version]) => `${name} ${version}`).join(", ")],
  ];
  return [
    el("h2", {}, t("method.title")), el("p", {}, t("method.text")),
    el("dl", { class: "facts" }, facts.filter(([, value]) => value).flatMap(([name, value]) => [el("dt", {}, t(`method.${name}`)), el("dd", {}, value)])),
  ];
};

function isDark() {
  const chosen = document.documentElement.style.colorScheme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function bar() {
  const linked = order.filter((name) => labels[`nav.${name}`] && document.getElementById(name));
  const themeName = () => t(isDark() ? "theme.light" : "theme.dark");
  return [
    el("a", { class: "skip", href: `#${order[0]}` }, t("skip")),
    el("div", { class: "bar" },
      el("h1", { title: title() }, title()),
      el("nav", { "aria-label": t("contents") }, el("ul", {}, linked.map((name) => el("li", {}, el("a", { href: `#${name}` }, t(`nav.${name}`)))))),
      button(t("language"), () => { state.language = state.language === "en" ? "zh" : "en"; drawAll(); document.getElementById("language").focus(); }, { id: "language", lang: state.language === "en" ? "zh" : "en" }),
      button(themeName(), (event) => { document.documentElement.style.colorScheme = isDark() ? "light" : "dark"; event.currentTarget.textContent = themeName(); }, { id: "theme" })),
  ];
}

/** Draws a section anew; it is not there if it has nothing to say. */
function draw(name) {
  const content = [sections[name]()].flat(Infinity).filter(Boolean);
  document.getElementById(name)?.replaceChildren(...content);
  return content;
}

function drawAll() {
  document.documentElement.lang = state.language;
  document.title = title();
  const main = el("main", { class: data.page }, el("p", { class: "quiet small" }, subtitle()));
  const header = el("header");
  document.getElementById("page").replaceChildren(header, main);
  for (const name of order) {
    main.append(el("section", { id: name, class: name }));
    if (!draw(name).length) document.getElementById(name).remove();
  }
  header.append(...bar());
}

drawAll();
