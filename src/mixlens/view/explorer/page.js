// The module of a page of its own.

explore(document);
