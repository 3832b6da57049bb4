// The search engine splits words at dashes, but reads a dash in a query as "without": a flag is looked up by its words.
document.addEventListener("input", ({ target }) => {
  if (target.matches?.(".md-search__input")) {
    const words = target.value.replace(/-+/g, " ").trimStart();
    if (words !== target.value) target.value = words;
  }
}, true);
