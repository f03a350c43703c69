// Only in a page that is served: load it again when it has changed.

(function watch() {
  let known = null;
  setInterval(async () => {
    try {
      const answer = await fetch("/", { method: "HEAD", cache: "no-store" });
      const mark = answer.headers.get("ETag");
      if (known !== null && mark !== known) location.reload();
      known = mark;
    } catch {} // the server was stopped: the page stays as it is
  }, 2000);
})();
