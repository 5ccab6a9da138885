// The module of a page of its own.

explore(document);

/** What is wider than its place can be scrolled by keys. */
function reachable() {
  for (const box of document.querySelectorAll("figure, .scroll")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}

for (const event of ["load", "resize"]) addEventListener(event, reachable);
addEventListener("toggle", reachable, true); // what is unfolded
