// The corrected model: logits plus shifts, the largest wins.

// In float32 like the experiments, so that ties are broken alike.
function predictions(view, shifts) {
  const { values, classes, labels, candidates } = decoded(view);
  const added = Float32Array.from(shifts);
  const found = new Uint32Array(labels.length);
  for (let image = 0, place = 0; image < labels.length; image++) {
    let best = -Infinity, winner = 0;
    for (let i = 0; i < candidates; i++, place++) {
      const k = classes === null ? i : classes[place];
      const score = Math.fround(values[place] + added[k]);
      if (score > best) {
        best = score;
        winner = k;
      }
    }
    found[image] = winner;
  }
  return found;
}

// Predictions of the raw model; computed once.
function rawPredictions(view) {
  view.raw ??= predictions(view, new Array(view.classNames.length).fill(0));
  return view.raw;
}

function mean(numbers) {
  return numbers.length ? numbers.reduce((sum, x) => sum + x, 0) / numbers.length : NaN;
}

// Accuracies of predictions; NaN for classes without images.
function scores(view, predicted, target) {
  const { labels, total, nClasses } = decoded(view);
  const right = new Uint32Array(nClasses);
  for (let i = 0; i < labels.length; i++) if (predicted[i] === labels[i]) right[labels[i]]++;
  const perClass = Array.from(right, (n, k) => (total[k] ? n / total[k] : NaN));
  const over = (classes) => mean(classes.map((k) => perClass[k]).filter((x) => !isNaN(x)));
  const groups = view.groups.map(({ classes }) => over(classes));
  const seen = [...perClass.keys()].filter((k) => total[k]);
  const weight = seen.reduce((all, k) => all + target[k], 0);
  return {
    balanced: over(seen),
    groups,
    perClass,
    onTarget: seen.reduce((all, k) => all + target[k] * perClass[k], 0) / weight,
  };
}

// Confusion matrix, with classes pooled into at most `most` bins in the given order.
function confusion(view, predicted, order, most) {
  const { labels, nClasses } = decoded(view);
  const size = Math.ceil(nClasses / most), bins = Math.ceil(nClasses / size);
  const place = new Uint32Array(nClasses);
  order.forEach((k, i) => (place[k] = Math.floor(i / size)));
  const counts = new Uint32Array(bins * bins);
  for (let i = 0; i < labels.length; i++) counts[place[labels[i]] * bins + place[predicted[i]]]++;
  return { counts, bins, size };
}

// The target prior of this kind; null if the view does not allow it.
function targetPrior(view, kind, own) {
  const n = view.classNames.length;
  const counts = view.counts !== null && view.counts.every((count) => count > 0) ? view.counts : null;
  const weights = {
    uniform: new Array(n).fill(1),
    fitted: view.target,
    training: counts,
    reversed: counts && reversed(counts),
    own: own !== null && own.length === n ? own : null,
  }[kind];
  if (weights === null) return null;
  const sum = weights.reduce((all, x) => all + x, 0);
  return weights.map((x) => x / sum);
}

// The rarest class gets the count of the most frequent one, and vice versa.
function reversed(counts) {
  const ranked = [...counts.keys()].sort((a, b) => counts[b] - counts[a] || a - b);
  const turned = new Array(counts.length);
  ranked.forEach((k, i) => (turned[k] = counts[ranked[ranked.length - 1 - i]]));
  return turned;
}

// strength * (shift + log target prior), as in `Shifts.scaled`; a uniform target adds nothing. Without a correction the
// model stays raw for every target, because target priors apply to aligned models only.
function shiftsAt(view, { correction, strength, target }) {
  if (correction === null) return view.classNames.map(() => 0);
  const even = Math.log(1 / target.length);
  return correction.shifts.map((shift, k) => strength * (shift + (Math.log(target[k]) - even)));
}

// Most training samples first; without counts or in steps, in the given order.
function classOrder(view) {
  const classes = [...view.classNames.keys()];
  if (view.counts === null || view.inSteps) return classes;
  return classes.sort((a, b) => view.counts[b] - view.counts[a] || a - b);
}
