// The live part: its controls, and everything that depends on them.

const ALL = "all classes";
const BALANCED = "balanced accuracy";
const NONE = "none"; // the estimator of the raw model, so no correction has this name

class Live {
  constructor(runs) {
    this.runs = runs;
    this.section = document.getElementById("live");
    const find = (id) => document.getElementById(id);
    this.controls = {
      run: find("run"), step: find("step"), correction: find("correction"), strength: find("strength"),
      target: find("target"), own: find("own"), search: find("search"),
    };
    this.charts = new Charts();
    this.table = new ClassTable(find("classes"), this.controls.search, find("found"));
    this.saveButton = find("save");
    this.ownPrior = null;
    this.fitted = 1; // the fitted strength of the correction that the slider is for
    this.wanted = null; // the chosen correction, even if the current run does not have it
    this.isServed = document.querySelector('meta[name="energyalign-state"]') !== null;
    this.fill(this.controls.run, runs.map((run, i) => [i, run.name]));
    this.controls.run.closest("label").hidden = runs.length === 1;
    // The first run with corrections.
    this.controls.run.value = Math.max(0, runs.findIndex((run) => run.views.at(-1).corrections.length));
    if (runs[0].views[0].target !== null) this.controls.target.value = "fitted";
    this.restore();
    for (const name of ["run", "step", "correction", "target"]) {
      this.controls[name].addEventListener("change", () => this.chosen(name));
    }
    this.controls.strength.addEventListener("input", () => this.soon());
    this.controls.own.addEventListener("input", () => this.chosen("own"));
    this.controls.search.addEventListener("input", () => this.remember());
    this.saveButton.addEventListener("click", () => this.save());
    isDark.addEventListener("change", () => this.update());
    for (const [event, isPrinting] of [["beforeprint", true], ["afterprint", false]]) {
      window.addEventListener(event, () => {
        this.charts.isPrinting = isPrinting;
        this.charts.resize();
        this.update();
      });
    }
    this.chosen("run");
  }

  get run() {
    return this.runs[this.controls.run.value];
  }

  // The chosen step; the last one if none is chosen or the run has fewer.
  viewOf(run) {
    return run.views[Math.min(this.chosenStep ?? Infinity, run.views.length - 1)];
  }

  get view() {
    return this.viewOf(this.run);
  }

  fill(select, options) {
    select.replaceChildren(...options.map(([value, text]) => element("option", { value, textContent: text })));
  }

  // A choice that other controls depend on has changed.
  chosen(name) {
    if (name === "run") {
      this.fill(this.controls.step, this.run.views.map((view, i) => [i, view.name]));
      this.controls.step.value = this.run.views.indexOf(this.view);
      this.controls.step.closest("label").hidden = this.run.views.length === 1;
    }
    if (name === "step") this.chosenStep = Number(this.controls.step.value);
    if (name === "correction") this.wanted = this.controls.correction.value;
    if (name === "run" || name === "step") {
      const names = this.view.corrections.map((correction) => correction.name);
      this.wanted ??= names[0] ?? NONE;
      this.fill(this.controls.correction, [...names.map((n) => [n, n]), [NONE, "none (raw model)"]]);
      this.controls.correction.value = names.includes(this.wanted) ? this.wanted : NONE;
      this.offerTargets();
      this.showNotes();
    }
    if (["run", "step", "correction"].includes(name)) this.offerStrengths();
    this.readOwn({ mayFill: name !== "own" });
    this.curve = null;
    this.update();
  }

  // Disable targets that this view does not allow: a class without training images would have probability 0.
  offerTargets() {
    const { target } = this.controls;
    for (const option of target.options) {
      option.disabled = option.value !== "own" && targetPrior(this.view, option.value, null) === null;
      option.hidden = option.disabled && option.value === "fitted";
    }
    if (target.selectedOptions[0].disabled) target.value = "uniform";
  }

  // From the raw model to full shifts. Move to the fitted strength if that is another than before.
  offerStrengths() {
    const { correction } = this.settings(this.view), { strength } = this.controls;
    const fitted = correction === null ? this.fitted : correction.strength;
    strength.max = Math.max(1, fitted);
    strength.disabled = correction === null || fitted === 0;
    if (fitted !== this.fitted) strength.value = fitted;
    this.fitted = fitted;
  }

  // Notes on what was left out to keep the page small, for every run.
  showNotes() {
    const notes = this.runs.filter((run) => this.viewOf(run).note).map((run) => `${run.name}: ${this.viewOf(run).note}`);
    document.getElementById("view-note").textContent = notes.join(" ");
  }

  soon() {
    if (this.waiting) return;
    this.waiting = true;
    this.section.setAttribute("aria-busy", "true");
    requestAnimationFrame(() => {
      this.waiting = false;
      this.update();
    });
  }

