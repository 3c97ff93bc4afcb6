// Words that every JavaScript object knows, such as "constructor", are no words of the index: looked up in a
// plain object they give a function, at which the search would break. So the index's tables inherit nothing.
for (const table of [Search._index.terms, Search._index.titleterms]) {
  Object.setPrototypeOf(table, null);
  Object.defineProperty(table, "hasOwnProperty", { value: (word) => Object.hasOwn(table, word) });
}
