"""Plan of a study: cluster capacity, resources, cost estimates and checks."""
