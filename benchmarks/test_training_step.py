"""What it saves to project the keys once per source, and to keep all but the recurrence out of the loop."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attncourse.attention import attend
from attncourse.models import RNNSearch

BATCH, WORDS, SOURCE, TARGET = 32, 50, 250, 320


class ProjectsAtEveryStep(RNNSearch):
    """The same model, with U h_j computed anew for every target word, as the formula is written."""

    def _advance(self, word, hidden, memory):
        h = memory.annotations
        read = attend(hidden[:, None], h, h, score=self.score, mask=memory.mask)
        context, weights = read.context.squeeze(1), read.weights.squeeze(1)
        return self.cell(torch.cat([word, context], dim=-1), hidden), context, weights


class AsInTutorials(nn.Module):
    """The same model with the plain framework: everything in the loop, one word at a time.

    A packed bidirectional GRU; a score that concatenates the state with every annotation; a GRU of one step;
    the output layer once per word.
    """

    def __init__(self, embedding: int, hidden: int):
        super().__init__()
        self.source_embedding = nn.Embedding(SOURCE, embedding)
        self.target_embedding = nn.Embedding(TARGET, embedding)
        self.encoder = nn.GRU(embedding, hidden, batch_first=True, bidirectional=True)
        self.start = nn.Linear(hidden, hidden)
        self.attention = nn.Linear(hidden + 2 * hidden, hidden, bias=False)
        self.energy = nn.Linear(hidden, 1, bias=False)
        self.decoder = nn.GRU(embedding + 2 * hidden, hidden, batch_first=True)
        self.pieces = nn.Linear(hidden + embedding + 2 * hidden, 2 * hidden)
        self.words = nn.Linear(hidden, TARGET)

    def forward(self, source, lengths, target):
        packed = pack_padded_sequence(
            self.source_embedding(source), lengths, batch_first=True, enforce_sorted=False
        )
        states, final = self.encoder(packed)
        states, _ = pad_packed_sequence(states, batch_first=True)
        hidden = self.start(final[1]).tanh()[None]
        mask = torch.arange(source.shape[1]) < lengths[:, None]
        logits = []
        for token in target.unbind(1):
            word = self.target_embedding(token)[:, None]
            query = hidden[0][:, None].repeat(1, source.shape[1], 1)
            scores = self.energy(self.attention(torch.cat([query, states], dim=-1)).tanh())
            weights = scores.squeeze(-1).masked_fill(~mask, -1e10).softmax(-1)
            context = torch.bmm(weights[:, None], states)
            output, hidden = self.decoder(torch.cat([word, context], dim=-1), hidden)
            pieces = self.pieces(torch.cat([output, word, context], dim=-1).squeeze(1))
            logits.append(self.words(pieces.unflatten(-1, (-1, 2)).amax(-1)))
        return torch.stack(logits, dim=1)

    def take(self, model: RNNSearch) -> None:
        """The weights of a model of ours."""
        pairs = {
            "source_embedding.weight": model.source_embedding.weight,
            "target_embedding.weight": model.target_embedding.weight,
            "attention.weight": torch.cat(
                [model.score.query_projection.weight, model.score.key_projection.weight], dim=1
            ),
            "energy.weight": model.score.energy.weight,
        }
        for name, layer, suffix in [
            ("start", model.start, ""),
            ("pieces", model.output.pieces, ""),
            ("words", model.output.words, ""),
            ("encoder", model.forward_encoder, ""),
            ("encoder", model.backward_encoder, "_reverse"),
            ("decoder", model.cell, "_l0"),
        ]:
            pairs |= {f"{name}.{key}{suffix}": value for key, value in layer.state_dict().items()}
        self.load_state_dict(pairs)


@pytest.fixture(params=[96, 256], ids=lambda hidden: f"hidden {hidden}")
def model(request):
    torch.manual_seed(0)
    return RNNSearch(SOURCE, TARGET, embedding=64, hidden=request.param)


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(0)
    source = torch.randint(4, SOURCE, (BATCH, WORDS), generator=generator)
    return source, torch.full((BATCH,), WORDS), torch.randint(4, TARGET, (BATCH, WORDS), generator=generator)


def step(model, batch):
    """Forward and backward, as in training."""

    def run():
        model.zero_grad()
        output = model(*batch)
        logits = output if isinstance(output, torch.Tensor) else output.logits
        F.cross_entropy(logits.flatten(0, 1), batch[2].flatten()).backward()

    return run


def test_projected_keys_against_the_naive_loop(model, batch, ratio):
    """The wider the layers, the more their products weigh against all that a step does besides."""
    naive = ProjectsAtEveryStep(SOURCE, TARGET, embedding=64, hidden=model.cell.hidden_size)
    naive.load_state_dict(model.state_dict())
    torch.testing.assert_close(model(*batch), naive(*batch))
    found = ratio(step(model, batch), step(naive, batch))
    least = {96: 1.3, 256: 1.8}[model.cell.hidden_size]
    assert found >= least, f"projected keys make the step {found:.2f} times as fast, not {least}"


def test_our_model_against_the_way_of_tutorials(model, batch, ratio):
    peer = AsInTutorials(64, model.cell.hidden_size)
    peer.take(model)
    torch.testing.assert_close(model(*batch).logits, peer(*batch))
    found = ratio(step(model, batch), step(peer, batch))
    assert found >= 1.8, f"our step is {found:.2f} times as fast as the plain framework's, not 1.8"
