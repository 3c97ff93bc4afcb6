"""How far each word of a translation hangs on each word of the source, in a model without attention too."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attncourse.data import Corpus, Pair, collate


def influence(model: nn.Module, corpus: Corpus, pair: Pair) -> Float[Tensor, "target source"]:
    """How far the log-probability of each target word hangs on each source word, as shares: a row sums to 1.

    The size of its gradient with respect to the source word's vector (Simonyan et al. 2014, section 3),
    divided by the sum of the row. END has the last row. For every model with a `source_embedding`.

    Raises:
        ValueError: a pair without source words.
    """
    if not pair.source:
        raise ValueError("pair has no source words: there is nothing that could have influence")
    batch = collate([pair], corpus.source_vocabulary, corpus.target_vocabulary)
    batch = batch.to(next(model.parameters()).device)
    vectors = []
    hook = model.source_embedding.register_forward_hook(lambda module, ids, found: vectors.append(found))
    model.eval()
    try:
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):  # cuDNN: no gradient in eval
            logits = model(batch.source, batch.source_lengths, batch.target_in).logits[0]
            chosen = logits.log_softmax(-1).gather(1, batch.target_out.T).squeeze(1)
            sizes = [
                torch.autograd.grad(one, vectors[0], retain_graph=True)[0][0].norm(dim=-1) for one in chosen
            ]
    finally:
        hook.remove()
    rows = torch.stack(sizes).cpu()
    return rows / rows.sum(-1, keepdim=True)
