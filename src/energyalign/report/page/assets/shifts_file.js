// The file that `Shifts.with_target(target).scaled(strength).save` writes, from the one of the full correction: Python's
// text with other numbers in it. Null for shifts that were chosen for another score: these have no other target.
function scaledFile(text, strength, target) {
  const { classes, scoring, strength: full } = JSON.parse(text);
  const isBalanced = scoring === "balanced_accuracy", near = (x, y) => Math.abs(x / y - 1) < 1e-12;
  if (!isBalanced && !target.every((share) => near(share, 1 / target.length))) return null;
  const rows = classes.map(({ shift, target: fitted, standard_error: error }, k) => {
    const prior = isBalanced && !near(target[k], fitted) ? target[k] : fitted;
    const added = isBalanced ? Math.log(prior * classes.length) : 0;
    const scaled = strength * (shift + Math.log(prior / fitted) - added) + added;
    return [scaled, prior, error === null ? null : strength * error].map(asPython);
  });
  let k = 0;
  return text
    .replace(/^ {2}"strength": .*,$/m, `  "strength": ${asPython(strength * full)},`)
    .replace(/"shift": \S+, "target": \S+, "standard_error": \S+,/g, () => {
      const [shift, prior, error] = rows[k++];
      return `"shift": ${shift}, "target": ${prior}, "standard_error": ${error},`;
    });
}

// A float as Python's json writes it.
function asPython(x) {
  const size = Math.abs(x);
  if (size !== 0 && (size < 1e-4 || size >= 1e16)) return x.toExponential().replace(/e([+-])(\d)$/, "e$10$2");
  return Number.isInteger(x) ? `${x}.0` : String(x);
}
