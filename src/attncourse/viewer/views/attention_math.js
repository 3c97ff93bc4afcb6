// The mathematics of the views, and nothing else: a test runs it in node and compares it with torch.
const attentionMath = {
  // softmax(scores / temperature) over the visible positions. A position is hidden when visible[i] is false
  // or its score is -Infinity; its weight is exactly 0. Where nothing is visible every weight is 0.
  softmax(scores, temperature = 1, visible = null) {
    const seen = scores.map((score, i) => score !== -Infinity && (visible === null || visible[i]));
    const largest = Math.max(...scores.filter((_, i) => seen[i]));
    const raised = scores.map((score, i) => (seen[i] ? Math.exp((score - largest) / temperature) : 0));
    const total = raised.reduce((sum, part) => sum + part, 0);
    return total === 0 ? raised : raised.map((part) => part / total);
  },

  // The same weights at another temperature, when the scores are not known: softmax(log weight / temperature).
  // The logarithm of 0 is -Infinity, so what was hidden stays hidden. Temperature 1 changes nothing at all.
  atTemperature(weights, temperature) {
    return temperature === 1 ? weights : attentionMath.softmax(weights.map(Math.log), temperature);
  },

  dot: (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0),

  scores: {
    "dot": (q, k) => attentionMath.dot(q, k),
    "scaled dot": (q, k) => attentionMath.dot(q, k) / Math.sqrt(q.length),
    "cosine": (q, k) => {
      const lengths = Math.hypot(...q) * Math.hypot(...k);
      return lengths === 0 ? 0 : attentionMath.dot(q, k) / lengths;
    },
    "distance": (q, k) => -(Math.hypot(...q.map((x, i) => x - k[i])) ** 2) / 2,
  },

  // The Gaussian of local attention, sigma = halfWidth / 2: 1 at the centre, falling to both sides.
  gaussian: (position, centre, halfWidth) => Math.exp(-((position - centre) ** 2) / (2 * (halfWidth / 2) ** 2)),

  // Weights of local attention: the softmax over the positions within halfWidth of the centre, all others 0. The
  // Gaussian is "none", "outside" (multiplies the weights, whose sum falls) or "inside" (joins the scores).
  local(scores, centre, halfWidth, gaussian) {
    const visible = scores.map((_, s) => centre - halfWidth <= s && s <= centre + halfWidth);
    const curve = scores.map((_, s) => attentionMath.gaussian(s, centre, halfWidth));
    const bent = gaussian === "inside" ? scores.map((score, s) => score + Math.log(curve[s])) : scores;
    const weights = attentionMath.softmax(bent, 1, visible);
    return gaussian === "outside" ? weights.map((weight, s) => weight * curve[s]) : weights;
  },

  // sum_i weight_i * value_i
  weigh(weights, values) {
    return values[0].map((_, d) => weights.reduce((sum, weight, i) => sum + weight * values[i][d], 0));
  },
};
