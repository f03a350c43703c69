// Decode the page's data.

function bytesOf(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes.buffer;
}

// The logits of a view as arrays; decoded once.
function decoded(view) {
  if (view.decoded) return view.decoded;
  const labels = new Uint32Array(bytesOf(view.labels));
  const nClasses = view.classNames.length;
  let values, classes = null;
  if (view.step === 0) {
    values = new Float32Array(bytesOf(view.values));
  } else {
    const steps = new Uint16Array(bytesOf(view.values));
    values = Float32Array.from(steps, (n) => -n * view.step);
    const Numbers = nClasses <= 65536 ? Uint16Array : Uint32Array;
    classes = new Numbers(bytesOf(view.classes));
  }
  const total = new Uint32Array(nClasses);
  for (const label of labels) total[label]++;
  view.decoded = { labels, values, classes, total, nClasses, candidates: view.candidates };
  view.values = view.classes = view.labels = null; // release the text
  return view.decoded;
}