  // Fill an empty box, unless the user has just emptied it.
  readOwn({ mayFill }) {
    const wanted = this.controls.target.value === "own";
    this.controls.own.closest("label").hidden = !wanted;
    const problem = document.getElementById("own-problem");
    problem.textContent = "";
    if (!wanted) return;
    const names = this.view.classNames;
    if (mayFill && !this.controls.own.value.trim()) this.controls.own.value = names.map(() => 1).join(" ");
    const weights = this.controls.own.value.trim().split(/[\s,;]+/).map(Number);
    if (weights.length !== names.length) {
      problem.textContent = `Expected ${names.length} numbers, one per class, got ${weights.length}.`;
    } else if (weights.some((x) => !(x > 0 && isFinite(x)))) {
      problem.textContent = "Every number must be above zero.";
    } else {
      this.ownPrior = weights;
      return;
    }
    if (this.ownPrior === null || this.ownPrior.length !== names.length) this.ownPrior = names.map(() => 1);
  }

  // The current settings of a view; `isMissing` if it lacks the correction or does not allow the target.
  settings(view) {
    const correction = view.corrections.find(({ name }) => name === this.wanted) ?? null;
    const target = targetPrior(view, this.controls.target.value, this.ownPrior);
    const strength = Number(this.controls.strength.value), fitted = correction?.strength;
    return {
      correction,
      isMissing: (correction === null && this.wanted !== NONE) || target === null,
      strength: Math.abs(strength - fitted) <= 0.005 ? fitted : strength, // the slider moves in steps of 0.01
      target: target ?? targetPrior(view, "uniform", null),
    };
  }

  update() {
    const { view } = this;
    const settings = this.settings(view);
    const order = classOrder(view);
    const raw = scores(view, rawPredictions(view), settings.target);
    const predicted = predictions(view, shiftsAt(view, settings));
    const now = scores(view, predicted, settings.target);
    this.curve ??= this.computeCurve(view, settings);
    this.drawCurve(view, settings);
    this.charts.drawBars(view, order, raw.perClass, now.perClass);
    this.charts.drawConfusion(view, order, predicted);
    this.compare(now);
    this.showHeadline(view, settings, now);
    this.saveButton.disabled = settings.correction === null;
    document.getElementById("save-problem").textContent = "";
    this.remember();
    this.section.setAttribute("aria-busy", "true");
    clearTimeout(this.resting); // update the long table and the spoken text when the slider rests
    this.resting = setTimeout(() => {
      this.showClasses(view, settings, raw, now);
      this.say(view, settings, now);
      this.section.setAttribute("aria-busy", "false");
    }, 150);
  }

  // Strengths, and by name the scores there: the score that the shifts were fitted for, or all groups of classes.
  computeCurve(view, settings) {
    const strengths = Array.from({ length: 21 }, (_, i) => (i / 20) * this.controls.strength.max);
    const at = strengths.map((strength) =>
      scores(view, predictions(view, shiftsAt(view, { ...settings, strength })), settings.target)
    );
    const balanced = at.map((s) => s.balanced);
    if (view.score) return { strengths, lines: [[view.score.name, at.map((s) => s.own)], [BALANCED, balanced]] };
    const groups = view.groups.map(({ name }, g) => [name, at.map((s) => s.groups[g])]);
    return { strengths, lines: [[ALL, balanced], ...groups.filter(([, shares]) => !isNaN(shares[0]))] };
  }

  drawCurve(view, { strength }) {
    const { strengths, lines } = this.curve;
    const scored = view.score ? `${view.score.name} and balanced accuracy` : BALANCED;
    const title = `${scored[0].toUpperCase()}${scored.slice(1)} by strength of the correction`;
    document.getElementById("curve-title").textContent = `${title}, %`;
    this.charts.drawCurve(title, lines.map(([name]) => name), strengths, lines.map(([, shares]) => shares), strength);
  }

  showClasses(view, { correction }, raw, now) {
    const number = (x) => x.toLocaleString("en");
    const { total } = decoded(view);
    const known = (values, k) => (values && values[k] !== undefined ? values[k] : null);
    const share = (x) => (isNaN(x) ? null : 100 * x);
    const columns = [
      { name: "class" },
      { name: "training samples", form: number },
      { name: "samples here", form: number },
      { name: "raw, %", form: oneDecimal },
      { name: "corrected, %", form: oneDecimal },
      { name: "change", form: (x) => withSign(x, 1) },
      { name: "fitted shift", form: (x) => withSign(x, 2) },
      { name: "± std. error", form: (x) => x.toFixed(2) },
      { name: "eff. samples", form: (x) => x.toFixed(1) },
    ];
    const rows = view.classNames.map((name, k) => [
      name,
      known(view.counts, k),
      total[k],
      share(raw.perClass[k]),
      share(now.perClass[k]),
      isNaN(raw.perClass[k]) ? null : 100 * (now.perClass[k] - raw.perClass[k]),
      known(correction && correction.shifts, k),
      known(correction && correction.errors, k),
      known(correction && correction.effective, k),
    ]);
    this.table.show(columns, rows);
  }

