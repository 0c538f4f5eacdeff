// Server-sent events keep the page up to date. What is there is changed in place: scroll, focus and what is open stay.
const connection = document.getElementById("connection");
const isBodyRow = (node) => node.nodeName === "TR" && node.parentNode.nodeName === "TBODY";
const keyOf = (node) => (isBodyRow(node) ? node.cells[0].dataset.value : node.id || undefined);
const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);

const changeAttributes = (old, fresh) => {
  for (const { name } of [...old.attributes]) {
    const kept = name === "open";  // readers have opened it
    if (!kept && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
};

const change = (old, fresh) => {
  if (old.isEqualNode(fresh)) return;
  if (old instanceof SVGElement) { old.replaceWith(fresh); return; }
  if (old.nodeType !== Node.ELEMENT_NODE) { old.data = fresh.data; return; }
  if (old.nodeName === "TABLE") {
    const head = old.querySelector("th[aria-sort]");
    if (head) sortTable(fresh, head.cellIndex, head.getAttribute("aria-sort"));
  }
  changeAttributes(old, fresh);
  changeChildren(old, fresh);
};

// Rows are known by what stands in their first cell, all else by its place.
const changeChildren = (old, fresh) => {
  let place = old.firstChild;
  for (const next of [...fresh.childNodes]) {
    let match = place;
    while (match && !alike(match, next)) match = match.nextSibling;
    if (!match) { old.insertBefore(next, place); continue; }
    if (keyOf(next) === undefined) while (place !== match) { const gone = place; place = place.nextSibling; gone.remove(); }
    if (match === place) place = place.nextSibling;
    else old.insertBefore(match, place);
    change(match, next);
  }
  while (place) { const gone = place; place = place.nextSibling; gone.remove(); }
};

const update = ({ data }) => {
  const focused = document.activeElement;
  const seen = scrollY > 0 ? document.elementFromPoint(innerWidth / 2, 8) : null;
  const top = seen?.getBoundingClientRect().top;
  for (const [id, html] of Object.entries(JSON.parse(data))) {
    const part = document.getElementById(id);
    const template = document.createElement("template");
    template.innerHTML = html;
    if (part) changeChildren(part, template.content);
  }
  document.title = document.querySelector("#verdict [data-title]")?.dataset.title ?? document.title;
  if (focused.isConnected && focused !== document.activeElement) focused.focus({ preventScroll: true });
  if (seen?.isConnected) scrollBy({ top: seen.getBoundingClientRect().top - top, behavior: "instant" });
};

const tell = (what, live) => {
  connection.textContent = what;
  connection.classList.toggle("live", live);
  connection.classList.toggle("caution", !live);
};

const listen = () => {
  const source = new EventSource(connection.dataset.events);
  source.onopen = () => tell("Live: the page updates by itself", true);
  source.onmessage = update;
  source.onerror = () => {
    const last = document.querySelector("#as-of time")?.textContent ?? "never";
    tell(`Disconnected: last updated ${last} UTC. Trying to reconnect.`, false);
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 3000);  // the browser has given up
  };
};

document.documentElement.style.overflowAnchor = "none";  // done here, in every browser alike
listen();
