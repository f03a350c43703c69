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

function sum(numbers) {
  return numbers.reduce((all, x) => all + x, 0);
}

function mean(numbers) {
  return numbers.length ? sum(numbers) / numbers.length : NaN;
}

// The metrics of `energyalign.core.objectives` but balanced accuracy, from counts per class: right, true, predicted.
const METRICS = {
  accuracy: (right, total) => sum(right) / sum(total),
  f1: (...counts) => f1Scores(...counts)[1],
  f1_macro: (right, total, taken) => mean(f1Scores(right, total, taken).filter((_, k) => total[k] + taken[k] > 0)),
  f1_weighted: (right, total, taken) => sum(f1Scores(right, total, taken).map((f1, k) => f1 * total[k])) / sum(total),
  jaccard_macro: (right, total, taken) =>
    mean(right.map((n, k) => n / (total[k] + taken[k] - n)).filter((share) => !isNaN(share))),
  matthews_corrcoef: (right, total, taken) => {
    const n = sum(total), dot = (a, b) => sum(a.map((x, k) => x * b[k]));
    const spread = (n ** 2 - dot(total, total)) * (n ** 2 - dot(taken, taken));
    return spread > 0 ? (sum(right) * n - dot(total, taken)) / Math.sqrt(spread) : 0;
  },
  geometric_mean: (right, total) => {
    const recalls = right.map((n, k) => n / total[k]).filter((recall) => !isNaN(recall));
    return Math.exp(mean(recalls.map(Math.log)));
  },
};

function f1Scores(right, total, taken) {
  return right.map((n, k) => (total[k] + taken[k] ? (2 * n) / (total[k] + taken[k]) : 0));
}

// Scores of predictions; accuracies are NaN for classes without images. `own` is the score of the view, if it has one.
function scores(view, predicted, target) {
  const { labels, total, nClasses } = decoded(view);
  const right = new Uint32Array(nClasses), taken = new Uint32Array(nClasses);
  for (let i = 0; i < labels.length; i++) {
    taken[predicted[i]]++;
    if (predicted[i] === labels[i]) right[labels[i]]++;
  }
  const perClass = Array.from(right, (n, k) => (total[k] ? n / total[k] : NaN));
  const over = (classes) => mean(classes.map((k) => perClass[k]).filter((x) => !isNaN(x)));
  const groups = view.groups.map(({ classes }) => over(classes));
  const seen = [...perClass.keys()].filter((k) => total[k]);
  const weight = seen.reduce((all, k) => all + target[k], 0);
  return {
    own: view.score ? METRICS[view.score.metric](...[right, total, taken].map((counts) => Array.from(counts))) : NaN,
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

// The factor that brings the fitted shifts to this strength; shifts of strength 0 cannot be brought to another.
function factorAt(correction, strength) {
  return correction.strength ? strength / correction.strength : 1;
}

// factor * (shift + log target prior), as in `Shifts.scaled`; a uniform target adds nothing. Without a correction the
// model stays raw for every target, because target priors apply to aligned models only.
function shiftsAt(view, { correction, strength, target }) {
  if (correction === null) return view.classNames.map(() => 0);
  const even = Math.log(1 / target.length), factor = factorAt(correction, strength);
  return correction.shifts.map((shift, k) => factor * (shift + (Math.log(target[k]) - even)));
}

// Most training samples first; without counts or in steps, in the given order.
function classOrder(view) {
  const classes = [...view.classNames.keys()];
  if (view.counts === null || view.inSteps) return classes;
  return classes.sort((a, b) => view.counts[b] - view.counts[a] || a - b);
}
