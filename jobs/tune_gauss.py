"""Tunes GaussCSE: Gaussians whose variances tell which of two sentences entails the other.

    python jobs/tune_gauss.py                        on the corpus and encoder that ship with it
    python jobs/tune_gauss.py --sampler grid:table3  the paper's own grid
    python jobs/tune_gauss.py --set reverse_weight=0 the loss "ent+con" of the paper's tables

What is searched stands in search_spaces/gauss.py; --help explains the options.
"""

import _path  # noqa: F401  the submitted code wins over an installed one

from search_spaces.gauss import DEFAULTS, SPACE
from sentune import job

if __name__ == "__main__":
    job.run(SPACE, DEFAULTS)
