// The module of a notebook's widget: the page in a tree of its own, which no style of the notebook reaches.

function render({ model, el }) {
  const root = el.attachShadow({ mode: "open" });
  root.innerHTML = model.get("page"); // made and escaped as a page is; what is put in so runs no script
  explore(root);
}

export default { render };
