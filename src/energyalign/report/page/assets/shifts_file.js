// The text that `Shifts.with_target(target).scaled(strength).save` writes, except for its checksum: the file of the full
// correction with other numbers. Null for a target that the shifts do not allow, if they were fitted for another score.
function scaledText(text, strength, target) {
  const { classes, scoring, strength: full } = JSON.parse(text);
  const isBalanced = scoring === "balanced_accuracy", near = (x, y) => Math.abs(x / y - 1) < 1e-12;
  if (!isBalanced && !target.every((share) => near(share, 1 / target.length))) return null;
  const aim = classes.map(({ target: fitted }, k) => isBalanced && !near(target[k], fitted) ? target[k] : fitted);
  const priors = isBalanced && strength !== 1 ? powers(aim, strength) : aim;
  const rows = classes.map(({ shift, target: fitted, standard_error: error }, k) => {
    const scaled = strength * (shift + Math.log(aim[k] / fitted));
    return [scaled, priors[k], error === null ? null : strength * error].map(asPython);
  });
  let k = 0;
  return text
    .replace(/^ {2}"strength": .*,$/m, `  "strength": ${asPython(strength * full)},`)
    .replace(/"shift": \S+, "target": \S+, "standard_error": \S+,/g, () => {
      const [shift, prior, error] = rows[k++];
      return `"shift": ${shift}, "target": ${prior}, "standard_error": ${error},`;
    });
}

const SMALLEST = Math.log(2.2250738585072014e-308);

// Shares to the power of the strength, normalised.
function powers(shares, strength) {
  const logs = shares.map((share) => strength * Math.log(share)), largest = Math.max(...logs);
  const scaled = logs.map((value) => Math.exp(Math.max(value - largest, SMALLEST)));
  const total = scaled.reduce((sum, value) => sum + value, 0);
  return scaled.map((value) => value / total);
}

// Fill in the checksum, which is that of the text without white space and with an empty checksum.
async function sealed(text) {
  const bare = text.replace(/[ \t\r\n]/g, "").replace(/"sha256":"[0-9a-f]*"/, '"sha256":""');
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(bare)));
  const hex = [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return text.replace(/"sha256": "[0-9a-f]*"/, `"sha256": "${hex}"`);
}

// Format a float like Python's json.
function asPython(x) {
  const size = Math.abs(x);
  if (size !== 0 && (size < 1e-4 || size >= 1e16)) return x.toExponential().replace(/e([+-])(\d)$/, "e$10$2");
  return Number.isInteger(x) ? `${Object.is(x, -0) ? "-" : ""}${x}.0` : String(x);
}
