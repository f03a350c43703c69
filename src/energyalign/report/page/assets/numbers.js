// Numbers as Python prints them: a tie goes to the even digit, where toFixed would take the larger one.

function oneDecimal(x) {
  const size = Math.abs(x);
  if (!Number.isInteger(4 * size) || Number.isInteger(2 * size)) return x.toFixed(1);
  const tenths = Math.floor(10 * size); // of ties there are only .25 and .75: no other is a binary number
  return ((Math.sign(x) * (tenths + (tenths % 2))) / 10).toFixed(1);
}

function percent(share) {
  return isNaN(share) ? "–" : oneDecimal(100 * share);
}

function withSign(x, digits) {
  const text = digits === 1 ? oneDecimal(x) : x.toFixed(digits);
  return x > 0 ? `+${text}` : text;
}
