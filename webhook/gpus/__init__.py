"""GPU models: their properties, their names and node labels, and the models that a pod may get."""
