
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
  if (answer && matchMedia("(max-width: 40rem)").matches && !location.hash) answer.scrollIntoView();
}
