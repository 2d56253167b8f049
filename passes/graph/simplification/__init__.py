"""Graph passes that compute less: constants, identities, algebra."""
