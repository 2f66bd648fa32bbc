// Shows the board's data, and asks for it each second. Texts come from learners' files: they are put
// into the page as text and never as HTML.
const token = new URLSearchParams(location.hash.slice(1)).get("teacher") || "";
const MARKS = { solved: "✔", begun: "○" };

function element(tag, text = "", name = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  if (name) made.className = name;
  return made;
}

function row(cells) {
  const made = document.createElement("tr");
  for (const cell of cells) made.append(cell instanceof Node ? cell : element("td", String(cell)));
  return made;
}

const minutes = (count) => (count === null || count === undefined ? "" : count < 1 ? "now" : `${count} min`);

function showLearners(data) {
  const head = row([element("th", "who"), element("th", "at"), element("th", "for"), element("th", "tries, hints")]);
  let chapter = "";
  for (const kata of data.katas) {
    const cell = element("th", "", kata.chapter === chapter ? "kata" : "kata chapter");
    cell.append(element("span", `${kata.chapter} ${kata.name}`));
    cell.title = kata.title;
    cell.scope = "col";
    chapter = kata.chapter;
    head.append(cell);
  }
  document.querySelector("#learners thead").replaceChildren(head);
  let was = "";
  const begins = data.katas.map((kata) => kata.chapter !== was && ((was = kata.chapter), true));
  const rows = data.learners.map((learner) => {
    const who = element("td", learner.who + (learner.is_cut ? " (a file of more than 2 MB)" : ""));
    const tries = learner.current ? `${learner.attempts}, ${learner.hints}` : "";
    const made = row([who, learner.at, minutes(learner.minutes), tries]);
    if (!learner.is_here) made.className = "away";
    data.katas.forEach((kata, number) => {
      const state = learner.states[kata.name] || "";
      const names = ["mark", state in MARKS ? state : "", begins[number] ? "chapter" : ""];
      const cell = element("td", MARKS[state] || "·", names.join(" "));
      cell.title = `${kata.name}${state ? `: ${state}` : ""}`;
      made.append(cell);
    });
    return made;
  });
  document.querySelector("#learners tbody").replaceChildren(...rows);
}

function showStops(data) {
  const rows = data.stops.map((stop) => {
    const planned = stop.minutes ? `${stop.over} (${stop.minutes} min)` : "";
    const made = row([stop.kata, stop.at, planned, minutes(stop.longest), stop.solved]);
    if (stop.over >= 3) made.className = "stuck";
    return made;
  });
  document.querySelector("#stops tbody").replaceChildren(...rows);
}

function histogram(prediction, teaches, learners) {
  const figure = document.createElement("figure");
  const caption = element("figcaption", `${prediction.chapter} ${prediction.question}`);
  figure.append(caption, element("div", `${prediction.count} of ${learners} learners have predicted.`));
  const most = Math.max(1, ...prediction.said.map(([, count]) => count));
  const said = element("div");
  for (const [words, count] of prediction.said) {
    const bar = element("label", "", "bar");
    const drawn = document.createElement("progress");
    drawn.max = most;
    drawn.value = count;
    bar.append(element("span", words), drawn, element("span", String(count)));
    said.append(bar);
  }
  if (prediction.revealed) figure.append(said);
  else if (teaches) figure.append(folded("What they predicted", said, prediction.key));
  if (prediction.revealed) figure.append(element("p", `Revealed: ${prediction.answer || "see above"}`, "solved"));
  else if (prediction.known) {
    const known = element("p", prediction.known);
    figure.append(folded("The chapter's answer", known, `${prediction.key}, answer`));
  }
  if (teaches) {
    const button = element("button", prediction.revealed ? "Hide the answer" : "Reveal to all");
    button.addEventListener("click", () => {
      if (prediction.revealed) return reveal(prediction.key, null);
      const answer = prediction.known || window.prompt("The answer that all learners will read:", "");
      if (answer !== null) reveal(prediction.key, answer);
    });
    figure.append(button);
  }
  return figure;
}

const opened = new Set();

/** A part that opens on a click, since the teacher's page may be on the projector. */
function folded(heading, part, key) {
  const made = document.createElement("details");
  made.open = opened.has(key);
  made.addEventListener("toggle", () => (made.open ? opened.add(key) : opened.delete(key)));
  made.append(element("summary", heading), part);
  return made;
}

let shownPredictions = "";

function showPredictions(data) {
  // Rebuilt only when something changed, so that a button stays under the pointer.
  const now = JSON.stringify([data.predictions, data.teaches, data.learners.length]);
  if (now === shownPredictions) return;
  shownPredictions = now;
  const figures = data.predictions.map((one) => histogram(one, data.teaches, data.learners.length));
  document.querySelector("#predictions").replaceChildren(...figures);
}

function ours() {
  // A hub, which keeps a token in a cookie that other sites' pages can't read, asks for it each time.
  const xsrf = document.cookie.match(/(?:^|; )_xsrf=([^;]+)/);
  return { "X-Teacher": token, ...(xsrf && { "X-XSRFToken": xsrf[1] }) };
}

async function reveal(key, answer) {
  const headers = { "X-Board": "reveal", ...ours() };
  const answered = await fetch("reveal", { method: "POST", headers, body: JSON.stringify({ key, answer }) });
  if (!answered.ok) say("The answer could not be revealed.");
  await look();
}

function say(text) {
  document.querySelector("#said").textContent = text;
}

async function look() {
  try {
    const answered = await fetch("data", { headers: ours() });
    if (!answered.ok) throw new Error(`status ${answered.status}`);
    const data = await answered.json();
    const here = data.learners.filter((learner) => learner.is_here).length;
    const [first, ...others] = data.gpu;
    const gpu = first ? ` GPU: ${first.who} for ${minutes(first.minutes)}, ${others.length} waiting.` : "";
    document.querySelector("#summary").textContent = `${data.learners.length} learners, ${here} at work.${gpu}`;
    say(data.trouble);
    showLearners(data);
    showStops(data);
    showPredictions(data);
  } catch (error) {
    say(`The board does not answer (${error.message}); what you see may be old.`);
  }
}

async function forever() {
  await look();
  setTimeout(forever, 1000);
}

forever();
