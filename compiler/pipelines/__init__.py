"""Pipelines as data: phases of passes, stages that lead to levels, the route of each backend; and models on their way."""
