"""Graph passes that reduce computation: constants, identities, algebra."""
