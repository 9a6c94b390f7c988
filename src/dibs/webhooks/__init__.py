"""Delivery of a board's events to webhooks: who delivers, what a message looks like, and where it may go."""
