// Numbers as Python prints them: ties round to even, unlike toFixed.

function oneDecimal(x) {
  const size = Math.abs(x);
  if (!Number.isInteger(4 * size) || Number.isInteger(2 * size)) return x.toFixed(1);
  const tenths = Math.floor(10 * size); // the only ties are .25 and .75: no others are exact in binary
  return ((Math.sign(x) * (tenths + (tenths % 2))) / 10).toFixed(1);
}

function percent(share) {
  return isNaN(share) ? "–" : oneDecimal(100 * share);
}

// A score of this metric: a percentage, unless it may be negative.
function scoreText(metric, score) {
  return metric === "matthews_corrcoef" ? score.toFixed(3) : `${percent(score)} %`;
}

function withSign(x, digits) {
  const text = digits === 1 ? oneDecimal(x) : x.toFixed(digits);
  return x > 0 ? `+${text}` : text;
}
