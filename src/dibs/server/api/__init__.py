"""The native HTTP API: routes, schemas, the OpenAPI document, refusals."""
