// The list of runs: the filter, and the verdicts of runs that are not judged yet, one after the other.

const rows = [...document.querySelectorAll("tr[data-run]")];
const filter = document.getElementById("filter");
const count = document.getElementById("count");

function narrow() {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
  }
  count.textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length}`;
}

function seconds(ns) {
  return `${(ns / 1e9).toLocaleString("en", { maximumSignificantDigits: 3 })} s`;
}

async function judge(row) {
  const address = `/api/runs/${row.dataset.run.split("/").map(encodeURIComponent).join("/")}/summary`;
  const answer = await fetch(address);
  const found = await answer.json();
  const [, verdict, broken, , , , , length] = row.cells;
  verdict.textContent = answer.ok ? found.verdict : "unreadable";
  verdict.className = `v ${answer.ok ? found.verdict : ""}`;
  broken.textContent = answer.ok ? found.broken.join("; ") : found.error;
  length.textContent = answer.ok ? seconds(found.length_ns) : "";
}

filter.addEventListener("input", narrow);

// One at a time, and only what is in view: to judge a run costs a processor.
const seen = new Set();
let judging = Promise.resolve();
const observer = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting || seen.has(target)) continue;
    seen.add(target);
    judging = judging.then(() => judge(target)).then(narrow, () => {});
  }
});
for (const row of rows) if ("unjudged" in row.dataset) observer.observe(row);

document.getElementById("cluster")?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const value = (id) => document.getElementById(id).value;
  const starting = document.getElementById("starting");
  const submit = event.target.querySelector("[type=submit]");
  starting.textContent = "the members start and elect a leader";
  submit.disabled = true;
  const answer = await fetch("/api/clusters", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ name: value("name"), members: Number(value("members")), system: value("system"),
      service: value("service"), runtime: value("runtime"), links: document.getElementById("has-links").checked }),
  });
  const found = await answer.json();
  submit.disabled = false;
  starting.textContent = found.error ?? "";
  if (!found.error) location.assign(`/live/${encodeURIComponent(found.name)}`);
});
