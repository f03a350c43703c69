// Only in a served page: reload it when the server has a newer one.

(() => {
  const mark = document.querySelector('meta[name="energyalign-state"]').content;
  async function look() {
    try {
      const answer = await fetch("/", { method: "HEAD", cache: "no-store" });
      if (answer.ok && answer.headers.get("ETag") !== `"${mark}"`) return location.reload();
    } catch {} // the server has stopped: keep the page
    setTimeout(look, 2000);
  }
  setTimeout(look, 2000);
})();
