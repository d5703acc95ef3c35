"""Tunes GaussCSE: Gaussian embeddings that tell which of two sentences entails the other.

    python jobs/tune_gauss.py                        with the built-in corpus and encoder
    python jobs/tune_gauss.py --sampler grid:table3  the paper's own grid
    python jobs/tune_gauss.py --set reverse_weight=0 the loss "ent+con" of the paper's tables

The search space is in search_spaces/gauss.py; --help explains the options.
"""

import _path  # noqa: F401  prefer the submitted code to an installed package

from search_spaces.gauss import DEFAULTS, SPACE
from sentune import job

if __name__ == "__main__":
    job.run(SPACE, DEFAULTS)