  // All runs with the same settings; `shown` are the scores of the current run.
  compare(shown) {
    const groups = [...new Set(this.runs.flatMap((run) => this.viewOf(run).groups.map((group) => group.name)))];
    const table = document.getElementById("compared");
    const head = element("tr");
    const { score } = this.view, own = score ? [`${score.name}, raw`, `${score.name}, corrected`] : [];
    const columns = ["run", ...own, "raw", "corrected", ...groups, "under the target prior"];
    head.append(...columns.map((name, i) => element("th", { scope: "col", textContent: name, className: i ? "" : "text" })));
    table.tHead.replaceChildren(head);
    const rows = this.runs.map((run) => {
      const view = this.viewOf(run), settings = this.settings(view);
      const raw = scores(view, rawPredictions(view), settings.target);
      const now = settings.isMissing ? null : run === this.run ? shown : scores(view, predictions(view, shiftsAt(view, settings)), settings.target);
      const of = (name) => {
        const i = view.groups.findIndex((group) => group.name === name);
        return now === null || i < 0 ? "–" : percent(now.groups[i]);
      };
      const row = element("tr", { className: run === this.run ? "chosen" : "" });
      const title = view.name ? `${run.name}, ${view.name}` : run.name;
      row.append(element("th", { scope: "row", className: "text", textContent: title }));
      const ownCells = score ? [scoreText(score.metric, raw.own), now ? scoreText(score.metric, now.own) : "–"] : [];
      const cells = [...ownCells, percent(raw.balanced), now ? percent(now.balanced) : "–", ...groups.map(of), now ? percent(now.onTarget) : "–"];
      row.append(...cells.map((text) => element("td", { textContent: text })));
      return row;
    });
    table.tBodies[0].replaceChildren(...rows);
  }

  showHeadline({ score }, { strength }, now) {
    this.controls.strength.setAttribute("aria-valuetext", strength.toFixed(2));
    document.getElementById("strength-shown").textContent = strength.toFixed(2);
    document.getElementById("score-shown").textContent = score ? scoreText(score.metric, now.own) : "";
    document.getElementById("score-name").textContent = score ? ` ${score.name}, ` : "";
    document.getElementById("balanced-shown").textContent = `${percent(now.balanced)} %`;
  }

  // In words, for screen readers and print.
  say(view, { correction, strength }, now) {
    const named = correction ? correction.name : "no shifts";
    const parts = [[BALANCED, now.balanced], ...view.groups.map((group, i) => [group.name, now.groups[i]])];
    const own = view.score ? [`${view.score.name} ${scoreText(view.score.metric, now.own)}`] : [];
    const numbers = [...own, ...parts.map(([name, share]) => `${name} ${percent(share)} %`)].join(", ");
    const target = this.controls.target.selectedOptions[0].textContent;
    const text = `${named}, strength ${strength.toFixed(2)}, target prior ${target}: ${numbers}.`;
    document.getElementById("spoken").textContent = text;
  }

  async save() {
    const { correction, strength, target } = this.settings(this.view);
    const problem = document.getElementById("save-problem");
    if (!window.isSecureContext) {
      problem.textContent = "Browsers compute the checksum only in secure pages: open this page from a file or from localhost.";
      return;
    }
    const text = scaledText(correction.file, factorAt(correction, strength), target);
    if (text === null) {
      problem.textContent = "These shifts were not fitted for balanced accuracy: choose the uniform target prior, or fit again with another one.";
      return;
    }
    const href = URL.createObjectURL(new Blob([await sealed(text)], { type: "application/json" }));
    element("a", { href, download: "shifts.json" }).click();
    URL.revokeObjectURL(href);
  }

  // A served page keeps its settings when it reloads.
  remember() {
    if (!this.isServed) return;
    const chosen = Object.fromEntries(Object.entries(this.controls).map(([name, control]) => [name, control.value]));
    try {
      sessionStorage.setItem("energyalign", JSON.stringify({ ...chosen, chosenStep: this.chosenStep, wanted: this.wanted, fitted: this.fitted }));
    } catch {} // storage is disabled
  }

  restore() {
    if (!this.isServed) return;
    let chosen = null;
    try {
      chosen = JSON.parse(sessionStorage.getItem("energyalign"));
    } catch {}
    if (!chosen || !(chosen.run in this.runs)) return;
    this.controls.run.value = chosen.run;
    this.chosenStep = chosen.chosenStep;
    this.wanted = chosen.wanted;
    this.fitted = chosen.fitted;
    for (const name of ["strength", "target", "own", "search"]) this.controls[name].value = chosen[name];
  }
}

new Live(JSON.parse(document.getElementById("data").textContent));
