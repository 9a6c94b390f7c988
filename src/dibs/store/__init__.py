"""Stores: the contract, and one package for each store that implements it."""
