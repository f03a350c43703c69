// Only in a page that is served: load it again when there is a newer one.

(() => {
  const mark = document.querySelector('meta[name="energyalign-state"]').content;
  async function look() {
    try {
      const answer = await fetch("/", { method: "HEAD", cache: "no-store" });
      if (answer.ok && answer.headers.get("ETag") !== `"${mark}"`) return location.reload();
    } catch {} // the server was stopped: the page stays as it is
    setTimeout(look, 2000);
  }
  setTimeout(look, 2000);
})();
