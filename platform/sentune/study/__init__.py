"""A study: its search space, samplers, schedulers, store, runner and plan."""
