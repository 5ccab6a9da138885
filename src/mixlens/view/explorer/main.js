// Every view of a page takes the place of what stands there without a script, as it comes into sight.

const VIEWS = { attribution, trace, maps, comparison, table };

async function start(place) {
  const data = await unpack(place.querySelector(":scope > script").textContent);
  const view = VIEWS[data.head.kind](data);
  place.prepend(view.node);
  place.dataset.live = "";
  dark.addEventListener("change", () => view.paint());
}

/** The views below `root`. */
function explore(root) {
  const seen = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      seen.unobserve(target);
      start(target).catch((error) => console.error(error)); // what stands there without a script stays
    }
  }, { rootMargin: "600px" });
  for (const place of root.querySelectorAll(".view")) if (place.querySelector(":scope > script")) seen.observe(place);
}
