"""Tunes GumbelCSE: boxes that tell which of two sentences entails the other.

    python jobs/tune_gumbel.py                       on the corpus and encoder that ship with it
    python jobs/tune_gumbel.py --dry-run             the plan alone
    python jobs/tune_gumbel.py --corpus snli:TRAIN --dev snli:DEV --test snli:TEST --encoder PATH

What is searched stands in search_spaces/gumbel.py; --help explains the options.
"""

import _path  # noqa: F401  the submitted code wins over an installed one

from search_spaces.gumbel import SPACE
from sentune import job

# Eight trials and two seeds of the best, on two cores a few minutes with the builtin corpus.
DEFAULTS = job.JobOptions(
    study="gumbel",
    storage=job.default_storage(),
    trials=8,
    max_examples=27_000,
    finalists=1,
    seeds=2,
)

if __name__ == "__main__":
    job.run(SPACE, DEFAULTS)
