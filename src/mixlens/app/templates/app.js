
// The form: it says that it waits, and stops when it is told to. Without this it is a plain form.
{
  const form = document.querySelector(".app form");
  if (form) {
    const act = form.querySelector(".act");
    const cancel = form.querySelector("[data-cancel]");
    const status = form.querySelector("[data-status]");
    let timer = 0;
    const waiting = (yes) => {
      clearInterval(timer);
      act.disabled = yes;
      cancel.hidden = !yes;
      status.textContent = yes ? "Working…" : "";
      const begin = Date.now();
      if (yes) timer = setInterval(() => { status.textContent = `Working… ${Math.round((Date.now() - begin) / 1000)} s`; }, 1000);
    };
    form.addEventListener("submit", () => waiting(true));
    cancel.addEventListener("click", () => {
      window.stop(); // the connection closes, and the server drops the work
      waiting(false);
      status.textContent = "Cancelled.";
      act.focus();
    });
    addEventListener("pageshow", () => waiting(false)); // back from an answer
    form.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
    });
  }
  for (const input of document.querySelectorAll(".app [type=file]")) {
    input.addEventListener("change", () => { // said here, before it is sent
      const [file] = input.files;
      const most = Number(input.dataset.most);
      const large = file && file.size > most;
      input.setCustomValidity(large ? `expected a file of at most ${most / 1e6} MB, got ${(file.size / 1e6).toFixed(1)} MB` : "");
      input.reportValidity();
    });
  }
  for (const rows of document.querySelectorAll(".app [data-rows]")) { // without this all of them stand there
    const more = rows.querySelector("[data-more]");
    const all = [...rows.querySelectorAll(".document")];
    const show = () => { more.hidden = !all.some((row) => row.hidden); };
    for (const row of all) {
      row.hidden = row.hasAttribute("data-spare") && ![...row.querySelectorAll("input, textarea")].some((field) => field.value);
      const less = row.querySelector("[data-less]");
      less.hidden = false;
      less.addEventListener("click", () => {
        for (const field of row.querySelectorAll("input, textarea")) field.value = "";
        row.hidden = true;
        show();
        more.focus();
      });
    }
    more.addEventListener("click", () => {
      const next = all.find((row) => row.hidden);
      next.hidden = false;
      show();
      next.querySelector("input").focus();
    });
    show();
  }
  const copies = (button, text) => {
    button.hidden = !navigator.clipboard; // which pages of other machines have not
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(text());
      const words = button.textContent;
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = words; }, 1500);
    });
  };
  for (const button of document.querySelectorAll(".app [data-copy]")) copies(button, () => button.dataset.copy);
  for (const button of document.querySelectorAll(".app [data-copy-link]")) {
    copies(button, () => document.querySelector(".app [data-link]").href);
  }
  const answer = document.querySelector("main h1");
  const arrived = performance.getEntriesByType("navigation")[0]?.type === "navigate"; // else it is where it was left
  if (answer && arrived && !location.hash) { // the answer is read first: by eye, by keys, by a screen reader
    answer.tabIndex = -1;
    answer.focus({ preventScroll: true });
    if (answer.getBoundingClientRect().top > innerHeight / 3) answer.scrollIntoView();
  }
}
