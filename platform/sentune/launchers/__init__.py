"""Where a training run takes place: in the Tune trial's own process, or on a Ray Train group."""
