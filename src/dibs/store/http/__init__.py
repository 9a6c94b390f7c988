"""A board behind a server: the same contract, each verb one request."""
