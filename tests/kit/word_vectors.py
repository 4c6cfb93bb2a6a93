"""A real static model on disk, of a few words whose meanings are known."""

from pathlib import Path

import numpy as np
from model2vec import StaticModel
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

MEANINGS = (
    ("car", "automobile", "vehicle"),
    ("fast", "quick", "speedy"),
    ("mend", "repair", "fix"),
    ("cat", "kitten", "feline"),
    ("bread", "loaf", "toast"),
    ("ship", "vessel", "boat"),
)
"""Words that mean the same, and have nothing in common with the others."""


def model_in(folder: Path, turn: int = 0) -> str:
    """Writes a model of those words and gives its folder. Another `turn` makes another model."""
    words = [word for group in MEANINGS for word in group]
    vocabulary = {word: number for number, word in enumerate(["[UNK]", *words])}
    rng = np.random.default_rng(5)
    vectors = np.zeros((len(vocabulary), 8), np.float32)
    for number, group in enumerate(MEANINGS):
        for word in group:
            vectors[vocabulary[word], (number + turn) % 8] = 1
            vectors[vocabulary[word]] += rng.normal(0, 0.05, 8).astype(np.float32)
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    StaticModel(vectors, tokenizer).save_pretrained(folder)
    return str(folder)
