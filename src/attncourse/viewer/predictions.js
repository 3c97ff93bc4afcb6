// Predictions: the reader commits, then sees. Each copy of this script starts what stands before it.
const said = (window.attnSaid ??= {});

const written = (output, value) => {
  const unit = output.dataset.unit;
  return `${Math.round(value * 100) / 100}${unit && unit !== "%" ? " " : ""}${unit}`;
};

const compare = (reveal) => {
  const answer = said[reveal.dataset.of];
  if (answer === undefined || reveal.querySelector(".attn-yours")) return;
  const yours = document.createElement("span");
  yours.className = "attn-yours";
  yours.textContent = answer === reveal.dataset.answer ? " You said so." : ` You said: ${answer}.`;
  reveal.append(yours);
};

const start = (field) => {
  if (field.dataset.started) return;
  field.dataset.started = "yes";
  const button = field.querySelector("button");
  const slider = field.querySelector("input[type=range]");
  const output = field.querySelector("output");
  field.addEventListener("input", () => {
    button.disabled = false;
    if (slider) output.textContent = written(output, slider.valueAsNumber);
  });
  if (slider) output.textContent = written(output, slider.valueAsNumber);
  button.addEventListener("click", () => {
    const answer = slider ? output.textContent : field.querySelector("input:checked").value;
    said[field.id] = answer;
    field.dataset.committed = "yes";
    for (const control of field.querySelectorAll("input, button")) control.disabled = true;
    field.querySelector(".attn-said").textContent = `You said: ${answer}. Now look.`;
    document.querySelectorAll(`.attn-reveal[data-of="${field.id}"]`).forEach(compare);
    field.dispatchEvent(new CustomEvent("attn-committed", { bubbles: true, detail: { answer } }));
  });
};

document.querySelectorAll(".attn-predict").forEach(start);
document.querySelectorAll(".attn-reveal").forEach(compare);
