/* Keeps an open page up to date: a job's log line by line, the rest by region.

   Everything here is an extra. The server's page is whole without it; a region is only
   replaced by the same region of the same page, and never while it holds the focus or a
   selection. Text is set as text: nothing that a job prints becomes markup. */

const QUICK = 300;
const SLOWEST = 15000;
const OVERVIEW = 10000;
const MOST_LINES = 5000;

const words = document.querySelector("[data-bq-words]");
const on = document.querySelector("[data-bq-on]");
const follow = document.querySelector("[data-bq-follow]");

const wait = (milliseconds) => new Promise((go) => setTimeout(go, milliseconds));

function say(text) {
  if (words && words.textContent !== text) words.textContent = text;
}

/* Resolves when the page is looked at and live updates are switched on. */
async function attended(root) {
  const isAttended = () => !document.hidden && on.checked;
  if (isAttended()) return;
  if (!on.checked) say(root.dataset.bqWordPaused);
  await new Promise((go) => {
    const look = () => {
      if (!isAttended()) return;
      document.removeEventListener("visibilitychange", look);
      on.removeEventListener("change", look);
      go();
    };
    document.addEventListener("visibilitychange", look);
    on.addEventListener("change", look);
  });
  say("");
}

function isInUse(region) {
  if (region.contains(document.activeElement)) return true;
  const selection = document.getSelection();
  return Boolean(
    selection && !selection.isCollapsed && selection.containsNode(region, true),
  );
}

/* Replaces each region of the page by its newest self; true when all of them are. */
async function refreshRegions() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (!answer.ok || answer.redirected) throw new Error(String(answer.status));
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  let whole = true;
  for (const old of document.querySelectorAll("[data-bq-region]")) {
    const name = CSS.escape(old.dataset.bqRegion);
    const next = fresh.querySelector(`[data-bq-region="${name}"]`);
    if (!next || next.innerHTML === old.innerHTML) continue;
    if (isInUse(old)) {
      whole = false;
      continue;
    }
    const open = [...old.querySelectorAll("details")].map((each) => each.open);
    next.querySelectorAll("details").forEach((each, at) => {
      each.open = Boolean(open[at]);
    });
    old.replaceWith(document.importNode(next, true));
  }
  return whole;
}

function piecesOf(segments) {
  return segments.map(([text, classes]) => {
    if (!classes) return document.createTextNode(text);
    const piece = document.createElement("span");
    piece.className = classes;
    piece.textContent = text;
    return piece;
  });
}

class Log {
  constructor(root) {
    this.root = root;
    this.position = root.dataset.bqPosition;
    this.version = root.dataset.bqVersion;
    this.tag = "";
  }

  /* Asks once; returns what came: nothing, something, or the end. */
  async ask() {
    const url = `${this.root.dataset.bqLog}?since=${encodeURIComponent(this.position)}`;
    const headers = this.tag ? { "If-None-Match": this.tag } : {};
    const answer = await fetch(url, { headers, cache: "no-store" });
    if (answer.status === 304) return { lines: [], version: this.version };
    if (!answer.ok || answer.redirected) throw new Error(String(answer.status));
    const news = await answer.json();
    this.tag = answer.headers.get("ETag") ?? "";
    this.append(news.lines);
    this.position = news.position;
    return news;
  }

  append(lines) {
    if (!lines.length) return;
    document.querySelector("[data-bq-empty]")?.remove();
    for (const line of lines) this.appendLine(line);
    while (this.root.childElementCount > MOST_LINES) this.root.firstElementChild.remove();
    if (follow.checked) this.root.scrollTop = this.root.scrollHeight;
  }

  appendLine(line) {
    const last = this.root.lastElementChild;
    const step = line.step ?? "";
    const goesOn = last?.dataset.stream === line.stream && last.dataset.step === step;
    if (goesOn && "open" in last.dataset) {
      last.append(...piecesOf(line.segments));
      if (line.ended) delete last.dataset.open;
      return;
    }
    this.separate(line.attempt);
    if (step && !line.heads && last?.dataset.step !== step) this.head(step);
    const made = document.createElement("span");
    made.className = `bq-line bq-${line.stream}`;
    if (line.heads) made.classList.add("bq-step");
    made.dataset.stream = line.stream;
    made.dataset.step = step;
    if (!line.ended) made.dataset.open = "";
    const mark = { stderr: "bqWordStderr", system: "bqWordSystem" }[line.stream];
    if (mark) {
      const told = document.createElement("b");
      told.className = "bq-mark";
      told.textContent = this.root.dataset[mark];
      made.append(told, " ");
    }
    made.append(...piecesOf(line.segments));
    this.root.append(made);
  }

  head(step) {
    const head = document.createElement("span");
    head.className = "bq-line bq-step";
    head.textContent = `==> ${step}`;
    this.root.append(head);
  }

  separate(attempt) {
    const heads = this.root.querySelectorAll("[data-attempt]");
    const last = heads[heads.length - 1];
    if (last && last.dataset.attempt === String(attempt)) return;
    const head = document.createElement("span");
    head.className = "bq-line bq-attempt";
    head.dataset.attempt = attempt;
    head.textContent = this.root.dataset.bqWordAttempt.replace("{n}", attempt);
    this.root.append(head);
  }
}

async function followLog(root) {
  const log = new Log(root);
  root.scrollTop = root.scrollHeight;
  root.addEventListener("wheel", (event) => {
    if (event.deltaY < 0) follow.checked = false;
  }, { passive: true });
  let pause = QUICK;
  let stale = false;
  for (;;) {
    await attended(root);
    try {
      const news = await log.ask();
      if (stale || news.version !== log.version) {
        stale = !(await refreshRegions());
        log.version = news.version;
      }
      if (news.ended && !news.more && !stale) {
        say(root.dataset.bqWordEnded);
        return;
      }
      pause = news.lines.length ? QUICK : Math.min(pause * 1.2, SLOWEST);
      if (news.more) continue;
      say("");
    } catch {
      pause = Math.min(pause * 2, SLOWEST);
      say(root.dataset.bqWordLost.replace("{s}", String(Math.ceil(pause / 1000))));
    }
    await wait(pause);
  }
}

async function followOverview(root) {
  let pause = OVERVIEW;
  for (;;) {
    await wait(pause);
    await attended(root);
    try {
      await refreshRegions();
      pause = OVERVIEW;
      say("");
    } catch {
      pause = Math.min(pause * 2, 60000);
      say(root.dataset.bqWordLost.replace("{s}", String(Math.ceil(pause / 1000))));
    }
  }
}

const log = document.querySelector("[data-bq-log]");
const overview = document.querySelector("[data-bq-overview]");
for (const controls of document.querySelectorAll("[data-bq-controls]")) {
  controls.hidden = Boolean(log && log.dataset.bqEnded === "yes");
}
if (log && log.dataset.bqEnded !== "yes") followLog(log);
if (overview) followOverview(overview);
