"""The `flow` dialect: what `@main` does between kernel launches."""
