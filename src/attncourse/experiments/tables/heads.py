"""Tables of heads: which of them a trained translator needs, and what those of a pretrained encoder read."""

import time
from dataclasses import replace

from attncourse.data import translation_corpus
from attncourse.experiments.declarations import Choice, Experiment, Measure, Row, Training
from attncourse.experiments.heads import AT_A_TIME, heads_measured
from attncourse.experiments.pretrained_heads import SYSTEM, read_by_the_encoder
from attncourse.experiments.rates import Cosine
from attncourse.experiments.sequences import parameters
from attncourse.experiments.tables.translators import ROTARY


def run_pruned(row: Row, seed: int) -> dict:
    """Train a translator, order its heads by the part that the row's choice names, and measure."""
    corpus, [training], [choice], [measure] = row.get_corpus(), row.trainings, row.choices, row.measures
    model = row.model(corpus, seed)
    started = time.process_time()
    history = row.fit(model, training.parts_of(corpus, seed), training, seed)
    seconds = round(time.process_time() - started, 1)
    dev, test = choice.of(corpus), measure.items(corpus)
    return {
        "parameters": parameters(model),
        "processor seconds": seconds,
        "dev loss": round(min(history.dev), 4),
        **measure.numbers(model.eval(), corpus, dev=dev, test=test, seed=seed),
    }


HEADS_PRUNED = Experiment(
    "heads_pruned",
    "English to French, a made-up corpus: a Transformer of 2 layers of width 128 with 8 heads in each of its "
    f"6 attentions. Cheapest first: {AT_A_TIME} at a time, those without which the dev loss rises least.",
    [replace(
        ROTARY, name="transformer", options={"heads": 8}, run=run_pruned,
        trainings=(Training(1_000, 32, Cosine(2e-3), evaluations=4),),
        choices=(Choice("order of the heads", "dev", 150),),
        measures=(Measure("BLEU of greedy translations with fewer and fewer heads, and what each head reads",
                          heads_measured, count=200),),
    )],
)


def run_encoder(row: Row, seed: int) -> dict:
    """What the encoder's heads read; nothing is trained."""
    [measure] = row.measures
    return measure.numbers(None, None, measure.items(row.get_corpus()))


PRETRAINED_HEADS = Experiment(
    "pretrained_heads",
    f"{SYSTEM} reads English sentences, each with a full stop; and, for the sentences that the chapter "
    "shows, all weights in thousandths.",
    [Row(SYSTEM, corpus=translation_corpus, run=run_encoder, measures=(
        Measure("mean share of a word's weight that goes where each pattern says, by layer and head",
                read_by_the_encoder, count=60),
    ))],
    seeds=(0,),
)

EXPERIMENTS = [HEADS_PRUNED, PRETRAINED_HEADS]
