"""Pipelines as data: phases of passes, stages that lead to levels, what each backend goes through; and models that are on their way there."""
