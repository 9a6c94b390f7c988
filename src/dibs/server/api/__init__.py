"""The native HTTP API: a route for each verb, schemas, the OpenAPI document, answers and refusals."""
