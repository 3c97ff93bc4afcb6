"""Multi30k: 29,000 real captions of photographs, in English, German and French.

For research and education only; the captions belong to their authors, and the terms are those of
https://github.com/multi30k/dataset, from where the files are fetched once (1.3 MB for a pair of languages).

Please cite: Elliott, Frank, Sima'an and Specia (2016), Multi30K: Multilingual English-German Image
Descriptions; and, for the French, Elliott, Frank, Barrault, Bougares and Specia (2017), Findings of the
Second Shared Task on Multimodal Machine Translation and Multilingual Image Description.
"""

import gzip

from attncourse.data.corpora import check_counts
from attncourse.data.download import fetch
from attncourse.data.pairs import Corpus, Pair
from attncourse.data.vocabulary import Vocabulary, tokenize

ADDRESS = "https://raw.githubusercontent.com/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw"
LANGUAGES = ("de", "en", "fr")
FILES = {"train": "train", "dev": "val", "test": "test_2016_flickr"}
SHA256 = {
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "train.fr.gz": "622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "val.fr.gz": "ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9",
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "test_2016_flickr.fr.gz": "6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90",
}


def multi30k_corpus(source: str = "de", target: str = "en", min_count: int = 2) -> Corpus:
    """Captions in two languages: 29,000 to train on, 1,014 dev, 1,000 test (flickr 2016).

    Text is cut and lower-cased by `tokenize`, and so is the one reference of a pair: a BLEU score over it is
    one of lower-cased, tokenised text and must be reported as such. The vocabularies hold the tokens seen
    at least `min_count` times in train.

    Args:
        source: `de`, `en` or `fr`.
        target: another of these.
        min_count: rarer training tokens are unknown.

    Raises:
        DownloadError: a file is missing and cannot be fetched; the message says where to copy it.
    """
    for name, language in {"source": source, "target": target}.items():
        if language not in LANGUAGES:
            raise ValueError(f"{name} must be one of {', '.join(LANGUAGES)}, not {language!r}")
    if source == target:
        raise ValueError(f"source and target are both {source!r}: choose two languages")
    check_counts(1, min_count=min_count)
    parts = {
        part: tuple(Pair(s, t) for s, t in zip(_captions(file, source), _captions(file, target), strict=True))
        for part, file in FILES.items()
    }
    return Corpus(
        name=f"multi30k {source}-{target}",
        **parts,
        source_vocabulary=Vocabulary.from_sentences((pair.source for pair in parts["train"]), min_count),
        target_vocabulary=Vocabulary.from_sentences((pair.target for pair in parts["train"]), min_count),
    )


def _captions(file: str, language: str) -> list[tuple[str, ...]]:
    name = f"{file}.{language}.gz"
    path = fetch(f"multi30k/{name}", f"{ADDRESS}/{name}", SHA256[name])
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        return [tuple(tokenize(line)) for line in lines]
