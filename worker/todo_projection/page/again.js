// A file of the page that did not come, in a network that changes under it: load again, until all of them are there.
addEventListener(
  "error",
  ({ target }) => {
    if (target instanceof HTMLScriptElement || target instanceof HTMLLinkElement) setTimeout(() => location.reload(), 1000);
  },
  true, // such an error does not rise
);
